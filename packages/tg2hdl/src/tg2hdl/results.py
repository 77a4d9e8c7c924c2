"""Summaries of planned kernels, and results of a simulation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tg2hdl_backend.cycles import Cycles

__all__ = ["Cycles", "KernelSummary", "SimulationResult"]


@dataclass(frozen=True)
class KernelSummary:
    """A kernel of an accelerator, as planned.

    Parameters
    ----------
    name : str
    steps : int
        Issued steps of the pipeline.
    ii : int
        Initiation interval (cycles).
    cycles : int
        Predicted clock cycles, fill and drain included.
    multipliers : int
        Multipliers of the datapath, without those of addresses.
    macs : int
        Multiplications that the kernel executes.
    notes : tuple of str
        What the planner chose, and why.
    layer : str
        Modules of the model whose weights it reads, or what made it in the user's program; may be empty.
    """

    name: str
    steps: int
    ii: int
    cycles: int
    multipliers: int
    macs: int
    notes: tuple[str, ...] = ()
    layer: str = ""

    @property
    def ratio(self) -> float | None:
        """``cycles x multipliers / MACs``: 1.0 when every multiplier is always busy; None without MACs."""
        return self.cycles * self.multipliers / self.macs if self.macs else None


@dataclass(frozen=True, eq=False)
class SimulationResult:
    """Result of `Accelerator.simulate`.

    Parameters
    ----------
    output : ndarray, or what the model returns with arrays for tensors
        In the model's shape and dtype.
    cycles : Cycles
    engine : str
        Name of the engine that ran.
    seconds : float
        Wall time of the run, without building the simulation.
    codes : ndarray, or what the model returns with arrays for tensors
        The bits of the hardware: of a quantized model the integers that stand for the values, otherwise the output.
    """

    output: Any
    cycles: Cycles
    engine: str
    seconds: float
    codes: Any

    def _repr_html_(self) -> str:
        from tg2hdl.html_templates import html_table

        cycles = self.cycles
        rows = [(f"kernel {number}", f"{count:,}") for number, count in enumerate(cycles.kernels)]
        rows += [("load", f"{cycles.load:,}"), ("start to done", f"{cycles.compute:,}")]
        rows += [("read back", f"{cycles.readback:,}"), ("total", f"{cycles.total:,}")]
        return html_table(f"simulated on {self.engine} in {self.seconds:.2f} s", ("", "cycles"), rows)
