"""Word addresses: from the element that a kernel asks for to a word of its memory and a lane in it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tg2hdl_ir.analysis.affine import Affine
from tg2hdl_ir.analysis.constraints import Constraints
from tg2hdl_ir.dtype import DType
from tg2hdl_ir.nodes import IRCounter, IRValue, const_int
from tg2hdl_lower.layout import Layout, MovingPlace, shared_row
from tg2hdl_lower.plan import DigitSplit

if TYPE_CHECKING:
    from tg2hdl_lower.dataflow import LeafBuilder

__all__ = ["WordAddress", "WordAddresses"]


@dataclass(frozen=True)
class WordAddress:
    """Node of the word address; `lane` is fixed, or computed by `lane_node`.

    Equal words of affine addresses have the same `node`, so that lanes can share an access.

    Parameters
    ----------
    after : int, optional
        Node of the address of another word, in which the element is for some values of `lane_node`.
    choices : tuple of (int, int, int)
        Values of `lane_node` with the word, 0 or 1, and the lane that they stand for; empty where it is the lane.
    """

    node: int
    lane: int = 0
    lane_node: int | None = None
    affine: bool = True
    after: int | None = None
    choices: tuple[tuple[int, int, int], ...] = ()


class WordAddresses:
    """Builds the address nodes of a leaf.

    An affine address costs a register and an adder.  Where the lane changes from step to step, its position in the
    word is kept in a small register too, and carries into the word address.  Only data-dependent addresses, and those
    whose digits carry, are divided by the lanes.
    """

    def __init__(self, builder: LeafBuilder) -> None:
        self.builder = builder
        self._starts: dict[int, dict[object, int]] = {}

    def needs_element(self, buffer: int, addr: IRValue, gate: IRValue | None) -> bool:
        """Whether the element address itself must be computed first."""
        form = self.builder.affine.of(addr)
        layout = self.builder.flow.memories.layouts[buffer]
        if form is None:
            return True
        return layout.lanes > 1 and self._digits(layout, form, gate) is None

    def of(self, buffer: int, addr: IRValue, gate: IRValue | None, *, loads: bool = False) -> WordAddress:
        """Address of one access; loads of elements in a row share their words."""
        builder = self.builder
        layout = builder.flow.memories.layouts[buffer]
        form = builder.affine.of(addr)
        if form is not None and layout.lanes == 1:
            return WordAddress(self._affine(form))
        if layout.lanes == 1:
            return WordAddress(builder.value(addr), affine=False)
        digits = None if form is None else self._digits(layout, form, gate)
        if digits is None:
            return self._divided(layout, addr)
        fixed = layout.fixed_lane(digits)
        if fixed is not None:
            return WordAddress(self._affine(fixed[0]), fixed[1])
        place = layout.moving_place(digits) if loads else None
        return self._moving(layout, digits) if place is None else self._in_a_row(buffer, layout, place)

    def _affine(self, word: Affine) -> int:
        if word.is_constant:
            return self.builder.value(const_int(word.const))
        return self.builder.affine_node(word, DType.INT32)

    def _digits(self, layout: Layout, form: Affine, gate: IRValue | None) -> list[Affine] | None:
        """Digits that need no division: with a fixed lane, or over counters with constant bounds."""
        constraints = Constraints(gate, self.builder.ranges, self.builder.affine)
        digits = layout.digits(form, constraints.interval)
        if digits is None or layout.fixed_lane(digits) is not None:
            return digits
        constant = all(isinstance(loop.bound, int) for loop in self.builder.path)
        return digits if constant and all(isinstance(s, IRCounter) for s, _ in form.terms) else None

    def _in_a_row(self, buffer: int, layout: Layout, place: MovingPlace) -> WordAddress:
        """Address of an element whose lane changes along one dimension."""
        terms, split, step, stride, weight = place.run
        start = self._starts_of(buffer).get(place.key, place.const - place.const % step)
        ahead, offset = divmod(place.const - start, split)
        digit = DigitSplit(terms.offset(start), split, stride)
        first = self._split_address(place.word.offset(ahead * stride), (digit,), layout)
        lanes = [(n, *divmod(offset + n, split)) for n in range(0, split, step)]
        choices = tuple((n, word, place.lane + weight * lane) for n, word, lane in lanes)
        beyond = any(word for _, word, _ in choices)
        after = (
            self._split_address(place.word.offset((ahead + 1) * stride), (digit,), layout) if beyond else None
        )
        return WordAddress(first, lane_node=self._position(first, 0, split), after=after, choices=choices)

    def _starts_of(self, buffer: int) -> dict[object, int]:
        """Where the elements in a row that the leaf loads begin, for rows that share words."""
        if buffer not in self._starts:
            layout = self.builder.flow.memories.layouts[buffer]
            rows: dict[MovingPlace, set[int]] = {}
            self._starts[buffer] = {}
            for load in self.builder.loads(buffer):
                form = self.builder.affine.of(load.addr)
                digits = None if form is None else self._digits(layout, form, load.gate)
                place = None if digits is None else layout.moving_place(digits)
                if place is not None:
                    rows.setdefault(replace(place, const=0, lane=0), set()).add(place.const)
            for place, consts in rows.items():
                _, split, step, _, _ = place.run
                start, _ = shared_row(consts, split, step)
                if start is not None:
                    self._starts[buffer][place.key] = start
        return self._starts[buffer]

    def _split_address(self, base: Affine, splits: tuple[DigitSplit, ...], layout: Layout) -> int:
        key = ("split", base, splits)
        words = (0, layout.words - 1)
        return self.builder.shared(key, "address", DType.INT32, words, form=base, digits=splits)

    def _position(self, node: int, at: int, split: int) -> int:
        """Position along a dimension in the word of an address."""
        key = ("remainder", node, at)
        return self.builder.shared(key, "remainder", DType.INT32, (0, split - 1), operands=(node,), lane=at)

    def _moving(self, layout: Layout, digits: list[Affine]) -> WordAddress:
        """Address whose lane changes: quotients and remainders of the digits, advanced step by step."""
        builder = self.builder
        base, fixed_lane = Affine(0), 0
        splits: list[DigitSplit] = []
        moving: list[tuple[int, int]] = []
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
                splits.append(DigitSplit(digit, split, stride))
        node = self._split_address(base, tuple(splits), layout)
        remainders = [self._position(node, at, splits[at].split) for at, _ in moving]
        weights = tuple(weight for _, weight in moving)
        if weights == (1,) and fixed_lane == 0:
            return WordAddress(node, lane_node=remainders[0])
        lane = builder.shared(
            ("laneindex", node, fixed_lane),
            "laneindex",
            DType.INT32,
            (0, layout.lanes - 1),
            operands=tuple(remainders),
            weights=weights,
            value=fixed_lane,
        )
        return WordAddress(node, lane_node=lane)

    def _divided(self, layout: Layout, addr: IRValue) -> WordAddress:
        """Address by division with constants, for what no counter can follow."""
        folder = self.builder.folder
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
        builder = self.builder
        return WordAddress(builder.value(word), lane_node=builder.value(lane), affine=False)

    def _quotient(self, value: IRValue, divisor: int) -> IRValue:
        folder, dtype = self.builder.folder, value.dtype
        if divisor & (divisor - 1) == 0:
            return folder.op("shr", dtype, value, const_int(divisor.bit_length() - 1, dtype))
        return folder.op("div", dtype, value, const_int(divisor, dtype))

    def _remainder(self, value: IRValue, divisor: int) -> IRValue:
        folder, dtype = self.builder.folder, value.dtype
        if divisor == 1:
            return const_int(0, dtype)
        if divisor & (divisor - 1) == 0:
            return folder.op("and", dtype, value, const_int(divisor - 1, dtype))
        return folder.op("mod", dtype, value, const_int(divisor, dtype))
