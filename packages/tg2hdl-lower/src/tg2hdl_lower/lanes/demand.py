"""The accesses of a step of a kernel to a buffer: words to read and to write, and elements to pick out of them."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from weakref import WeakKeyDictionary

from tg2hdl_ir import (
    Affine,
    AffineAnalysis,
    IRBufLoad,
    IRBufStore,
    IRCounter,
    KernelIR,
    RangeAnalysis,
    is_const,
)
from tg2hdl_ir.analysis.affine import LinearAnalysis, Symbol
from tg2hdl_ir.analysis.axes import axes_of
from tg2hdl_ir.analysis.constraints import Constraints
from tg2hdl_ir.passes.flatten import flatten
from tg2hdl_ir.passes.leaves import leaf_paths
from tg2hdl_lower.memory.demand import BufferDemand, effective_statements, needed_values
from tg2hdl_lower.memory.layout import Layout, Row

__all__ = ["BufferAccesses", "BufferUse", "LaneAccess", "buffer_accesses"]


@dataclass(frozen=True)
class LaneAccess:
    """A load or store of a leaf loop.

    Parameters
    ----------
    form : Affine, optional
        Its address; None for one that depends on data.
    axes : frozenset of int
        Of the loops whose lanes make an access each where the address depends on data.
    chosen : bool
        Whether the form has terms that are not counters, as of a row that data choose; lanes along it share words.
    """

    leaf: int
    buffer: int
    store: bool
    form: Affine | None
    axes: frozenset[int]
    constraints: Constraints
    chosen: bool = False


def _accesses(kernel: KernelIR, partly: bool) -> list[LaneAccess]:
    ranges = RangeAnalysis()
    affine, linear = AffineAnalysis(ranges), LinearAnalysis(ranges)
    paths = list(leaf_paths(flatten(kernel).loop_tree))
    leaves = [effective_statements(path[-1]) for path in paths]
    around = [frozenset(loop.counter.axis for loop in path if loop.counter is not None) for path in paths]
    stored = [{s.buf_idx for s in leaf if isinstance(s, IRBufStore)} for leaf in leaves]

    def access(leaf: int, s: IRBufLoad | IRBufStore) -> LaneAccess:
        form, store = affine.of(s.addr), isinstance(s, IRBufStore)
        if form is None and s.buf_idx not in stored[leaf] and (mixed := linear.mixed(s.addr)) is not None:
            axes = around[leaf] & frozenset[int]().union(*map(axes_of, mixed.values))
            constraints = Constraints(s.gate, ranges, linear, partly=partly)
            return LaneAccess(leaf, s.buf_idx, store, mixed, axes, constraints, chosen=True)
        axes = around[leaf] if store else around[leaf] & axes_of(s.addr)
        return LaneAccess(
            leaf, s.buf_idx, store, form, axes, Constraints(s.gate, ranges, affine, partly=partly)
        )

    return [
        access(leaf, s)
        for leaf, statements in enumerate(leaves)
        for needed in [needed_values(statements)]
        for s in statements
        if isinstance(s, IRBufStore) or (isinstance(s, IRBufLoad) and s in needed and not is_const(s.gate, 0))
    ]


def buffer_accesses(kernel: KernelIR, *, partly: bool = False) -> dict[int, BufferAccesses]:
    """All memory accesses of a kernel, by buffer; `partly` as of `Constraints`.

    Parameters
    ----------
    kernel : KernelIR
        Of any form; the accesses are those of its flattened loops.
    partly : bool, default False
    """
    known = _known.setdefault(kernel, {})
    if partly not in known:
        # `partly` makes no difference for buffers without gates: their accesses are taken over.
        kept = {n: use for n, use in buffer_accesses(kernel).items() if not use.gated} if partly else {}
        found = _accesses(kernel, partly) if len(kept) < len(kernel.buffers) else []
        known[partly] = {
            b.idx: kept.get(b.idx) or BufferAccesses([a for a in found if a.buffer == b.idx])
            for b in kernel.buffers
        }
    return known[partly]


_known: MutableMapping[KernelIR, dict[bool, dict[int, BufferAccesses]]] = WeakKeyDictionary()
"""Of the kernels that are alive: a kernel is placed several times."""


@dataclass(frozen=True)
class BufferUse(BufferDemand):
    """Words that a step of the busiest leaf reads and writes, and those around its lanes.

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


