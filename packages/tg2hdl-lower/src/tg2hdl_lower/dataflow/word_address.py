"""Word addresses: from the element that a kernel asks for to a word of its memory and a lane in it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

from tg2hdl_ir import Affine, DType, IRCounter, IRValue, const_int
from tg2hdl_ir.analysis.constraints import Constraints
from tg2hdl_lower.dataflow.leaf_nodes import LeafNodes
from tg2hdl_lower.memory.layout import Layout, Row, RowElement
from tg2hdl_lower.plan.accesses import WordLane
from tg2hdl_lower.plan.values import Address, DigitSplit, LaneIndex, WordPosition

__all__ = ["WordAddress", "WordAddresses"]


@dataclass(frozen=True)
class MovingLane:
    """A lane that changes from step to step: `offset` beyond one of some `places`.

    Elements of one word whose lanes differ only in `offset` are never in the same lane.
    """

    offset: int
    places: tuple[int, ...]
    positions: tuple[int, ...]
    weights: tuple[int, ...]


@dataclass(frozen=True)
class WordAddress:
    """Node of the word address; `lane` is fixed, or computed by `position`.

    Equal words of affine addresses have the same `node`, so that lanes can share an access.

    Parameters
    ----------
    after : int, optional
        Node of the address of another word, in which the element is for some values of `position`.
    choices : tuple of WordLane
        The lanes that the values of `position` select; empty where they are the lanes.
    moving : MovingLane, optional
        How `position` moves, if it is affine.
    """

    node: int
    lane: int = 0
    position: int | None = None
    affine: bool = True
    after: int | None = None
    choices: tuple[WordLane, ...] = ()
    moving: MovingLane | None = None

    @property
    def words(self) -> tuple[int, ...]:
        """Nodes of the addresses of all words in which the element may be."""
        return (self.node,) if self.after is None else (self.node, self.after)


class WordAddresses:
    """Builds the address nodes of a leaf.

    An affine address costs a register and an adder.  Where the lane changes from step to step, its position in the
    word is kept in a small register too, and carries into the word address.  Only data-dependent addresses, and those
    whose digits carry, are divided by the lanes.

    Parameters
    ----------
    value : callable
        Number of the node of an IR value.
    """

    def __init__(self, leaf: LeafNodes, value: Callable[[IRValue], int]) -> None:
        self.leaf = leaf
        self.value = value
        self._starts: dict[int, dict[Row, int]] = {}

    def needs_element(self, buffer: int, addr: IRValue, gate: IRValue | None) -> bool:
        """Whether the element address itself must be computed first.

        Parameters
        ----------
        buffer : int
            Slot.
        addr : IRValue
            Element of the buffer.
        gate : IRValue or None
            Condition of the access.
        """
        form = self.leaf.affine.of(addr)
        layout = self.leaf.layouts[buffer]
        if form is None:
            return layout.lanes == 1 or self._chosen_digits(layout, addr, gate) is None
        return layout.lanes > 1 and self._digits(layout, form, gate) is None

    def of(self, buffer: int, addr: IRValue, gate: IRValue | None, *, loads: bool = False) -> WordAddress:
        """Address of one access; loads of elements in a row share their words.

        Parameters
        ----------
        buffer : int
            Slot.
        addr : IRValue
            Element of the buffer.
        gate : IRValue or None
            Condition of the access.
        loads : bool, default False
            Whether it is a load, which may share words with others.
        """
        layout = self.leaf.layouts[buffer]
        form = self.leaf.affine.of(addr)
        if form is not None and layout.lanes == 1:
            return WordAddress(self._affine(form))
        if layout.lanes == 1:
            return WordAddress(self.value(addr), affine=False)
        digits = None if form is None else self._digits(layout, form, gate)
        if digits is None and loads and (chosen := self._chosen_digits(layout, addr, gate)) is not None:
            return self._chosen(layout, chosen, addr.dtype)
        if digits is None:
            return self._divided(layout, addr)
        fixed = layout.fixed_lane(digits)
        if fixed is not None:
            return WordAddress(self._affine(fixed[0]), fixed[1])
        element = layout.row_element(digits) if loads else None
        return self._moving(layout, digits) if element is None else self._in_a_row(buffer, layout, element)

    def _affine(self, word: Affine) -> int:
        if word.is_constant:
            return self.value(const_int(word.const))
        return self.leaf.affine_value(word, DType.INT32)

    def _digits(self, layout: Layout, form: Affine, gate: IRValue | None) -> list[Affine] | None:
        """Digits that need no division: with a fixed lane, or over counters with constant bounds."""
        known = [
            Constraints(gate, self.leaf.ranges, self.leaf.affine, partly=partly) for partly in (False, True)
        ]
        digits = next((d for c in known if (d := layout.digits(form, c.interval)) is not None), None)
        if digits is None or layout.fixed_lane(digits) is not None:
            return digits
        constant = all(isinstance(loop.bound, int) for loop in self.leaf.path)
        return digits if constant and all(isinstance(s, IRCounter) for s, _ in form.terms) else None

    def _chosen_digits(self, layout: Layout, addr: IRValue, gate: IRValue | None) -> list[Affine] | None:
        """Digits of an address with terms that are not affine; lanes may have taken the place of all counters."""
        form = self.leaf.linear.of(addr) if self.leaf.affine.of(addr) is None else None
        if form is None:
            return None
        known = (
            Constraints(gate, self.leaf.ranges, self.leaf.linear, partly=partly) for partly in (False, True)
        )
        return next((d for c in known if (d := layout.digits(form, c.interval)) is not None), None)

    def _chosen(self, layout: Layout, digits: list[Affine], dtype: DType) -> WordAddress:
        """Address by its digits: only those in which the lane changes are divided."""
        folder = self.leaf.folder
        base, lane = Affine(0), 0
        words: list[IRValue] = []
        moving: list[tuple[IRValue, range, int, int]] = []
        for n, (digit, split) in enumerate(zip(digits, layout.split, strict=True)):
            stride, weight = math.prod(layout.rows[n + 1 :]), math.prod(layout.split[n + 1 :])
            step = math.gcd(split, *(c for _, c in digit.terms))
            if step == split:
                offset = digit.const % split
                reduced = Affine(
                    (digit.const - offset) // split, tuple((s, c // split) for s, c in digit.terms)
                )
                base, lane = base.plus(reduced.scaled(stride)), lane + offset * weight
                continue
            value = self._sum(digit, dtype)
            places = range(digit.const % step, split, step)
            if split >= layout.dims[n]:
                moving.append((value, places, split, weight))
                continue
            moving.append((self._remainder(value, split), places, split, weight))
            words.append(folder.op("mul", dtype, self._quotient(value, split), const_int(stride, dtype)))
        word = self._sum(base, dtype)
        for other in words:
            word = folder.op("add", dtype, word, other)
        if not moving:
            return WordAddress(self.value(word), lane, affine=False)
        position: IRValue = const_int(0, dtype)
        weights = [math.prod(split for _, _, split, _ in moving[:n]) for n in range(len(moving))]
        for (value, *_), scale in zip(moving, weights, strict=True):
            scaled = folder.op("mul", dtype, value, const_int(scale, dtype))
            position = folder.op("add", dtype, position, scaled)
        choices = tuple(
            WordLane(
                sum(p * scale for p, scale in zip(at, weights, strict=True)),
                0,
                lane + sum(p * weight for p, (_, _, _, weight) in zip(at, moving, strict=True)),
            )
            for at in itertools.product(*(places for _, places, _, _ in moving))
        )
        return WordAddress(self.value(word), position=self.value(position), affine=False, choices=choices)

    def _sum(self, form: Affine, dtype: DType) -> IRValue:
        """The value of a form, in which the counters have an address of their own."""
        folder = self.leaf.folder
        total: IRValue = const_int(form.const, dtype)
        # Values beside the counters come last.
        for symbol, coefficient in sorted(form.terms, key=lambda term: term[0] in form.values):
            value = symbol if symbol.dtype == dtype else folder.op("cast", dtype, symbol)
            scaled = folder.op("mul", dtype, value, const_int(coefficient, dtype))
            total = folder.op("add", dtype, total, scaled)
        return total

    def _in_a_row(self, buffer: int, layout: Layout, element: RowElement) -> WordAddress:
        """Address of an element whose lane changes, which shares its words with others along one dimension."""
        row, along = element.row, element.row.digit
        start = self._starts_of(buffer).get(row, element.const - element.const % along.step)
        ahead, offset = divmod(element.const - start, along.split)
        digits = (along.form.offset(start), *(each.form for each in row.others))
        moving = (along, *row.others)
        splits = tuple(DigitSplit(d, m.split, m.stride) for d, m in zip(digits, moving, strict=True))
        first = self._split_address(row.word.offset(ahead * along.stride), splits, layout)
        weights = tuple(math.prod(m.split for m in moving[:n]) for n in range(len(moving)))
        choices = []
        for places in itertools.product(*(range(0, m.split, m.step) for m in moving)):
            word, lane = divmod(offset + places[0], along.split)
            lane = lane * along.weight + sum(
                p * m.weight for p, m in zip(places[1:], row.others, strict=True)
            )
            position = sum(p * w for p, w in zip(places, weights, strict=True))
            choices.append(WordLane(position, word, element.lane + lane))
        after = None
        if any(choice.word for choice in choices):
            after = self._split_address(row.word.offset((ahead + 1) * along.stride), splits, layout)
        positions = tuple(self._position(first, at, m.split) for at, m in enumerate(moving))
        position = positions[0]
        if row.others:
            last = sum((m.split - 1) * w for m, w in zip(moving, weights, strict=True))
            position = self._index(first, 0, last, positions, weights)
        return WordAddress(first, position=position, after=after, choices=tuple(choices))

    def _starts_of(self, buffer: int) -> dict[Row, int]:
        """Where the elements that the leaf loads begin, of rows whose elements share words."""
        if buffer not in self._starts:
            layout = self.leaf.layouts[buffer]
            rows: dict[Row, set[int]] = {}
            for load in self.leaf.loads(buffer):
                form = self.leaf.affine.of(load.addr)
                digits = None if form is None else self._digits(layout, form, load.gate)
                element = None if digits is None else layout.row_element(digits)
                if element is not None:
                    rows.setdefault(element.row, set()).add(element.const)
            spans = ((row, row.span(consts)) for row, consts in rows.items())
            self._starts[buffer] = {row: span.start for row, span in spans if span.start is not None}
        return self._starts[buffer]

    def _split_address(self, base: Affine, splits: tuple[DigitSplit, ...], layout: Layout) -> int:
        words = (0, layout.words - 1)
        return self.leaf.shared(Address, (base, splits), DType.INT32, words, form=base, digits=splits)

    def _position(self, node: int, at: int, split: int) -> int:
        """Position along a dimension in the word of an address."""
        return self.leaf.shared(WordPosition, (node, at), DType.INT32, (0, split - 1), address=node, digit=at)

    def _moving(self, layout: Layout, digits: list[Affine]) -> WordAddress:
        """Address whose lane changes: quotients and remainders of the digits, advanced step by step."""
        base, fixed_lane = Affine(0), 0
        splits: list[DigitSplit] = []
        moving: list[tuple[int, int]] = []
        steps: list[range] = []
        for n, (digit, split) in enumerate(zip(digits, layout.split, strict=True)):
            stride = math.prod(layout.rows[n + 1 :])
            weight = math.prod(layout.split[n + 1 :])
            step = math.gcd(split, *(c for _, c in digit.terms))
            offset = digit.const % step
            digit = digit.offset(-offset)
            fixed_lane += offset * weight
            if step == split:
                reduced = Affine(digit.const // split, tuple((s, c // split) for s, c in digit.terms))
                base = base.plus(reduced.scaled(stride))
            else:
                moving.append((len(splits), weight))
                steps.append(range(0, split * weight, step * weight))
                splits.append(DigitSplit(digit, split, stride))
        node = self._split_address(base, tuple(splits), layout)
        positions = [self._position(node, at, splits[at].split) for at, _ in moving]
        weights = tuple(weight for _, weight in moving)
        places = tuple(sum(place) for place in itertools.product(*steps))
        found = MovingLane(fixed_lane, places, tuple(positions), weights)
        return WordAddress(node, position=self.lane_index(node, found, layout), moving=found)

    def lane_index(self, node: int, lane: MovingLane, layout: Layout) -> int:
        """Node of a lane that moves.

        Parameters
        ----------
        node : int
            Number of the node for which the lane is.
        lane : MovingLane
        layout : Layout
            Of the buffer.
        """
        if lane.weights == (1,) and lane.offset == 0:
            return lane.positions[0]
        return self._index(node, lane.offset, layout.lanes - 1, lane.positions, lane.weights)

    def _index(
        self, node: int, offset: int, last: int, positions: tuple[int, ...], weights: tuple[int, ...]
    ) -> int:
        """`offset` plus the weighted positions of an address, at most `last`."""
        return self.leaf.shared(
            LaneIndex,
            (node, offset, weights),
            DType.INT32,
            (0, last),
            positions=positions,
            weights=weights,
            offset=offset,
        )

    def _divided(self, layout: Layout, addr: IRValue) -> WordAddress:
        """Address by division with constants, for forms that no counter can follow."""
        folder = self.leaf.folder
        word: IRValue = const_int(0, addr.dtype)
        lane: IRValue = const_int(0, addr.dtype)
        for n, (rows, split) in enumerate(zip(layout.rows, layout.split, strict=True)):
            digit = self._quotient(addr, math.prod(layout.dims[n + 1 :]))
            if n:
                digit = self._remainder(digit, layout.dims[n])
            word = folder.op("mul", addr.dtype, word, const_int(rows, addr.dtype))
            word = folder.op("add", addr.dtype, word, self._quotient(digit, split))
            lane = folder.op("mul", addr.dtype, lane, const_int(split, addr.dtype))
            lane = folder.op("add", addr.dtype, lane, self._remainder(digit, split))
        return WordAddress(self.value(word), position=self.value(lane), affine=False)

    def _quotient(self, value: IRValue, divisor: int) -> IRValue:
        folder, dtype = self.leaf.folder, value.dtype
        if divisor & (divisor - 1) == 0:
            return folder.op("shr", dtype, value, const_int(divisor.bit_length() - 1, dtype))
        return folder.op("div", dtype, value, const_int(divisor, dtype))

    def _remainder(self, value: IRValue, divisor: int) -> IRValue:
        folder, dtype = self.leaf.folder, value.dtype
        if divisor == 1:
            return const_int(0, dtype)
        if divisor & (divisor - 1) == 0:
            return folder.op("and", dtype, value, const_int(divisor - 1, dtype))
        return folder.op("mod", dtype, value, const_int(divisor, dtype))
