"""Elements that each iteration of the outermost loop of a kernel reads and writes."""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping, Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

from tg2hdl_ir.analysis.affine import AffineAnalysis
from tg2hdl_ir.analysis.constraints import Constraints
from tg2hdl_ir.analysis.ranges import RangeAnalysis
from tg2hdl_ir.nodes import IRBufLoad, IRBufStore, IRCounter, IRValue, KernelIR, LoopIR

__all__ = ["RowAccess", "row_accesses", "row_loop"]


_FEW = 8
"""Rows that are looked at one by one."""


class RowAccess(NamedTuple):
    """Elements from `first` up to, not including, `end` that an iteration accesses; none where these are equal."""

    first: int
    end: int


def row_loop(kernel: KernelIR) -> LoopIR | None:
    """The outermost loop, where there is one only, with a constant bound."""
    loops = [item for item in kernel.loop_tree.items if isinstance(item, LoopIR)]
    if len(kernel.loop_tree.items) != 1 or not loops or not isinstance(loops[0].bound, int):
        return None
    return loops[0]


def row_accesses(kernel: KernelIR, slot: int, *, writes: bool) -> list[RowAccess] | None:
    """Elements of a buffer that each iteration of the outermost loop reads or writes; None where data decides.

    Accesses that their gates leave out do not count.

    Parameters
    ----------
    slot : int
        The buffer.
    writes : bool
        Whether writes are meant, or else reads.
    """
    known = _known.setdefault(kernel, {})
    if (slot, writes) not in known:
        known[slot, writes] = _all_accesses(kernel, slot, writes=writes)
    return known[slot, writes]


_known: MutableMapping[KernelIR, dict[tuple[int, bool], list[RowAccess] | None]] = WeakKeyDictionary()
"""Of the kernels that are alive: each is asked for many times while a program is planned."""


def _all_accesses(kernel: KernelIR, slot: int, *, writes: bool) -> list[RowAccess] | None:
    loop = row_loop(kernel)
    assert loop is not None, "asked for kernels with rows"
    counter, depth = loop.counter, kernel.buffer(slot).depth
    assert counter is not None, "only the root has no counter"
    kind = IRBufStore if writes else IRBufLoad
    accesses = [s for s in kernel.loop_tree.statements() if isinstance(s, kind) and s.buf_idx == slot]
    known: dict[int, RowAccess | None] = {}

    def at(row: int) -> RowAccess | None:
        if row not in known:
            known[row] = _access(accesses, counter, row, depth)
        return known[row]

    assert isinstance(counter.bound, int), "row loops have constant bounds"
    found: dict[int, RowAccess] = {}
    parts = [(0, counter.bound - 1)]
    while parts:
        low, high = parts.pop()
        middle = (low + high) // 2
        looked_at = [at(row) for row in (low, low + 1, middle, high - 1, high) if low <= row <= high]
        ends = [access for access in looked_at if access is not None]
        if len(ends) < len(looked_at):
            return None
        if high - low < _FEW or not _is_line(low, high, ends):
            if high - low < _FEW:
                found |= {row: access for row in range(low, high + 1) if (access := at(row)) is not None}
            else:
                parts += [(low, middle), (middle + 1, high)]
            continue
        steps = [(y - x) // (high - low) for x, y in zip(ends[0], ends[-1], strict=True)]
        found |= {
            row: RowAccess(*(x + (row - low) * step for x, step in zip(ends[0], steps, strict=True)))
            for row in range(low, high + 1)
        }
    if len(found) < counter.bound:
        return None
    return [found[row] for row in range(counter.bound)]


def _is_line(low: int, high: int, ends: Sequence[RowAccess]) -> bool:
    """Whether accesses of the first two, the middle and the last two rows, clipped lines, lie on a line."""
    rows = (low, low + 1, (low + high) // 2, high - 1, high)
    return all(
        (y - each[0]) == (row - low) * (each[1] - each[0])
        for each in zip(*ends, strict=True)
        for row, y in zip(rows, each, strict=True)
    )


def _access(
    accesses: Sequence[IRBufLoad | IRBufStore], counter: IRCounter, row: int, depth: int
) -> RowAccess | None:
    ends = _ends(((s.addr, s.gate) for s in accesses), counter, row)
    if ends is None:
        return None
    inside = [(max(low, 0), min(high + 1, depth)) for low, high in ends]
    inside = [(first, end) for first, end in inside if first < end]
    first = min((f for f, _ in inside), default=0)
    return RowAccess(first, max((e for _, e in inside), default=first))


def _ends(
    accesses: Iterable[tuple[IRValue, IRValue | None]], counter: IRCounter, row: int
) -> list[tuple[int, int]] | None:
    ranges = RangeAnalysis(values={counter: (row, row)})
    affine = AffineAnalysis(ranges)
    ends = []
    for address, gate in accesses:
        form = affine.of(address)
        if form is None:
            return None
        known = Constraints(gate, ranges, affine, partly=True)
        if any(known.interval(condition)[0] > 0 for condition in known.conditions):
            continue
        ends.append(known.interval(form))
    return ends
