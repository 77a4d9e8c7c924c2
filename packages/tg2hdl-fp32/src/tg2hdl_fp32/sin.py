"""Sine of radians, for operands of any size."""

__all__ = ["FP32Sin", "Sin"]

from functools import cache
from typing import Any

from amaranth.hdl import Cat, Const

from .elementary import limbs
from .format import FP32, Format
from .functions import two_over_pi
from .multiplier import multiply
from .pipeline import Pipeline
from .quarter_wave import QuarterWave
from .rom import lookup
from .timing import add_delay, lut_delay
from .unpacked import unpack

#: Leading zeros that a reduced operand can have, by exhaustive search for the nearest to a multiple of pi/2.
_CANCELLED = {"FP32": 30, "BF16": 16, "FP16": 16}


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
        # In two halves, for shorter carry chains; of the upper one only the low bits count, modulo 4.
        half = (fraction + 2) // 2
        p.upper, p.lower = p.window[half:], p.window[:half]
        start = p.mark()
        target = limbs(self.target)
        multiply(p, "low", p.significand, p.lower, target=target)
        with p.beside(start):
            multiply(p, "high", p.significand, p.upper, target=target)
        p.cut()
        p.turns = (p.high[: fraction + 2 - half] + p.low[half:])[: fraction + 2 - half]
        p.delay(add_delay(fraction + 2 - half))
        p.cut()
        turns = Cat(p.low[:half], p.turns)
        quadrant = turns[fraction : fraction + 2]
        p.reduced = turns[fraction - kept : fraction] ^ quadrant[0].replicate(kept)
        p.sign = p.negative ^ (quadrant[1] & ~p.is_tiny)
        p.is_zero = Const(0, 1)
        p.delay(lut_delay())

    def small(self, p: Pipeline) -> tuple[Any, Any, Any]:
        """Return whether the operand is returned as it is, its significand and its exponent field."""
        return p.is_tiny, p.significand, p.field


class FP32Sin(Sin):
    """:class:`Sin` of FP32; combinational unless a profile is given."""

    def __init__(self, **parameters: Any) -> None:
        if "stages" not in parameters:
            parameters.setdefault("profile", "comb")
        super().__init__(FP32, **parameters)