_Factors = tuple[tuple[int, int], ...]
"""Lanes by axis."""
_Terms = tuple[tuple[Symbol, int], ...]


class BufferAccesses:
    """Accesses of a kernel to one of its buffers."""

    def __init__(self, found: Sequence[LaneAccess]) -> None:
        self.found = found
        self._every = any(a.form is None for a in found)
        forms = [f for a in found for f in (a.form, *a.constraints.conditions) if f is not None]
        symbols = (symbol for form in forms for symbol, _ in form.terms)
        self._axes = {s.axis for s in symbols if isinstance(s, IRCounter)}
        self._axes |= {axis for a in found if a.chosen for axis in a.axes}
        self._known: dict[tuple[_Factors, Layout], BufferUse] = {}
        self._open: dict[tuple[int, _Factors], _OpenLanes] = {}
        self._digits: dict[tuple[int, Layout], list[Affine] | None] = {}

    @property
    def gated(self) -> bool:
        """Whether a gate implies anything about an access."""
        return any(a.constraints.conditions for a in self.found)

    def factors(self, lanes: Mapping[int, int]) -> _Factors:
        """Those of the lanes per axis that matter to the buffer."""
        return tuple((n, lanes[n]) for n in sorted(lanes) if self._every or n in self._axes)

    def use(self, lanes: Mapping[int, int], layout: Layout) -> BufferUse:
        """The accesses of a step with these lanes per axis.

        Parameters
        ----------
        lanes : mapping of int to int
            By axis.
        layout : Layout
            Of the buffer.
        """
        key = self.factors(lanes), layout
        if key not in self._known:
            self._known[key] = self._use(*key)
        return self._known[key]

    def _use(self, factors: _Factors, layout: Layout) -> BufferUse:
        leaves = [self._step(number, factors, layout) for number in sorted({a.leaf for a in self.found})]
        return BufferUse(
            max((use.reads for use in leaves), default=0),
            max((use.writes for use in leaves), default=0),
            sum(use.cost for use in leaves),
            sum(use.multiplexed for use in leaves),
            max((use.widest for use in leaves), default=0),
        )

    def _step(self, leaf: int, factors: _Factors, layout: Layout) -> BufferUse:
        """The accesses of a step of one leaf; addresses are known by their terms and constants."""
        words: dict[bool, set[object]] = {False: set(), True: set()}
        stored: Counter[tuple[_Terms, int, int]] = Counter()
        rows: dict[object, tuple[Row, set[int]]] = {}
        picked: dict[tuple[bool, object, int], int] = {}
        lanes = dict(factors)
        for number, access in enumerate(self.found):
            if access.leaf != leaf:
                continue
            if access.form is None:
                axes = sorted(axis for axis in access.axes if axis in lanes)
                words[access.store].update((number, *at.values()) for at in _open_lanes(access, axes, lanes))
                continue
            if (number, factors) not in self._open:
                self._open[number, factors] = _OpenLanes.of(access, access.form, lanes)
            form, elements, opened = self._open[number, factors]
            if (number, layout) not in self._digits:
                # Lanes beyond a bound are masked: it is enough that the access without lanes stays in its dimensions.
                self._digits[number, layout] = layout.digits(access.form, access.constraints.interval)
            digits = self._digits[number, layout]
            parts = [_unrolled(digit, lanes) for digit in digits or ()]
            first = [digit for digit, _ in parts]
            # The lanes of an access differ only in constants.
            positions = [[d.const + _distance(moved, at) for d, moved in parts] for at in opened]
            if access.chosen:
                for at, element, position in zip(opened, elements, positions, strict=True):
                    lane = tuple(at[axis] for axis in sorted(access.axes) if axis in lanes)
                    if digits is None:
                        words[False].add((number, *at.values()))
                        picked[False, (form.terms, lane), element] = layout.lanes
                        continue
                    parted, choices = layout.chosen_word(first, position)
                    words[False].add((*parted, lane if any(digit.values for digit in parted) else ()))
                    if choices > 1:
                        picked[False, (form.terms, lane), element] = choices
                continue
            fixed = layout.fixed_lane(first) if digits is not None else None
            if layout.lanes == 1 or fixed is not None:
                terms, places = form.terms, {(element, 0) for element in elements}
                if layout.lanes > 1 and fixed is not None:
                    terms, places = fixed[0].terms, {layout.place_of(position) for position in positions}
                words[access.store].update((terms, word) for word, _ in places)
                if access.store:
                    stored.update((terms, word, lane) for word, lane in places)
                continue
            found = None if digits is None or access.store else layout.row_element(first)
            choices = layout.lanes if found is None else found.row.choices
            picked |= {(access.store, form.terms, element): choices for element in elements}
            if found is None:
                words[access.store].update((form.terms, element, number) for element in elements)
                continue
            row = found.row
            shape = row.word.terms, row.digit, tuple(m.form.terms for m in row.others)
            for place, const in layout.row_places(first, positions):
                rows.setdefault((shape, place), (row, set()))[1].add(const)
        reads = len(words[False])
        reads += sum(row.span(consts).words for row, consts in rows.values())
        # Each time that an element is stored again, its word is written again.
        again: dict[tuple[_Terms, int], int] = {}
        for (terms, word, _), times in stored.items():
            again[terms, word] = max(again.get((terms, word), 0), times - 1)
        writes, multiplexed = len(words[True]) + sum(again.values()), sum(picked.values())
        widest = max((count for (store, *_), count in picked.items() if not store), default=0)
        return BufferUse(reads, writes, reads + writes + multiplexed, multiplexed, widest)


