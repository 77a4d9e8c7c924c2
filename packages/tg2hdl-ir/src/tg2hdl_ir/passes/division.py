"""Division by constants: a multiplication and a shift, exact over the range of the dividend.

For ``0 <= x <= n`` and ``m = ceil(2^s / d)`` the quotient ``x // d`` is ``x * m >> s`` when ``(m * d - 2^s) * n < 2^s``
(Granlund and Montgomery, "Division by invariant integers using multiplication", 1994).
"""

from __future__ import annotations

from tg2hdl_ir.analysis.ranges import RangeAnalysis
from tg2hdl_ir.dtype import DType
from tg2hdl_ir.nodes import IRConst, IROp, IRValue, const_int
from tg2hdl_ir.passes.fold import Folder

__all__ = ["ConstantDivision", "reciprocal_multiplier"]

LARGEST_PRODUCT = 64
"""Bits that the product of dividend and multiplier may have."""


def reciprocal_multiplier(divisor: int, largest: int) -> tuple[int, int]:
    """Smallest (multiplier, shift) with ``n // divisor == n * multiplier >> shift`` for all ``0 <= n <= largest``.

    Parameters
    ----------
    divisor : int
        Positive.
    largest : int
    """
    shift = 0
    while True:
        multiplier = -(-(1 << shift) // divisor)
        if (multiplier * divisor - (1 << shift)) * largest < 1 << shift:
            return multiplier, shift
        shift += 1


class ConstantDivision:
    """Makes the replacements.

    Parameters
    ----------
    folder : Folder
        Makes the new ops.
    ranges : RangeAnalysis
        Ranges of the dividends.
    """

    def __init__(self, folder: Folder, ranges: RangeAnalysis) -> None:
        self.folder = folder
        self.ranges = ranges

    def expand(self, node: IRValue) -> IRValue | None:
        """Value equal to a ``div`` or ``mod`` by a constant; None for anything else and for dividends above 32 bits."""
        if not isinstance(node, IROp) or node.op not in ("div", "mod") or node.dtype.is_float:
            return None
        dividend, divisor = node.srcs
        if not isinstance(divisor, IRConst):
            return None
        number = int(divisor.value)
        if number == 0:
            return const_int(0, node.dtype) if node.op == "div" else dividend
        quotient = self._quotient(dividend, number)
        if node.op == "div" or quotient is None:
            return quotient
        return self._remainder(dividend, quotient, number)

    def _remainder(self, dividend: IRValue, quotient: IRValue, divisor: int) -> IRValue:
        dtype = dividend.dtype
        if abs(divisor) == 1:
            return const_int(0, dtype)
        low, _ = self.ranges.of(dividend)
        if low >= 0 and divisor > 0 and divisor & (divisor - 1) == 0:
            return self.folder.op("and", dtype, dividend, const_int(divisor - 1, dtype))
        product = self.folder.op("mul", dtype, quotient, const_int(divisor, dtype))
        return self.folder.op("sub", dtype, dividend, product)

    def _quotient(self, dividend: IRValue, divisor: int) -> IRValue | None:
        folder, dtype = self.folder, dividend.dtype
        if divisor == 1:
            return dividend
        low, high = self.ranges.of(dividend)
        if low >= 0:
            return self._flipped(self._positive(dividend, abs(divisor), high, dtype), divisor < 0)
        magnitudes = DType.from_width(dtype.bit_width, is_signed=False)
        negative = folder.below(dividend, 0)
        magnitude = folder.op("where", dtype, negative, folder.op("neg", dtype, dividend), dividend)
        largest = max(-low, high)
        positive = self._positive(folder.op("cast", magnitudes, magnitude), abs(divisor), largest, dtype)
        if positive is None:
            return None
        flipped = folder.op("neg", dtype, positive)
        yes, no = (flipped, positive) if divisor > 0 else (positive, flipped)
        return folder.op("where", dtype, negative, yes, no)

    def _flipped(self, value: IRValue | None, flip: bool) -> IRValue | None:
        return self.folder.op("neg", value.dtype, value) if flip and value is not None else value

    def _positive(self, value: IRValue, divisor: int, largest: int, dtype: DType) -> IRValue | None:
        """Quotient of a value from 0 to `largest`, as `dtype`."""
        folder = self.folder
        if divisor & (divisor - 1) == 0:
            shift = const_int(divisor.bit_length() - 1, value.dtype)
            return folder.op("cast", dtype, folder.op("shr", value.dtype, value, shift))
        multiplier, shift_by = reciprocal_multiplier(divisor, largest)
        bits = largest.bit_length()
        if 2 * bits > LARGEST_PRODUCT:
            return None
        wide = DType.from_width(max(bits + multiplier.bit_length(), value.dtype.bit_width), is_signed=False)
        if wide.bit_width <= LARGEST_PRODUCT:
            return folder.op("cast", dtype, self._product(value, multiplier, shift_by, wide))
        # m = 2^bits + m': x * m >> s is (((x - t) >> 1) + t) >> (s - bits - 1) with t = x * m' >> bits
        wide, narrow = DType.from_width(2 * bits, is_signed=False), value.dtype
        part = folder.op("cast", narrow, self._product(value, multiplier - (1 << bits), bits, wide))
        half = folder.op("shr", narrow, folder.op("sub", narrow, value, part), const_int(1, narrow))
        mean = folder.op("add", narrow, half, part)
        return folder.op(
            "cast", dtype, folder.op("shr", narrow, mean, const_int(shift_by - bits - 1, narrow))
        )

    def _product(self, value: IRValue, multiplier: int, shift: int, wide: DType) -> IRValue:
        """``value * multiplier >> shift``."""
        product = self.folder.op(
            "mul", wide, self.folder.op("cast", wide, value), const_int(multiplier, wide)
        )
        return self.folder.op("shr", wide, product, const_int(shift, wide))
