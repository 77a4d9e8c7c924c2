"""Registers that reduce, and the ranges of integer ones: trip count times the range of one contribution."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tg2hdl_ir.analysis.ranges import Interval, RangeAnalysis
from tg2hdl_ir.nodes import IROp, IRRegLoad, IRRegStore, IRStatement, IRValue, KernelIR, LoopIR

__all__ = ["RunningReduction", "accumulator_ranges", "reductions"]


@dataclass(frozen=True, eq=False)
class RunningReduction:
    """A register that starts from a value and then only adds, or takes an extremum.

    Parameters
    ----------
    start, update : IRRegStore
    own : IRRegLoad
        Value before the update.
    term : IRValue
        Operand of each update.
    loops : tuple of LoopIR
        Those of the update that the start is outside of.
    """

    start: IRRegStore
    update: IRRegStore
    own: IRRegLoad
    term: IRValue
    loops: tuple[LoopIR, ...]

    @property
    def op(self) -> str:
        """``add``, ``max`` or ``min``."""
        assert isinstance(self.update.value, IROp), "a reduction"
        return self.update.value.op


def reductions(kernel: KernelIR) -> dict[int, RunningReduction]:
    """The registers of one element that only reduce, by number."""
    stores: dict[int, list[tuple[IRRegStore, tuple[LoopIR, ...]]]] = {}
    for statement, path in _placed(kernel.loop_tree, ()):
        if isinstance(statement, IRRegStore):
            stores.setdefault(statement.reg, []).append((statement, path))
    found = {}
    for register in kernel.registers:
        mine = stores.get(register.idx, [])
        if len(mine) == 2 and register.size == 1:
            reduction = _reduction(*mine)
            if reduction is not None:
                found[register.idx] = reduction
    return found


def accumulator_ranges(
    kernel: KernelIR, buffers: Mapping[int, Interval] | None = None
) -> dict[int, Interval]:
    """Intervals of the integer registers of a canonical kernel that only reduce.

    Registers that could overflow, or that are used in any other way, are not listed.

    Parameters
    ----------
    kernel : KernelIR
        Canonical.
    buffers : mapping of int to Interval, optional
        Values that buffers have, by slot; all of their types unless given.
    """
    ranges = RangeAnalysis(buffers=buffers)
    result: dict[int, Interval] = {}
    for number, reduction in reductions(kernel).items():
        dtype = kernel.register(number).dtype
        if dtype.is_float:
            continue
        low, high = _interval(ranges, reduction)
        if dtype.min_value <= low and high <= dtype.max_value:
            result[number] = low, high
    return result


def _placed(loop: LoopIR, path: tuple[LoopIR, ...]) -> list[tuple[IRStatement, tuple[LoopIR, ...]]]:
    placed: list[tuple[IRStatement, tuple[LoopIR, ...]]] = []
    for item in loop.items:
        placed.extend(_placed(item, (*path, item)) if isinstance(item, LoopIR) else [(item, path)])
    return placed


def _reduction(
    start: tuple[IRRegStore, tuple[LoopIR, ...]], update: tuple[IRRegStore, tuple[LoopIR, ...]]
) -> RunningReduction | None:
    (init, outer), (store, inner) = start, update
    value = store.value
    if init.gate is not None or store.gate is not None or inner[: len(outer)] != outer:
        return None
    if not isinstance(value, IROp) or value.op not in ("add", "max", "min"):
        return None
    own = [s for s in value.srcs if isinstance(s, IRRegLoad) and s.reg == store.reg]
    if len(own) != 1:
        return None
    other = value.srcs[1] if value.srcs[0] is own[0] else value.srcs[0]
    return RunningReduction(init, store, own[0], other, inner[len(outer) :])


def _interval(ranges: RangeAnalysis, reduction: RunningReduction) -> Interval:
    low, high = ranges.of(reduction.start.value)
    xlow, xhigh = ranges.of(reduction.term)
    if reduction.op != "add":
        return min(low, xlow), max(high, xhigh)
    trips = 1
    for loop in reduction.loops:
        trips *= loop.bound if isinstance(loop.bound, int) else ranges.of(loop.bound)[1]
    return low + trips * min(0, xlow), high + trips * max(0, xhigh)
