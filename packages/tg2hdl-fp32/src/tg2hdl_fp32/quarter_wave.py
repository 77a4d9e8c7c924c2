"""The sine of an angle within a quarter turn, after the operand has been reduced."""

__all__ = ["QuarterWave"]

from abc import abstractmethod
from fractions import Fraction
from functools import cache
from typing import Any

from amaranth.hdl import Cat, Const, Mux

from . import functions
from .elementary import ElementaryCore, evaluate
from .format import Format
from .leading_product import low_bits, multiply_leading
from .logic_table import select
from .pipeline import Pipeline
from .rounding_known import choose_special, round_chosen
from .tables import QuadraticTable, fit
from .timing import add_delay, lut_delay, reduce_delay


@cache
def table(format: Format) -> QuadraticTable:
    """Return the coefficients for a format."""
    p = format.significand
    index = 9 if p > 11 else 4
    return fit(
        functions.sine_slope,
        [(Fraction(0), Fraction(1, 1 << index), 1 << index)],
        delta=p + 2 - index,
        fraction=p + 4,
        slope_bits=p - 6 if p > 11 else p,
    )


class QuarterWave(ElementaryCore):
    """Sine of a reduced operand: its position in the quarter turn times a smooth function from a table."""

    #: An operand that passes unreduced is its own sine, not a position in the quarter turn.
    passes_unchanged = True

    @abstractmethod
    def reduce(self, p: Pipeline) -> None:
        """Set ``p.reduced``, ``p.sign``, ``p.is_nan`` and ``p.is_zero``.

        ``p.reduced`` has the fraction bits of the position in the quarter turn.
        """

    def _lower(self, p: Pipeline) -> None:
        """Shift a position whose sine is subnormal to the place of the smallest exponent, by three places at most."""
        normal = self.format.bias - 1
        # A bit for "subnormal" above the distance.
        table = [
            (count >= normal) << 2 | max(min(count - normal, 3), 0) for count in range(1 << len(p.count))
        ]
        distance = p.wire(select(p.count, table))
        p.least = distance[2] & ~p.passes
        for k in range(2):
            shifted = Cat(p.normal[1 << k :], Const(0, 1 << k))
            p.normal = Mux(distance[k], shifted, p.normal)

    def may_be_subnormal(self) -> bool:
        """Whether a reduced operand can have a subnormal sine."""
        return False

    @abstractmethod
    def small(self, p: Pipeline) -> tuple[Any, Any, Any]:
        """Return whether the operand passes unreduced, its significand and its exponent field."""

    def datapath(self, p: Pipeline) -> None:
        """Reduce, look up and normalize in parallel, multiply, round."""
        f = self.format
        n = f.significand
        coefficients = table(f)
        self.reduce(p)

        width = len(p.reduced)
        kept = n + 3
        places = p.reduced[-(n + 2) :]
        after_address = p.mark() + 1
        p.passes, significand, field = self.small(p)
        p.small_significand, p.small_field = significand, field
        evaluate(
            p,
            coefficients,
            places[coefficients.delta :],
            places[: coefficients.delta],
            target=self.target,
            one="passes" if self.passes_unchanged else None,
        )
        with p.beside(after_address):
            p.normal = p.reduced
            levels = (width - kept).bit_length()
            for k in reversed(range(levels)):
                step = 1 << k
                empty = ~p.normal[-step:].any()
                p.normal = Mux(empty, Cat(Const(0, step), p.normal)[:width], p.normal)
                p[f"empty{k}"] = empty
                p.delay(reduce_delay(step) + lut_delay())
                if k in (4, 3, 1, 0):
                    p.cut()
            p.count = Cat(p[f"empty{k}"] for k in range(levels))
            p.least = Const(0, 1)
            if self.may_be_subnormal() and self.subnormals:
                self._lower(p)
            p.factor = Mux(p.passes, Cat(Const(0, kept - n), p.small_significand), p.normal[-kept:])
            p.exponent = Mux(p.passes, p.small_field, Mux(p.least, 0, (f.bias - 1) - p.count)).as_signed()
            # The distance is a function of five bits.
            lowering = lut_delay(3.5) if self.may_be_subnormal() and self.subnormals else 0.0
            p.delay(max(add_delay(f.exponent), lowering) + lut_delay())
        p.cut()
        p.exponent_above = (p.exponent + 1).as_signed()
        multiply_leading(p, "product", p.factor, p.y, target=self.target)
        p.cut()
        # The factor is in [1/2, 1), the slope in [1, pi/2].
        full = kept + coefficients.fraction - low_bits(kept) - low_bits(coefficients.value_bits)
        top = p.product[full] | p.least
        value = p.wire(Mux(top, p.product[: full + 1], Cat(Const(0, 1), p.product[:full]))[: full + 1])
        guard = full - n
        place = p.wire(Mux(top, p.exponent_above, p.exponent))
        choose_special(
            p,
            f,
            sign=p.sign,
            nan=p.is_nan,
            inf=Const(0),
            zero=p.is_zero,
            over=Const(0),
            flush=None if self.subnormals else ~value[-1] | place[-1] | ~place.any(),
        )
        p.delay(lut_delay(1.5))
        round_chosen(
            p,
            f,
            field=place[: f.exponent],
            significand=value[guard + 1 :],
            guard=value[guard],
            sticky=value[:guard].any(),
        )
