"""Ranges of integer accumulators: trip count times the range of one contribution."""

from __future__ import annotations

from collections.abc import Mapping

from tg2hdl_ir.analysis.ranges import Interval, RangeAnalysis
from tg2hdl_ir.nodes import IROp, IRRegLoad, IRRegStore, IRStatement, KernelIR, LoopIR

__all__ = ["accumulator_ranges"]


def accumulator_ranges(
    kernel: KernelIR, buffers: Mapping[int, Interval] | None = None
) -> dict[int, Interval]:
    """Intervals of the registers of a canonical kernel that start from a value and then only add, or take an extremum.

    Registers that could overflow, or that are used in any other way, are not listed.

    Parameters
    ----------
    kernel : KernelIR
        Canonical.
    buffers : mapping of int to Interval, optional
        Values that buffers have, by slot; all of their types unless given.
    """
    stores: dict[int, list[tuple[IRRegStore, tuple[LoopIR, ...]]]] = {}
    for statement, path in _placed(kernel.loop_tree, ()):
        if isinstance(statement, IRRegStore):
            stores.setdefault(statement.reg, []).append((statement, path))
    ranges = RangeAnalysis(buffers=buffers)
    result: dict[int, Interval] = {}
    for register in kernel.registers:
        found = stores.get(register.idx, [])
        if register.dtype.is_float or len(found) != 2 or register.size != 1:
            continue
        interval = _interval(ranges, found[0], found[1])
        full = (register.dtype.min_value, register.dtype.max_value)
        if interval is not None and full[0] <= interval[0] and interval[1] <= full[1]:
            result[register.idx] = interval
    return result


def _placed(loop: LoopIR, path: tuple[LoopIR, ...]) -> list[tuple[IRStatement, tuple[LoopIR, ...]]]:
    placed: list[tuple[IRStatement, tuple[LoopIR, ...]]] = []
    for item in loop.items:
        placed.extend(_placed(item, (*path, item)) if isinstance(item, LoopIR) else [(item, path)])
    return placed


def _interval(
    ranges: RangeAnalysis,
    start: tuple[IRRegStore, tuple[LoopIR, ...]],
    update: tuple[IRRegStore, tuple[LoopIR, ...]],
) -> Interval | None:
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
    low, high = ranges.of(init.value)
    xlow, xhigh = ranges.of(other)
    if value.op != "add":
        return min(low, xlow), max(high, xhigh)
    trips = 1
    for loop in inner[len(outer) :]:
        trips *= loop.bound if isinstance(loop.bound, int) else ranges.of(loop.bound)[1]
    return low + trips * min(0, xlow), high + trips * max(0, xhigh)
