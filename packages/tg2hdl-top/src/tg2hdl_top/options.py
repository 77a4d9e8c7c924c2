"""Options of a whole design."""

from __future__ import annotations

from dataclasses import dataclass

from tg2hdl_ir.errors import InputError
from tg2hdl_lower import LowerOptions
from tg2hdl_top.external.memory_model import ExternalMemory

__all__ = ["CompileOptions"]


@dataclass(frozen=True)
class CompileOptions(LowerOptions):
    """Options of the lowering, and of the design around the kernels.

    Parameters
    ----------
    weights : {"rom", "loadable", "external"}
        Weights are the contents of read-only memories, or are written through host ports at run time, or are in memory
        outside the chip as far as they do not fit in `on_chip_bits`.
    ports : tuple of str
        Kinds of host ports; each serves what it can of what earlier ones leave.
    schedule : str
        Policy for when kernels start: ``serial`` runs one after the other, ``overlap`` starts each at a fixed time, as
        soon as the words that it reads are there, and orders their steps for it, ``dataflow`` starts runs at a fixed
        interval while others work; ``auto`` is ``overlap`` without other orders where that saves at least one
        cycle in a hundred, and ``serial`` otherwise.
    fold_batchnorm : bool
        Whether a scale of weights after a float sum, such as that of a BatchNorm after a convolution or a linear layer,
        becomes part of the weights that are summed: no multiplier and fewer cycles, but sums are rounded elsewhere.
    cut_kernels : bool
        Whether kernels are cut at reductions where two take fewer cycles than one.
    share_kernels : bool
        Whether equal kernels are one core that runs several times, where the schedule allows it.
    share_multipliers : bool
        Whether the kernels, which run one at a time, use the same multipliers; with three kernels and 96
        multipliers or more each product takes a cycle more than `product_latency`.
    share_units : bool
        Whether they use the same floating-point units too, outside of recurrences; each takes one cycle more, for the
        output register of the kernel multiplexer.
    on_chip_bits : int, optional
        Bits of memory on the chip; ``weights="external"`` needs them.
    memory_port : str
        Port to memory outside the chip: ``axi4``, ``wishbone`` (classic bursts), ``wishbone-pipelined``.
    memory : ExternalMemory, optional
        That memory, for the prediction of cycles and for simulation, and the width and bursts of its port; what the
        port assumes unless given.
    """

    weights: str = "rom"
    ports: tuple[str, ...] = ("native",)
    schedule: str = "auto"
    fold_batchnorm: bool = False
    cut_kernels: bool = True
    share_kernels: bool = True
    share_multipliers: bool = True
    share_units: bool = False
    on_chip_bits: int | None = None
    memory_port: str = "axi4"
    memory: ExternalMemory | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.weights not in ("rom", "loadable", "external"):
            raise InputError(
                f"weights={self.weights!r} is unknown", hint='choose "rom", "loadable" or "external"'
            )
        if self.on_chip_bits is not None and self.on_chip_bits < 1:
            raise InputError(f"on_chip_bits={self.on_chip_bits}", hint="give the bits of memory on the chip")
        if not isinstance(self.ports, tuple | list) or not all(isinstance(port, str) for port in self.ports):
            raise InputError(f"ports={self.ports!r} is no tuple of names", hint='give e.g. ports=("native",)')
        for name in ("fold_batchnorm", "cut_kernels", "share_kernels", "share_multipliers", "share_units"):
            if not isinstance(getattr(self, name), bool):
                raise InputError(f"{name}={getattr(self, name)!r} is unknown", hint="choose True or False")

    @property
    def chooses_lanes(self) -> bool:
        """Whether the planner chooses the lanes of each kernel."""
        return self.unroll_factor == 1 and self.reduce_unroll_factor == 1
