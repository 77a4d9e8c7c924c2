"""Sine of turns."""

__all__ = ["SinTurns"]

from typing import Any

from amaranth.hdl import Cat, Const, Mux

from .format import Format
from .pipeline import Pipeline
from .quarter_wave import QuarterWave
from .timing import add_delay, lut_delay, reduce_delay
from .unpacked import unpack


def kept_bits(format: Format) -> int:
    """Return the fraction bits of a quarter turn that are kept; enough for an exact reduction."""
    return 2 * format.significand


def least_exponent(format: Format) -> int:
    """Return the exponent below which an operand passes unreduced."""
    return -(format.significand // 2)


class SinTurns(QuarterWave):
    """``sin(2 pi a)``: error below 1 ULP, odd, exact for multiples of a quarter turn.

    The reduction modulo a turn is exact and needs no multiplication.

    Special values: NaN and infinities give NaN; multiples of half a turn give a zero of the operand's sign.
    """

    operation = "sin_turns"
    passes_unchanged = False

    def reduce(self, p: Pipeline) -> None:
        """Shift the quarter turns to fixed point, and take the distance to the nearest half turn."""
        f = self.format
        n = f.significand
        kept = kept_bits(f)
        width = kept + 2
        x = unpack(f, p.a, subnormals=self.subnormals)
        p.negative = x.sign
        p.is_nan = x.is_nan | x.is_inf
        p.significand = x.significand
        # The product with 2 pi can make a subnormal operand normal, by two places.
        once = ~x.hidden & x.significand[-2]
        twice = ~x.hidden & ~x.significand[-2]
        p.lifted = Mux(twice, x.significand << 2, Mux(once, x.significand << 1, x.significand))[:n]
        p.field = Mux(x.hidden, x.field + 2, Mux(once, 2, 1))
        places = (x.field - (f.bias - n - 3)).as_signed()
        p.places = places
        p.is_small = x.field < f.bias + least_exponent(f)
        p.delay(add_delay(f.exponent) + lut_delay())
        p.cut()
        levels = width.bit_length()
        p.gone = p.places[-1] | p.places[levels:-1].any()
        p.fixed = p.significand
        for k in range(levels):
            p.fixed = Mux(p.places[k], Cat(Const(0, 1 << k), p.fixed)[:width], p.fixed)
            p.delay(lut_delay())
            if k % 2:
                p.cut()
        p.fixed = Mux(p.gone, 0, p.fixed)[:width]
        p.delay(lut_delay())
        p.cut()
        p.place = p.fixed[:kept] ^ p.fixed[kept].replicate(kept)
        p.quadrant = p.fixed[kept:]
        p.whole = ~p.fixed[:kept].any()
        p.delay(reduce_delay(kept))
        p.cut()
        odd = p.quadrant[0]
        # A whole quarter is a unit of the last place short of 1, and its sine rounds to 1.
        p.reduced = (p.place + (odd & ~p.whole))[:kept]
        p.is_zero = p.whole & ~odd & ~p.is_small
        p.sign = p.negative ^ (p.quadrant[1] & ~p.is_zero)
        p.delay(add_delay(kept))
        p.cut()

    def tuned_stages(self, profile: str) -> int | None:
        """Numbers of stages that were measured for FP32 on an ECP5."""
        if self.format.significand == 24 and self.target.startswith("ecp5"):
            return {"fast": 20}.get(profile)
        return None

    def small(self, p: Pipeline) -> tuple[Any, Any, Any]:
        """Return whether the operand passes unreduced, its significand and its exponent field."""
        return p.is_small, p.lifted, p.field
