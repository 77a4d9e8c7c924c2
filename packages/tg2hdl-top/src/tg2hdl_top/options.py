"""Options of a whole design."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from tg2hdl_ir import InputError
from tg2hdl_ir.records import OPTIONAL
from tg2hdl_lower import LowerOptions
from tg2hdl_top.external.memory_model import ExternalMemory
from tg2hdl_top.loop import Loop

__all__ = ["VALIDATIONS", "CompileOptions"]

VALIDATIONS = ("auto", "full", "each", "off")
"""How much of a design is compared with the program that it was made of."""

VALIDATE_VARIABLE = "TG2HDL_VALIDATE"


@dataclass(frozen=True)
class CompileOptions(LowerOptions):
    """Options of the lowering, and of the design around the kernels.

    Parameters
    ----------
    weights : {"rom", "loadable", "external"}
        ``rom``: weights are the contents of read-only memories.  ``loadable``: they are written through host ports at
        run time.  ``external``: those that do not fit in `on_chip_bits` are in memory outside the chip.
    ports : tuple of str
        Kinds of host ports; each serves the buffers that it can serve and no earlier port serves.
    schedule : str
        Policy for when kernels start.  ``serial`` runs one after the other.  ``overlap`` starts each at a fixed time,
        as soon as the words that it reads are there, and orders the steps of kernels for it.  ``dataflow`` starts runs
        at a fixed interval while others work.  ``rows`` computes each row of a stream as soon as its elements are
        there, with a few rows on the chip instead of frames.  ``auto`` is ``overlap`` without other orders if that
        saves at least one cycle in 200, and ``serial`` otherwise, except for kernels that follow the sums of the one
        before them.
    fold_batchnorm : bool
        Whether a scale of weights after a float sum, such as that of a BatchNorm after a convolution or a linear layer,
        becomes part of the weights that are summed.  That saves multipliers and cycles, but sums are rounded at other
        places.
    cut_kernels : bool
        Whether kernels are cut at reductions where two take fewer cycles than one.
    share_kernels : bool
        Whether equal kernels are one core that runs several times, where the schedule allows it.
    share_multipliers : bool
        Whether the kernels, which run one at a time, use the same multipliers; with three kernels and 96
        multipliers or more each product takes a cycle more than `product_latency`.
    share_units : bool
        Whether the kernels share floating-point units too, outside of recurrences; each unit takes one cycle more, for
        the output register of the kernel multiplexer.
    share_memories : bool
        Whether buffers that are not needed at the same time share block RAMs; neither results nor cycles change.
    host_state : bool
        Whether host ports with a register map read and write the state, which runs update in place.  Without it equal
        layers that have state of their own can be one core: the host reaches one buffer of an array.
    on_chip_bits : int, optional
        Bits of block RAM on the chip; ``weights="external"`` needs them.  A memory takes whole blocks, each with as
        many bits per word as the family has.
    memory_port : str
        Port to memory outside the chip: ``axi4``, ``wishbone`` (classic bursts), ``wishbone-pipelined`` or ``sdram``.
    memory : ExternalMemory, optional
        Model of that memory, for the prediction of cycles and for simulation, and the width and bursts of its port;
        the port's defaults unless given.
    validate : {"auto", "full", "each", "off"}
        Whether the design is compared with the program that it was made of: both are evaluated, bit for bit, on inputs
        that expose wrong rewrites.  ``auto`` does as much as takes little time next to the compilation, ``full``
        compares everything, ``each`` also evaluates after each rewrite, which takes several times as long.  The
        variable ``TG2HDL_VALIDATE`` replaces ``auto``.
    validate_keep : str, optional
        Folder for a wrong rewrite: the program or kernel before and after it, and the inputs that show the difference.
    loop : Loop or bool
        Whether the design feeds its output back to its input by itself, run after run, until a value, a number of
        results or the end of a counter; for `Accelerator.generate` and `Device.generate`.
    """

    weights: str = "rom"
    ports: tuple[str, ...] = ("native",)
    schedule: str = "auto"
    fold_batchnorm: bool = False
    cut_kernels: bool = True
    share_kernels: bool = True
    share_multipliers: bool = True
    share_units: bool = False
    share_memories: bool = True
    host_state: bool = True
    on_chip_bits: int | None = None
    memory_port: str = "axi4"
    memory: ExternalMemory | None = None
    validate: str = "auto"
    validate_keep: str | None = None
    loop: Loop | None = field(default=None, metadata=OPTIONAL)

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.loop, bool):
            object.__setattr__(self, "loop", Loop() if self.loop else None)
        elif self.loop is not None and not isinstance(self.loop, Loop):
            raise InputError(f"loop={self.loop!r} is unknown", hint="choose True, False or tg2hdl.Loop(...)")
        if self.weights not in ("rom", "loadable", "external"):
            raise InputError(
                f"weights={self.weights!r} is unknown", hint='choose "rom", "loadable" or "external"'
            )
        if self.validate not in VALIDATIONS:
            raise InputError(
                f"validate={self.validate!r} is unknown", hint=f"choose {', '.join(map(repr, VALIDATIONS))}"
            )
        if self.on_chip_bits is not None and self.on_chip_bits < 1:
            raise InputError(f"on_chip_bits={self.on_chip_bits}", hint="give the bits of memory on the chip")
        if not isinstance(self.ports, tuple | list) or not all(isinstance(port, str) for port in self.ports):
            raise InputError(
                f"ports={self.ports!r} is not a tuple of names", hint='give e.g. ports=("native",)'
            )
        shares = ("share_kernels", "share_multipliers", "share_units", "share_memories")
        for name in ("fold_batchnorm", "cut_kernels", "host_state", *shares):
            if not isinstance(getattr(self, name), bool):
                raise InputError(f"{name}={getattr(self, name)!r} is unknown", hint="choose True or False")

    @property
    def validation(self) -> str:
        """How the design is validated, after the environment variable."""
        given = os.environ.get(VALIDATE_VARIABLE, "") if self.validate == "auto" else ""
        if given and given not in VALIDATIONS:
            raise InputError(
                f"{VALIDATE_VARIABLE}={given!r} is unknown",
                hint=f"choose {', '.join(map(repr, VALIDATIONS))}",
            )
        return given or self.validate

    @property
    def chooses_lanes(self) -> bool:
        """Whether the planner chooses the lanes of each kernel."""
        return self.unroll_factor == 1 and self.reduce_unroll_factor == 1
