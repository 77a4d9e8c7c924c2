"""Sine of radians, for operands of any size."""

__all__ = ["FP32Sin", "Sin"]

from functools import cache
from typing import Any

from amaranth.hdl import Cat, Const, Value

from .elementary import limbs
from .format import FP32, Format
from .functions import two_over_pi
from .leading_product import low_bits, sum_rows
from .logic_table import select
from .multiplier import multiply
from .pipeline import Pipeline
from .quarter_wave import QuarterWave
from .rom import lookup
from .timing import add_delay, lut_delay
from .unpacked import unpack

#: Leading zeros that a reduced operand can have, by exhaustive search for the nearest to a multiple of pi/2.
_CANCELLED = {"FP32": 30, "BF16": 16, "FP16": 16}

#: Bits of each part of a window: two multiplier blocks.
_PART = 36


def least_exponent(format: Format) -> int:
    """Return the exponent below which an operand is its own sine."""
    return -(format.significand // 2)


def reduction(format: Format) -> tuple[tuple[int, ...], int, int]:
    """Return the windows of 2/pi, their fraction bits, and how many fraction bits of the product are kept."""
    kept = _CANCELLED[format.name] + format.significand + 3
    fraction = kept + format.significand
    return _windows(format, least_exponent(format), fraction), fraction, kept


@cache
def _windows(format: Format, least: int, fraction: int) -> tuple[int, ...]:
    """Bits of 2/pi, from weight 2 down, that count for a significand with exponent `least` and up."""
    count = format.emax - least + 1
    size = 1 << (count - 1).bit_length()
    total = fraction + size + format.significand
    digits = two_over_pi(total)
    mask = (1 << fraction + 2) - 1
    windows = []
    for k in range(size):
        drop = total - (least + min(k, count - 1) - format.fraction) - fraction
        windows.append(digits >> drop & mask)
    return tuple(windows)


class Sin(QuarterWave):
    """``sin(a)`` of radians: error below 1 ULP for every operand, odd.

    The operand is reduced as by Payne and Hanek: the significand is multiplied with just those bits of 2/pi
    that decide the quadrant and the place in it, taken from a table by the exponent. The place is normalized,
    so that operands next to a multiple of pi lose no accuracy. Operands whose cube does not matter are returned.

    Special values: NaN and infinities give NaN, +-0 gives +-0.
    """

    operation = "sin"

    def reduce(self, p: Pipeline) -> None:
        """Multiply with a window of 2/pi."""
        f = self.format
        x = unpack(f, p.a, subnormals=self.subnormals)
        windows, fraction, kept = reduction(f)
        p.negative = x.sign
        p.is_nan = x.is_nan | x.is_inf
        p.significand = x.significand
        p.field = x.exponent
        offset = (x.field - (f.bias + least_exponent(f))).as_signed()
        p.is_tiny = offset[-1]
        p.delay(add_delay(f.exponent))
        address = offset[: (len(windows) - 1).bit_length()]
        lookup(p, "window", address, windows, fraction + 2, target=self.target)
        self._multiply(p, fraction + 2)
        turns = Cat(p.low_part[:_PART], p.turns)
        quadrant = turns[fraction : fraction + 2]
        p.reduced = turns[fraction - kept : fraction] ^ quadrant[0].replicate(kept)
        p.sign = p.negative ^ (quadrant[1] & ~p.is_tiny)
        p.is_zero = Const(0, 1)
        p.delay(lut_delay())

    def _multiply(self, p: Pipeline, size: int) -> None:
        """Set ``p.turns`` and ``p.low_part`` to the product of significand and window modulo ``2**size``.

        In two parts, for shorter carry chains. Blocks multiply the upper 18 bits of the significand, and rows in
        logic the others, with the window behind a register; the highest bits of the window, of which only a few
        count, have logic of their own.
        """
        low = low_bits(self.format.significand)
        middle = min(2 * _PART, size - low)
        start = p.mark()
        p.delay(lut_delay(3))
        multiply(p, "low_blocks", p.significand[low:], p.window[:_PART], target=limbs(self.target))
        with p.beside(start):
            p.delay(lut_delay(3))
            multiply(p, "high_blocks", p.significand[low:], p.window[_PART:middle], target=limbs(self.target))
        p.cut()
        with p.beside(start):
            p.delay(lut_delay(2))
            p.cut()
            for name, part in (("low_rows", p.window[:_PART]), ("high_rows", p.window[_PART:])):
                for k in range(low):
                    p[f"{name}_row{k}"] = p.significand[k].replicate(len(part)) & part
            _multiply_top(p, p.window[middle : size - low], p.significand[low:])
            p.delay(lut_delay())
            sum_rows(p, "low_rows", low)
        with p.beside(start):
            p.cut()
            sum_rows(p, "high_rows", low)
        p.low_part = Cat(Const(0, low), p.low_blocks) + p.low_rows_row0
        p.high_part = (Cat(Const(0, low), p.high_blocks) + p.high_rows_row0)[: size - _PART]
        p.delay(add_delay(size - _PART))
        p.cut()
        p.top_part = p.top_near + (p.top_far << 2)
        carried = p.low_part[_PART:]
        gap = max(middle - _PART + low - len(carried), 0)
        p.turns = (p.high_part + Cat(carried, Const(0, gap), p.top_part))[: size - _PART]
        p.delay(add_delay(size - _PART))
        p.cut()

    def small(self, p: Pipeline) -> tuple[Any, Any, Any]:
        """Return whether the operand is returned as it is, its significand and its exponent field."""
        return p.is_tiny, p.significand, p.field


def _multiply_top(p: Pipeline, window: Value, significand: Value) -> None:
    """Set ``p.top_near`` and ``p.top_far``, four times which is the rest, for a product modulo the window's size."""
    size = len(window)
    p.top_near = p.top_far = Const(0, 1)
    for name, places in (("top_near", range(min(2, size))), ("top_far", range(2, size))):
        if places:
            digits = significand[places.start : places.stop]
            narrow = window[: size - places.start]
            limit = 1 << len(narrow)
            index = range(1 << len(narrow) + len(digits))
            p[name] = select(Cat(narrow, digits), [(i % limit) * (i // limit) % limit for i in index])


class FP32Sin(Sin):
    """:class:`Sin` of FP32; combinational unless a profile is given."""

    def __init__(self, **parameters: Any) -> None:
        if "stages" not in parameters:
            parameters.setdefault("profile", "comb")
        super().__init__(FP32, **parameters)
