"""Words of any width made of nodes of at most 64 bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tg2hdl_sim.levelized.cuts import WORD
from tg2hdl_sim.levelized.nodes import NetlistWords
from tg2hdl_sim.levelized.operands import (
    Operand,
    bits_of,
    concat,
    constant,
    part,
    sign_extend,
    width_of,
)

__all__ = ["Builder"]

SHIFT_BITS = 31  # an offset fits a C int


class Builder:
    """Adds nodes to a design; every method takes and returns operands of any width."""

    def __init__(self, design: NetlistWords) -> None:
        self.design = design

    def node(self, op: str, ins: list[Operand], width: int, data: Any = None) -> Operand:
        """Add one node of at most 64 bits.

        Parameters
        ----------
        op : str
            Operator.
        ins : list of Operand
        width : int
            Bits of the result.
        data : optional
            As of `NetlistWords.add`.
        """
        return bits_of(self.design.add(op, ins, width, data), 0, width)

    def mux(self, condition: Operand, yes: Operand, no: Operand) -> Operand:
        """Select one of two operands of equal width.

        Parameters
        ----------
        condition : Operand
            One bit.
        yes, no : Operand
            Of equal width.
        """
        return self.by_words(lambda *ins: self.node("mux", [condition, *ins], width_of(ins[0])), yes, no)

    def by_words(self, make: Any, *operands: Operand) -> Operand:
        """Apply a function to words at the same position of each operand."""
        total = width_of(operands[0])
        pieces: list[Any] = []
        for low in range(0, total, WORD):
            count = min(WORD, total - low)
            pieces += make(*(part(operand, low, count) for operand in operands))
        return concat(pieces)

    def invert(self, operand: Operand) -> Operand:
        """Complement every bit."""
        return self.by_words(lambda x: self.node("~", [x], width_of(x)), operand)

    def both(self, one: Operand, two: Operand) -> Operand:
        """AND of two bits.

        Parameters
        ----------
        one, two : Operand
            One bit each.
        """
        return self.node("&", [one, two], 1)

    def either(self, one: Operand, two: Operand) -> Operand:
        """OR of two bits.

        Parameters
        ----------
        one, two : Operand
            One bit each.
        """
        return self.node("|", [one, two], 1)

    def any(self, operand: Operand) -> Operand:
        """Whether a bit is 1."""
        found = constant(0, 1)
        for word in self._words(operand):
            found = self.either(found, self.node("any", [word], 1))
        return found

    def all(self, operand: Operand) -> Operand:
        """Whether all bits are 1."""
        found = constant(1, 1)
        for word in self._words(operand):
            found = self.both(found, self.node("all", [word], 1))
        return found

    def parity(self, operand: Operand) -> Operand:
        """Exclusive OR of all bits."""
        found = constant(0, 1)
        for word in self._words(operand):
            found = self.node("^", [found, self.node("parity", [word], 1)], 1)
        return found

    def matches(self, operand: Operand, patterns: Sequence[str]) -> Operand:
        """Whether one of the patterns of 0, 1 and - (anything) matches.

        Parameters
        ----------
        operand : Operand
        patterns : sequence of str
            Most significant bit first, as wide as the operand.
        """
        total = width_of(operand)
        if total <= WORD:
            return self.node("match", [operand], 1, tuple(map(_mask_and_value, patterns)))
        found = constant(0, 1)
        for pattern in patterns:
            hit, reverse = constant(1, 1), pattern[::-1]
            for low in range(0, total, WORD):
                one = reverse[low : low + WORD][::-1]
                word = part(operand, low, len(one))
                hit = self.both(hit, self.node("match", [word], 1, (_mask_and_value(one),)))
            found = self.either(found, hit)
        return found

    def equal(self, one: Operand, two: Operand) -> Operand:
        """Whether two operands are equal.

        Parameters
        ----------
        one, two : Operand
            Of equal width.
        """
        found = constant(1, 1)
        for x, y in zip(self._words(one), self._words(two), strict=True):
            found = self.both(found, self.node("eq", [x, y], 1))
        return found

    def less(self, one: Operand, two: Operand, *, signed: bool, or_equal: bool = False) -> Operand:
        """Compare two operands.

        Parameters
        ----------
        one, two : Operand
            Of equal width.
        signed : bool
            In two's complement.
        or_equal : bool, default False
            Whether equal operands give 1.
        """
        total = width_of(one)
        if total <= WORD:
            return self.node(("s" if signed else "u") + ("le" if or_equal else "lt"), [one, two], 1)
        if signed:
            one, two = (
                concat((*part(x, 0, total - 1), *self.invert(part(x, total - 1, 1)))) for x in (one, two)
            )
        found = constant(int(or_equal), 1)
        for x, y in zip(self._words(one), self._words(two), strict=True):
            same = self.both(self.node("eq", [x, y], 1), found)
            found = self.either(self.node("ult", [x, y], 1), same)
        return found

    def add(self, one: Operand, two: Operand, carry: Operand = ()) -> Operand:
        """Add two operands of equal width and a carry bit.

        Parameters
        ----------
        one, two : Operand
            Of equal width, which is that of the sum.
        carry : Operand, optional
            One bit; empty for none.
        """
        total = width_of(one)
        if total <= WORD:
            found = self.node("+", [one, two], total)
            return self.node("+", [found, _extend(carry, total)], total) if carry else found
        pieces: list[Any] = []
        step = WORD - 1  # the top bit of each sum is the carry
        for low in range(0, total, step):
            count = min(step, total - low)
            wide = count + 1
            x, y = (_extend(part(v, low, count), wide) for v in (one, two))
            found = self.node("+", [x, y], wide)
            if carry:
                found = self.node("+", [found, _extend(carry, wide)], wide)
            pieces += part(found, 0, count)
            carry = part(found, count, 1)
        return concat(pieces)

    def subtract(self, one: Operand, two: Operand) -> Operand:
        """Subtract the second operand.

        Parameters
        ----------
        one, two : Operand
            Of equal width.
        """
        total = width_of(one)
        if total <= WORD:
            return self.node("-", [one, two], total)
        return self.add(one, self.invert(two), constant(1, 1))

    def negate(self, operand: Operand) -> Operand:
        """Return the two's complement."""
        return self.subtract(constant(0, width_of(operand)), operand)

    def multiply(self, one: Operand, two: Operand) -> Operand:
        """Multiply; the product is as wide as the operands.

        Parameters
        ----------
        one, two : Operand
            Of equal width.
        """
        total = width_of(one)
        if total <= WORD:
            return self.node("*", [one, two], total)
        half = WORD // 2
        a, b = (list(self._words(operand, half)) for operand in (one, two))
        columns: list[list[Operand]] = [[] for _ in a]
        for i, x in enumerate(a):
            for j, y in enumerate(b[: len(a) - i]):
                found = self.node("*", [_extend(x, WORD), _extend(y, WORD)], WORD)
                columns[i + j].append(part(found, 0, half))
                if i + j + 1 < len(a):
                    columns[i + j + 1].append(part(found, half, half))
        pieces: list[Any] = []
        carry = constant(0, half)
        for column in columns:
            found = _extend(carry, WORD)
            for term in column:
                found = self.node("+", [found, _extend(term, WORD)], WORD)
            pieces += part(found, 0, half)
            carry = part(found, half, half)
        return part(concat(pieces), 0, total)

    def shift_left(self, operand: Operand, offset: Operand) -> Operand:
        """Shift towards the top bit; zeros come in.

        Parameters
        ----------
        operand : Operand
        offset : Operand
            Unsigned number of places.
        """
        total = width_of(operand)
        if total <= WORD:
            return self._shift("shl", operand, offset, constant(0, total))
        found = operand
        for bit in range(width_of(offset)):
            amount = min(1 << bit, total)
            moved = concat((*constant(0, amount), *part(found, 0, total - amount)))
            found = self.mux(part(offset, bit, 1), moved, found)
        return found

    def shift_right(self, operand: Operand, offset: Operand, *, signed: bool) -> Operand:
        """Shift towards bit 0; zeros or sign bits come in.

        Parameters
        ----------
        operand : Operand
        offset : Operand
            Unsigned number of places.
        signed : bool
            Whether sign bits come in.
        """
        total = width_of(operand)
        fill = part(sign_extend(operand, 2 * total), total, total) if signed else constant(0, total)
        if total <= WORD:
            return self._shift("sar" if signed else "shr", operand, offset, fill)
        return self.select_part(operand, offset, total, 1, signed=signed)

    def _shift(self, op: str, operand: Operand, offset: Operand, fill: Operand) -> Operand:
        total = width_of(operand)
        low = part(offset, 0, min(SHIFT_BITS, width_of(offset)))
        found = self.node(op, [operand, low], total)
        high = part(offset, SHIFT_BITS, max(0, width_of(offset) - SHIFT_BITS))
        return self.mux(self.any(high), fill, found) if high else found

    def select_part(
        self, operand: Operand, offset: Operand, width: int, stride: int, *, signed: bool
    ) -> Operand:
        """Return `width` bits from bit ``offset * stride`` on; beyond the operand are zeros or sign bits.

        Parameters
        ----------
        operand : Operand
        offset : Operand
            Unsigned.
        width : int
            Bits of the result.
        stride : int
            Bits for each unit of the offset.
        signed : bool
            Whether sign bits come in.
        """
        total = width_of(operand)

        def extended(value: Operand, size: int) -> Operand:
            missing = size - width_of(value)
            if missing <= 0:
                return part(value, 0, size)
            return sign_extend(value, size) if signed else concat((*value, *constant(0, missing)))

        found = operand
        for bit in reversed(range(width_of(offset))):
            amount = stride << bit
            # The bits that the smaller offsets that follow can still reach.
            needed = min(total, width + stride * ((1 << bit) - 1)) if bit < 32 else total
            condition = part(offset, bit, 1)
            if amount >= width_of(found):
                moved = extended(_top(found) if signed else constant(0, 1), needed)
            else:
                moved = extended(part(found, amount, width_of(found) - amount), needed)
            found = self.mux(condition, moved, extended(found, needed))
        return extended(found, width)

    def divide(self, one: Operand, two: Operand, *, signed: bool, remainder: bool) -> Operand:
        """Divide towards minus infinity; by zero the result is 0.

        Parameters
        ----------
        one, two : Operand
            Dividend and divisor, of equal width.
        signed : bool
            In two's complement.
        remainder : bool
            Return the remainder, with the sign of the divisor, not the quotient.
        """
        total = width_of(one)
        name = "mod" if remainder else "div"
        if total <= WORD:
            return self.node(("s" if signed else "u") + name, [one, two], total)
        if not signed:
            return self._divide_unsigned(one, two, remainder)
        minus_one, minus_two = _top(one), _top(two)
        a = self.mux(minus_one, self.negate(one), one)
        b = self.mux(minus_two, self.negate(two), two)
        differ = self.node("^", [minus_one, minus_two], 1)
        rest = self._divide_unsigned(a, b, True)
        inexact = self.both(differ, self.any(rest))
        if remainder:
            rest = self.mux(inexact, self.subtract(b, rest), rest)
            return self.mux(minus_two, self.negate(rest), rest)
        quotient = self._divide_unsigned(a, b, False)
        quotient = self.add(quotient, constant(0, total), inexact)
        return self.mux(differ, self.negate(quotient), quotient)

    def _divide_unsigned(self, one: Operand, two: Operand, remainder: bool) -> Operand:
        words = [*self._words(one), *self._words(two)]
        words = [_extend(word, WORD) for word in words]
        count = len(words) // 2
        op = "wide_mod" if remainder else "wide_div"
        limbs = [p for k in range(count) for p in self.node(op, words, WORD, k)]
        return part(concat(limbs), 0, width_of(one))

    @staticmethod
    def _words(operand: Operand, size: int = WORD) -> list[Operand]:
        total = width_of(operand)
        return [part(operand, low, min(size, total - low)) for low in range(0, total, size)]


def _extend(operand: Operand, width: int) -> Operand:
    return concat((*operand, *constant(0, width - width_of(operand))))


def _top(operand: Operand) -> Operand:
    return part(operand, width_of(operand) - 1, 1)


def _mask_and_value(pattern: str) -> tuple[int, int]:
    mask = int("".join("0" if bit == "-" else "1" for bit in pattern) or "0", 2)
    return mask, int(pattern.replace("-", "0") or "0", 2)
