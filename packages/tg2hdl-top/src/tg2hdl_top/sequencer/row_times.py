"""Times of rows that run as soon as their data and their room are there, while the host never waits."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, repeat

from tg2hdl_ir import CapacityError
from tg2hdl_top.sequencer.ledgers import HOST, Ledger, Steps

__all__ = ["RowTimes", "row_times"]

FRAMES = 4
"""Frames after which the times of the next one are those of the last one, an interval later."""


class RowTimes:
    """First start and last end of each kernel in the first frame, and the cycles from frame to frame.

    Cycle 0 is that of the first element of the first frame.
    """

    def __init__(self, starts: Sequence[int], ends: Sequence[int], interval: int) -> None:
        self.starts, self.ends, self.interval = tuple(starts), tuple(ends), interval


def row_times(rows: Sequence[int], cycles: Sequence[int], ledgers: Sequence[Ledger]) -> RowTimes:
    """Follow the ledgers from event to event.

    Parameters
    ----------
    rows : sequence of int
        Runs of each kernel in a frame.
    cycles : sequence of int
        Clock cycles of a run of each kernel.
    ledgers : sequence of Ledger

    Raises
    ------
    CapacityError
        When all wait for each other.
    """
    return _Simulation(rows, cycles, ledgers).run()


class _Simulation:
    def __init__(self, rows: Sequence[int], cycles: Sequence[int], ledgers: Sequence[Ledger]) -> None:
        self.rows, self.cycles, self.ledgers = rows, cycles, ledgers
        self.counts = [ledger.initial for ledger in ledgers]
        self.done = [0] * len(rows)
        """Runs of each kernel that are done."""
        self.given = [_amounts(each.given) for each in ledgers]
        self.taken = [_amounts(each.taken) for each in ledgers]
        kernels, every = range(len(rows)), [*enumerate(ledgers)]
        self.waits = [[n for n, each in every if each.taker == kernel] for kernel in kernels]
        self.gives = [[n for n, each in every if each.giver == kernel] for kernel in kernels]
        self.host = {
            buffer: (
                [n for n, each in every if (each.buffer, each.taker) == (buffer, HOST)],
                [n for n, each in every if (each.buffer, each.giver) == (buffer, HOST)],
            )
            for buffer in dict.fromkeys(each.buffer for each in ledgers if HOST in (each.giver, each.taker))
        }

    def run(self) -> RowTimes:
        time, last = 0, len(self.rows) - 1
        starts, ends, frames = dict[int, int](), dict[int, int](), list[int]()
        running: tuple[int, int] | None = None
        while len(frames) < FRAMES:
            ending = running is not None and running[1] == time
            kernel = self._ready() if running is None or ending else None
            moving = [b for b, (waits, _) in self.host.items() if all(self.counts[n] >= 0 for n in waits)]
            step = 1 if ending or kernel is not None else self._until(moving, running, time)
            for buffer in moving:
                waits, gives = self.host[buffer]
                for n in waits:
                    self.counts[n] -= step
                for n in gives:
                    self.counts[n] += step
            if ending and running is not None:
                before = running[0]
                running = None
                self._end(before)
                if self.done[before] == self.rows[before]:
                    ends[before] = time
                if before == last and self.done[before] % self.rows[before] == 0:
                    frames.append(time)
            if kernel is not None:
                starts.setdefault(kernel, time)
                running = kernel, time + self.cycles[kernel]
                for n in self.waits[kernel]:
                    self.counts[n] -= next(self.taken[n])
            time += step
        kernels = range(len(self.rows))
        return RowTimes([starts[k] for k in kernels], [ends[k] for k in kernels], frames[-1] - frames[-2])

    def _ready(self) -> int | None:
        """The last kernel that may run."""
        ready = (
            k for k in reversed(range(len(self.rows))) if all(self.counts[n] >= 0 for n in self.waits[k])
        )
        return next(ready, None)

    def _end(self, kernel: int) -> None:
        self.done[kernel] += 1
        for n in self.gives[kernel]:
            self.counts[n] += next(self.given[n])

    def _until(self, moving: Sequence[str], running: tuple[int, int] | None, time: int) -> int:
        """Cycles until something else happens than that the host moves elements."""
        waits = [] if running is None else [running[1] - time]
        for buffer in moving:
            taken, given = self.host[buffer]
            waits += [self.counts[n] + 1 for n in taken]
            waits += [-self.counts[n] for n in given if self.counts[n] < 0]
        if not waits:
            raise CapacityError(
                "all rows wait for each other: a buffer has no room for the elements that its reader needs",
                hint='choose another schedule, such as schedule="dataflow"',
            )
        return max(1, min(waits))


def _amounts(steps: Steps) -> chain[int]:
    """Amounts of all runs, frame after frame."""

    def frames() -> chain[int]:
        return chain.from_iterable(repeat(amount, runs) for runs, amount in steps)

    return chain.from_iterable(iter(frames, None))
