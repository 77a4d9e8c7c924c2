"""Counts of elements that say when a row may run, and when the host may move an element.

Each buffer has two for each reader: how many of its elements are there beyond those that the reader needs next, and how
much room there is beyond what the writer needs next.  A count below zero blocks its taker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby, pairwise

import numpy as np
import numpy.typing as npt

from tg2hdl_ir import KernelIR, UnsupportedError
from tg2hdl_ir.analysis.rows import RowAccess, row_accesses
from tg2hdl_lower import HardwarePlan, MemoryPlan

__all__ = ["HOST", "Ledger", "Steps", "known_accesses", "read_range", "row_ledgers"]

HOST = -1
"""The host as a party of a ledger, in place of the number of a kernel: it moves one element at a time."""

MOST_STEPS = 8
"""Different amounts in a row, from which on equal ones are taken that are at least as safe."""

_WAY_OUT = 'choose another schedule, such as schedule="dataflow", or make rows outermost, with channels last'

Steps = tuple[tuple[int, int], ...]
"""Amounts of the runs of a frame: so many runs with this amount, and so on."""


@dataclass(frozen=True)
class Ledger:
    """A count of elements or words.

    Parameters
    ----------
    buffer : str
        Memory whose contents it counts.
    giver, taker : int
        Kernels, or `HOST`.  A giver adds at the end of a run, a taker subtracts at the start of one; the taker waits
        while the count is below zero.
    initial : int
    given, taken : Steps
        Amounts by run, from frame to frame; empty for the host, which moves one.
    """

    buffer: str
    giver: int
    taker: int
    initial: int
    given: Steps
    taken: Steps

    def format(self, kernels: Sequence[str]) -> str:
        """One line."""
        giver, taker = (
            "host" if party == HOST else f"k{party} {kernels[party]}" for party in (self.giver, self.taker)
        )
        return f"{taker} waits for {giver} at {self.buffer}: {self.initial}, +{_text(self.given)}, -{_text(self.taken)}"

    @property
    def extremes(self) -> tuple[int, int]:
        """Bounds of the count: what a frame gives, and what it takes, beyond the initial count."""
        largest = [max((amount for _, amount in steps), default=1) for steps in (self.given, self.taken)]
        total = sum(runs * amount for runs, amount in self.given or self.taken)
        return -total - abs(self.initial) - largest[1], total + abs(self.initial) + largest[0]


def _text(steps: Steps) -> str:
    return " ".join(f"{runs}x{amount}" for runs, amount in steps) or "1"


def row_ledgers(plans: Sequence[HardwarePlan], memories: Sequence[MemoryPlan]) -> tuple[Ledger, ...]:
    """Ledgers of all buffers that rows of planned kernels read and write.

    Parameters
    ----------
    plans : sequence of HardwarePlan
        Of all kernels; each runs row by row.
    memories : sequence of MemoryPlan

    Raises
    ------
    UnsupportedError
        When a kernel does not write its rows in order, or data decides what it reads.
    """
    found: list[Ledger] = []
    for memory in memories:
        if memory.role.is_rom or memory.role.is_weight or memory.contents is not None:
            continue
        found += _Buffer(plans, memory).ledgers()
    return tuple(found)


def known_accesses(kernel: KernelIR, slot: int, name: str, *, writes: bool) -> list[RowAccess]:
    """Elements of a buffer that each row reads or writes, see `row_accesses`.

    Parameters
    ----------
    name : str
        Of the buffer, for the error.

    Raises
    ------
    UnsupportedError
        When data decides which elements these are.
    """
    found = row_accesses(kernel, slot, writes=writes)
    if found is None:
        raise UnsupportedError(
            f"data decides which elements of {name!r} a row needs",
            where=kernel.where,
            hint='choose another schedule, such as schedule="dataflow"',
        )
    return found


def read_range(rows: Sequence[RowAccess], depth: int) -> tuple[list[int], list[int]]:
    """For each row: the first element read from it on, and the end of the elements read up to it.

    Parameters
    ----------
    rows : sequence of RowAccess
        Reads of each row.
    depth : int
        Elements of the buffer: the first element where no later row reads any.
    """
    firsts = [row.first if row.first < row.end else depth for row in rows]
    kept = [*accumulate(reversed(firsts), min)][::-1]
    return kept, [*accumulate((row.end for row in rows), max)]


class _Buffer:
    def __init__(self, plans: Sequence[HardwarePlan], memory: MemoryPlan) -> None:
        self.plans, self.memory = plans, memory
        self.words: npt.NDArray[np.int64] = memory.layout.place(
            np.arange(memory.layout.depth, dtype=np.int64)
        )[0]
        self.lowest = np.minimum.accumulate(self.words[::-1])[::-1]
        self.highest = np.maximum.accumulate(self.words)
        self.ring = memory.ring or memory.layout.words
        # The next frame begins where the ring does.
        self.frame = -(-memory.layout.words // self.ring) * self.ring

    def ledgers(self) -> list[Ledger]:
        slots = sorted(self.memory.slots)
        writers = [
            (k, b) for k, b in slots if any(p.buffer == b and not p.reads for p in self.plans[k].ports)
        ]
        readers = [(k, b) for k, b in slots if any(p.buffer == b and p.reads for p in self.plans[k].ports)]
        role, found = self.memory.role, []
        for kernel, buffer in readers:
            found += self._to_kernel(writers, kernel, self._accesses(kernel, buffer, writes=False))
        if role.host_reads:
            found += self._to_host(*writers[0])
        return found

    def _accesses(self, kernel: int, buffer: int, *, writes: bool) -> list[RowAccess]:
        return known_accesses(self.plans[kernel].kernel, buffer, self.memory.name, writes=writes)

    def _written(self, kernel: int, buffer: int) -> list[int]:
        """Elements that are there after each run."""
        rows = self._accesses(kernel, buffer, writes=True)
        if (
            rows[0].first
            or rows[-1].end != len(self.words)
            or any(a.end != b.first for a, b in pairwise(rows))
        ):
            raise UnsupportedError(
                f"the rows of {self.memory.name!r} are not written in the order of its elements",
                where=self.plans[kernel].kernel.where,
                hint=_WAY_OUT,
            )
        return [row.end for row in rows]

    def _to_kernel(
        self, writers: Sequence[tuple[int, int]], kernel: int, rows: Sequence[RowAccess]
    ) -> list[Ledger]:
        name, depth = self.memory.name, len(self.words)
        kept, needed = read_range(rows, depth)
        low = [int(self.lowest[e]) if e < depth else self.frame for e in kept]
        needed.append(depth + needed[0])
        low.append(self.frame + low[0])
        if not writers:
            room = [self._writable(word + self.ring) for word in low]
            return [
                _ledger(name, HOST, kernel, 0, [], needed),
                _ledger(name, kernel, HOST, -1, room, []),
            ]
        (writer, buffer), *_ = writers
        written = self._written(writer, buffer)
        ends = [int(self.highest[e - 1]) + 1 - self.ring for e in written]
        ends.append(self.frame + ends[0])
        return [
            _ledger(name, writer, kernel, 0, [0, *written], needed),
            _ledger(name, kernel, writer, 0, low, ends),
        ]

    def _to_host(self, kernel: int, buffer: int) -> list[Ledger]:
        name, depth, written = self.memory.name, len(self.words), self._written(kernel, buffer)
        taken = [self._read_before(int(self.highest[e - 1]) - self.ring) for e in written]
        taken.append(depth + taken[0])
        return [
            _ledger(name, kernel, HOST, -1, [0, *written], []),
            _ledger(name, HOST, kernel, 0, [], taken),
        ]

    def _writable(self, word: int) -> int:
        """Elements, also of the next frame, before the first one in this word or a later one."""
        here = int(np.searchsorted(self.highest, word))
        if here < len(self.words):
            return here
        return here + int(np.searchsorted(self.highest, word - self.frame))

    def _read_before(self, word: int) -> int:
        """Elements up to the last one in this word or an earlier one; a negative word is one of the frame before."""
        if word < 0:
            return self._read_before(word + self.frame) - len(self.words)
        return int(np.searchsorted(self.lowest, word, side="right"))


def _ledger(
    buffer: str, giver: int, taker: int, initial: int, given: Sequence[int], taken: Sequence[int]
) -> Ledger:
    """The ledger of totals before each run, and before the first one of the next frame."""
    given, taken = _stepped(given), [-n for n in _stepped([-n for n in taken])]
    first = (given[0] if given else 0) - (taken[0] if taken else 0)
    return Ledger(buffer, giver, taker, initial + first, _steps(given), _steps(taken))


def _steps(totals: Sequence[int]) -> Steps:
    amounts = (b - a for a, b in pairwise(totals))
    return tuple((len([*same]), amount) for amount, same in groupby(amounts))


def _stepped(totals: Sequence[int]) -> list[int]:
    """The totals, or smaller ones that grow by the same amount in most runs."""
    if len(_steps(totals)) <= MOST_STEPS:
        return [*totals]
    (step, _), *_ = Counter(b - a for a, b in pairwise(totals)).most_common(1)
    behind = [step * n - (total - totals[0]) for n, total in enumerate(totals)]
    least = max((n for n in behind if n < abs(step)), default=0)
    size, first = max(1, abs(step)), totals[0] - least
    found = [first + (total - first) // size * size for total in totals[:-1]]
    return [*found, first + totals[-1] - totals[0]]
