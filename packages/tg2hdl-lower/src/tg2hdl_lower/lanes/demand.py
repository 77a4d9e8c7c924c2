"""What a step of a kernel asks of a buffer: words to read and to write, and elements to pick out of them."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tg2hdl_ir.analysis.affine import Affine, AffineAnalysis
from tg2hdl_ir.analysis.axes import axes_of
from tg2hdl_ir.analysis.constraints import Constraints
from tg2hdl_ir.analysis.ranges import RangeAnalysis
from tg2hdl_ir.nodes import IRBufLoad, IRBufStore, IRCounter, KernelIR, is_const
from tg2hdl_ir.passes.flatten import flatten
from tg2hdl_ir.passes.leaves import leaf_paths
from tg2hdl_lower.memory.demand import BufferDemand, effective_statements, needed_values
from tg2hdl_lower.memory.layout import Layout, Row, RowElement

__all__ = ["Access", "BufferAccesses", "BufferUse", "buffer_accesses"]


@dataclass(frozen=True)
class Access:
    """A load or store of a leaf loop.

    Parameters
    ----------
    form : Affine, optional
        Its address; None for one that depends on data.
    axes : frozenset of int
        Of the loops whose lanes make an access each where the address depends on data.
    """

    leaf: int
    buffer: int
    store: bool
    form: Affine | None
    axes: frozenset[int]
    constraints: Constraints


def _accesses(kernel: KernelIR) -> list[Access]:
    ranges = RangeAnalysis()
    analysis = AffineAnalysis(ranges)
    paths = list(leaf_paths(flatten(kernel).loop_tree))
    leaves = [effective_statements(path[-1]) for path in paths]
    around = [frozenset(loop.counter.axis for loop in path if loop.counter is not None) for path in paths]
    return [
        Access(
            leaf,
            s.buf_idx,
            isinstance(s, IRBufStore),
            analysis.of(s.addr),
            around[leaf] if isinstance(s, IRBufStore) else around[leaf] & axes_of(s.addr),
            Constraints(s.gate, ranges, analysis),
        )
        for leaf, statements in enumerate(leaves)
        for needed in [needed_values(statements)]
        for s in statements
        if isinstance(s, IRBufStore) or (isinstance(s, IRBufLoad) and s in needed and not is_const(s.gate, 0))
    ]


def buffer_accesses(kernel: KernelIR) -> dict[int, BufferAccesses]:
    """All memory accesses of a kernel, by buffer."""
    found = _accesses(kernel)
    return {b.idx: BufferAccesses([a for a in found if a.buffer == b.idx]) for b in kernel.buffers}


@dataclass(frozen=True)
class BufferUse(BufferDemand):
    """Words that a step of the busiest leaf reads and writes, and what lies around its lanes.

    Parameters
    ----------
    cost : int
        Accesses and elements to choose from, of a step of each leaf.
    multiplexed : int
        Inputs of the multiplexers that pick the elements of a step.
    widest : int
        Inputs of the widest one.
    """

    cost: int
    multiplexed: int
    widest: int


class BufferAccesses:
    """Accesses of a kernel to one of its buffers."""

    def __init__(self, found: Sequence[Access]) -> None:
        self.found = found
        forms = [f for a in found for f in (a.form, *a.constraints.conditions) if f is not None]
        symbols = (symbol for form in forms for symbol, _ in form.terms)
        self._axes = {s.axis for s in symbols if isinstance(s, IRCounter)}
        self._known: dict[tuple[tuple[tuple[int, int], ...], Layout], BufferUse] = {}

    def use(self, lanes: Mapping[int, int], layout: Layout) -> BufferUse:
        """What a step asks for with these lanes per axis."""
        every = any(a.form is None for a in self.found)
        key = (tuple((n, lanes[n]) for n in sorted(lanes) if every or n in self._axes), layout)
        if key not in self._known:
            self._known[key] = self._use(lanes, layout)
        return self._known[key]

    def _use(self, lanes: Mapping[int, int], layout: Layout) -> BufferUse:
        leaves = [self._step(number, lanes, layout) for number in sorted({a.leaf for a in self.found})]
        return BufferUse(
            max((use.reads for use in leaves), default=0),
            max((use.writes for use in leaves), default=0),
            sum(use.cost for use in leaves),
            sum(use.multiplexed for use in leaves),
            max((use.widest for use in leaves), default=0),
        )

    def _step(self, leaf: int, lanes: Mapping[int, int], layout: Layout) -> BufferUse:
        """What a step of one leaf asks for."""
        words: dict[bool, set[object]] = {False: set(), True: set()}
        stored: Counter[tuple[Affine, int]] = Counter()
        rows: dict[Row, set[int]] = {}
        picked: dict[tuple[bool, Affine], int] = {}
        for number, access in enumerate(self.found):
            if access.leaf != leaf:
                continue
            if access.form is None:
                axes = sorted(axis for axis in access.axes if axis in lanes)
                words[access.store].update((number, *at.values()) for at in _open_lanes(access, axes, lanes))
                continue
            places = list(_placements(access, lanes, layout))
            if access.store:
                stored.update({place.fixed for place in places if place.fixed is not None})
            for place in places:
                if place.fixed is not None:
                    words[access.store].add(place.fixed[0])
                    continue
                picked[access.store, place.form] = layout.lanes
                if place.element is None or access.store:
                    words[access.store].add((place.form, number))
                else:
                    row = place.element.row
                    rows.setdefault(row, set()).add(place.element.const)
                    picked[False, place.form] = row.choices
        reads = len(words[False])
        reads += sum(row.span(consts).words for row, consts in rows.items())
        # Each time that an element is stored again, its word is written again.
        again: dict[Affine, int] = {}
        for (word, _), times in stored.items():
            again[word] = max(again.get(word, 0), times - 1)
        writes, multiplexed = len(words[True]) + sum(again.values()), sum(picked.values())
        widest = max((count for (store, _), count in picked.items() if not store), default=0)
        return BufferUse(reads, writes, reads + writes + multiplexed, multiplexed, widest)


def _unrolled(form: Affine, lanes: Mapping[int, int]) -> tuple[Affine, dict[int, int]]:
    """Form of the first lane over the shortened counters, and per lane axis the distance of its lanes."""
    base = Affine(form.const)
    distances: dict[int, int] = {}
    for symbol, coefficient in form.terms:
        factor = lanes.get(symbol.axis, 1) if isinstance(symbol, IRCounter) else 1
        if factor == 1 or not isinstance(symbol, IRCounter) or not isinstance(symbol.bound, int):
            base = base.plus(Affine(0, ((symbol, coefficient),)))
            continue
        steps = -(-symbol.bound // factor)
        if steps > 1:
            shorter = IRCounter(steps, symbol.depth, symbol.axis, symbol.dtype)
            base = base.plus(Affine(0, ((shorter, coefficient * factor),)))
        distances[symbol.axis] = coefficient
    return base, distances


class _Placement(NamedTuple):
    """Element address of a lane of an access; its word and lane where they are fixed, or its place in a row."""

    form: Affine
    fixed: tuple[Affine, int] | None
    element: RowElement | None = None


def _placements(access: Access, lanes: Mapping[int, int], layout: Layout) -> Iterator[_Placement]:
    """Where each lane of an access finds its element, without lanes whose gate is never true."""
    assert access.form is not None, "only affine accesses are placed"
    base, distances = _unrolled(access.form, lanes)
    # Lanes beyond a bound are masked: it is enough that the access without lanes stays in its dimensions.
    digits = layout.digits(access.form, access.constraints.interval) if layout.lanes > 1 else None
    parts = [_unrolled(digit, lanes) for digit in digits or ()]
    first = [digit for digit, _ in parts]
    fixed = layout.fixed_lane(first) if digits is not None else None
    elements = layout.row_elements(first) if first and fixed is None else None
    for at in _open_lanes(access, distances, lanes):
        form = base.offset(_distance(distances, at))
        if layout.lanes == 1:
            yield _Placement(form, (form, 0))
        elif digits is None:
            yield _Placement(form, None)
        elif fixed is not None:
            # The lanes of an access differ only in constants.
            word, lane = layout.place_of([digit.const + _distance(moved, at) for digit, moved in parts])
            yield _Placement(form, (Affine(word, fixed[0].terms), lane))
        else:
            element = elements([_distance(moved, at) for _, moved in parts]) if elements else None
            yield _Placement(form, None, element)


def _open_lanes(
    access: Access, axes: Collection[int], lanes: Mapping[int, int]
) -> Iterator[Mapping[int, int]]:
    """Lanes of some axes, without those in which the gate is never true: no hardware is built for them."""
    ranges = RangeAnalysis()
    # Smallest value of each condition without the terms of these axes, and those by axis: coefficient and bound.
    conditions: list[tuple[int, dict[int, tuple[int, int]]]] = []
    for condition in access.constraints.conditions:
        low, moved = condition.const, {}
        for symbol, coefficient in condition.terms:
            if isinstance(symbol, IRCounter) and symbol.axis in axes and isinstance(symbol.bound, int):
                moved[symbol.axis] = coefficient, symbol.bound
            else:
                low += min(coefficient * end for end in ranges.of(symbol))
        conditions.append((low, moved))
    for numbers in itertools.product(*(range(lanes[axis]) for axis in axes)):
        at = dict(zip(axes, numbers, strict=True))
        if all(_least(low, moved, at, lanes) <= 0 for low, moved in conditions):
            yield at


def _least(
    low: int, moved: Mapping[int, tuple[int, int]], at: Mapping[int, int], lanes: Mapping[int, int]
) -> int:
    """Smallest value of a condition in these lanes, whose last iterations are within the bounds."""
    for axis, (coefficient, bound) in moved.items():
        last = max(at[axis], bound - 1 - (bound - 1 - at[axis]) % lanes[axis])
        low += min(coefficient * at[axis], coefficient * last)
    return low


def _distance(distances: Mapping[int, int], at: Mapping[int, int]) -> int:
    """What a form is greater by in these lanes than in the first ones."""
    return sum(distance * at[axis] for axis, distance in distances.items())
