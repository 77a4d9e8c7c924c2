"""A workload: a model, its inputs, and the expected figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

__all__ = ["BenchCase", "Peer", "Workload"]


@dataclass(frozen=True)
class Peer:
    """Figures of another system on the same work.

    Parameters
    ----------
    cycles : int
        Clock cycles of one result.
    mhz : float, optional
        Clock on the same family of parts, where it was measured.
    note : str
        Further figures.
    """

    system: str
    cycles: int
    mhz: float | None = None
    note: str = ""

    @property
    def microseconds(self) -> float | None:
        """Time of one result; None without a clock."""
        return None if self.mhz is None else self.cycles / self.mhz


@dataclass(frozen=True)
class BenchCase:
    """One compilation of a workload.

    Parameters
    ----------
    multipliers : int
        Budget of multiplying lanes; 0 lets the planner choose.
    limit : int
        Clock cycles that it may take.
    ideal : int
        Clock cycles when every lane works in every cycle.
    options : mapping
        Further fields of `tg2hdl.CompileOptions`.
    peers : tuple of Peer
        Other systems on the same work.
    """

    multipliers: int
    limit: int
    ideal: int
    options: Mapping[str, Any] = field(default_factory=dict)
    peers: tuple[Peer, ...] = ()


@dataclass(frozen=True)
class Workload:
    """A model and how it is measured.

    Parameters
    ----------
    model : callable
        Makes the model: a function of tensors, as `tg2hdl.compile` takes it.
    inputs : callable
        Makes the input arrays from a numpy Generator.
    macs : int
        Multiply-accumulates of one run, 0 for other work.
    """

    name: str
    model: Callable[[], Callable[..., Any]]
    inputs: Callable[[np.random.Generator], tuple[np.ndarray, ...]]
    cases: tuple[BenchCase, ...]
    macs: int = 0
