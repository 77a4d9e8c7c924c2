"""The decision of a sequencing policy, as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from tg2hdl_ir.records import OPTIONAL
from tg2hdl_lower.plan.resources import UNITS
from tg2hdl_top.sequencer.ledgers import Ledger

__all__ = ["SequencerPlan", "SharedWindow", "Sharing", "read_use", "write_use"]

_T = TypeVar("_T")


def read_use(memory: str, port: int) -> str:
    """Use of a read port of a memory.

    Parameters
    ----------
    memory : str
        Name.
    port : int
        Number.
    """
    return f"{memory}.r{port}"


def write_use(memory: str) -> str:
    """Use of the write port of a memory."""
    return f"{memory}.w"


@dataclass(frozen=True)
class Sharing:
    """Which hardware serves several kernels.

    Parameters
    ----------
    multipliers : bool
        Whether all kernels use one set of multipliers.
    held_operands : bool
        Whether registers hold the operands of idle kernels at zero, in place of multiplexers.
    cores : bool
        Whether a core runs several calls; it is busy until each is done.
    """

    multipliers: bool
    held_operands: bool
    cores: bool = False

    def of(self, uses: Mapping[str, _T]) -> dict[str, _T]:
        """Those uses of pools that kernels share."""
        return {pool: use for pool, use in uses.items() if self.multipliers or pool == UNITS}


@dataclass(frozen=True)
class SharedWindow:
    """When a kernel has shared hardware to itself while others run.

    Parameters
    ----------
    kernel : int
    use : str
        A pool of multipliers or units (`SharedResource.pool`), or a port of a memory.
    first, last : int
        Cycles after `start` in which its flag is high.
    """

    kernel: int
    use: str
    first: int
    last: int


@dataclass(frozen=True)
class SequencerPlan:
    """The sequencing policy of the kernels, and its decisions.

    Parameters
    ----------
    policy : str
    starts : tuple of int
        Start pulse of each kernel in cycles after `start`; empty where kernels start when others are done.
    latency : int
        Cycles from `start` to `done`; 0 where the kernels decide.
    interval : int
        Cycles from one run to the next one that may start while it runs; 0 where runs follow each other.
    windows : tuple of SharedWindow
        Flags that select among kernels that run at the same time; all others are selected while they are busy.
    notes : tuple of str
        Remarks for a reader of the design.
    followers : tuple of (int, int)
        Kernels that start before the one before them is done, and how many cycles after its start; they end last.
    rows : tuple of int
        Runs of each kernel in a frame, where each row is one.
    ledgers : tuple of Ledger
        What rows and the host wait for.
    """

    policy: str
    starts: tuple[int, ...] = ()
    latency: int = 0
    interval: int = 0
    windows: tuple[SharedWindow, ...] = ()
    notes: tuple[str, ...] = ()
    followers: tuple[tuple[int, int], ...] = ()
    rows: tuple[int, ...] = field(default=(), metadata=OPTIONAL)
    ledgers: tuple[Ledger, ...] = field(default=(), metadata=OPTIONAL)

    def format(self, kernels: Sequence[str]) -> list[str]:
        """Lines for the named kernels of a design: starts, windows and notes."""
        lines = [f"  a run every {self.interval} cycles"] if self.interval else []
        lines += [f"  start of k{n} {kernels[n]}: cycle {start}" for n, start in enumerate(self.starts)]
        lines += [
            f"  k{n} {kernels[n]} follows k{n - 1}: {delay} cycles after its start"
            for n, delay in self.followers
        ]
        lines += [f"  k{n} {kernels[n]}: {count} runs, one for each row" for n, count in enumerate(self.rows)]
        lines += [f"  {ledger.format(kernels)}" for ledger in self.ledgers]
        lines += [f"  window {w.use} of k{w.kernel}: cycles {w.first} to {w.last}" for w in self.windows]
        return lines + [f"  note: {note}" for note in self.notes]

    def window(self, kernel: int, use: str) -> int | None:
        """Number of the window of a kernel's use; None where it has none.

        Parameters
        ----------
        kernel : int
            Number.
        use : str
            Such as the name of `read_use`.
        """
        return next((n for n, w in enumerate(self.windows) if (w.kernel, w.use) == (kernel, use)), None)