def _unrolled(form: Affine, lanes: Mapping[int, int]) -> tuple[Affine, dict[int, int]]:
    """Form of the first lane over the shortened counters, and per lane axis the distance of its lanes."""
    terms: list[tuple[Symbol, int]] = []
    distances: dict[int, int] = {}
    for symbol, coefficient in form.terms:
        factor = lanes.get(symbol.axis, 1) if isinstance(symbol, IRCounter) else 1
        if factor == 1 or not isinstance(symbol, IRCounter) or not isinstance(symbol.bound, int):
            terms.append((symbol, coefficient))
            continue
        steps = -(-symbol.bound // factor)
        if steps > 1:
            terms.append((IRCounter(steps, symbol.depth, symbol.axis, symbol.dtype), coefficient * factor))
        distances[symbol.axis] = coefficient
    return Affine(form.const, tuple(terms)), distances


class _OpenLanes(NamedTuple):
    """Lanes of an access: the address of the first one, those of all by their constants, and their numbers by axis."""

    form: Affine
    elements: tuple[int, ...]
    numbers: tuple[Mapping[int, int], ...]

    @classmethod
    def of(cls, access: LaneAccess, form: Affine, lanes: Mapping[int, int]) -> _OpenLanes:
        """Those of an affine access, without lanes whose gate is never true."""
        base, distances = _unrolled(form, lanes)
        own = (axis for axis in sorted(access.axes) if access.chosen and axis in lanes)
        numbers = tuple(_open_lanes(access, dict.fromkeys((*distances, *own)), lanes))
        return cls(base, tuple(base.const + _distance(distances, at) for at in numbers), numbers)


def _open_lanes(
    access: LaneAccess, axes: Collection[int], lanes: Mapping[int, int]
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
    """The difference of a form in these lanes from its value in the first ones."""
    return sum(distance * at[axis] for axis, distance in distances.items())
