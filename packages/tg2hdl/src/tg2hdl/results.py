"""Summaries of planned kernels, and results of a simulation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_backend import Cycles

__all__ = ["Cycles", "KernelSummary", "SimulationResult", "labelled", "labels_of"]

_SHOWN = 3
"""Labels of an output that are shown."""


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
        Multiplications that its results need: none counts again for further results, or in iterations that drop it;
        those by constants take no multiplier and do not count.
    products : int
        Products on multipliers that give these MACs: fewer where two of narrow operands are computed as one.
    notes : tuple of str
        Choices of the planner, with reasons.
    layer : str
        Modules of the model whose weights it reads, or its place in the user's program; may be empty.
    """

    name: str
    steps: int
    ii: int
    cycles: int
    multipliers: int
    macs: int
    products: int
    notes: tuple[str, ...] = ()
    layer: str = ""

    @property
    def ratio(self) -> float | None:
        """``cycles x multipliers / products``: 1.0 when every multiplier is always busy; None without either."""
        return self.cycles * self.multipliers / self.products if self.products and self.multipliers else None


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


def labels_of(model: Any, output: str) -> tuple[str, ...]:
    """Strings that the numbers of an output, or the positions along its last axis, stand for; empty without.

    Parameters
    ----------
    model
        With an attribute `labels`, if it has any.
    output : str
        Name.
    """
    labels = getattr(model, "labels", None)
    return tuple(labels.get(output, ())) if isinstance(labels, Mapping) else ()


def labelled(labels: tuple[str, ...], output: npt.NDArray[Any]) -> str:
    """The largest numbers of an output with their labels, or the labels of its numbers; empty where they do not fit.

    Parameters
    ----------
    labels : tuple of str
        One for each number, or for each position along the last axis.
    output : ndarray
    """
    numbers = np.asarray(output)
    if numbers.ndim and numbers.shape[-1] == len(labels):
        row = numbers.reshape(-1, len(labels))[0]
        largest = np.argsort(-row.astype(np.float64), kind="stable")[:_SHOWN]
        return ", ".join(f"{labels[n]} {row[n]}" for n in largest)
    if numbers.dtype.kind not in "iu" or numbers.size > _SHOWN:
        return ""
    places = [int(n) for n in numbers.reshape(-1)]
    return ", ".join(labels[n] for n in places) if all(0 <= n < len(labels) for n in places) else ""
