"""Division, correctly rounded."""

__all__ = ["Div", "FP32FDiv"]

from typing import Any

from amaranth.hdl import Cat, Const, Mux, Value

from .core import Core
from .format import FP32
from .normalizing import normalize_operand
from .pipeline import Pipeline
from .rounding import round_and_pack
from .shifting import shift_right_sticky_step
from .timing import add_delay, lut_delay, reduce_delay
from .unpacked import unpack


class Div(Core):
    """``a / b``, correctly rounded in any format and rounding mode.

    Non-restoring digit recurrence, two quotient bits to a step: the second remainder is formed for both
    outcomes of the first bit at once, from the divisor and three times the divisor, and the sign of the first
    remainder selects.

    Special values: NaN, 0 / 0 and inf / inf give NaN, a finite number but zero over 0 gives an infinity.
    """

    operation = "div"

    def datapath(self, p: Pipeline) -> None:
        """Normalize, find the quotient, shift to subnormal, round."""
        f = self.format
        self._operands(p)
        bits = f.significand + 2
        self._quotient(p, bits)

        # The quotient is in (1/2, 2): its first bit or its second one is set.
        p.cut()
        rest = Cat(p.magnitude ^ p.minus.replicate(f.significand), p.minus)
        divisor = Cat(p.divisor, Const(0, 1))
        # A quotient that has ended leaves 0, or less the divisor; the sum of two numbers is 0, without carries.
        restored_zero = (rest ^ divisor) == ((rest | divisor) << 1)[: f.significand + 1]
        p.sticky = ~(restored_zero & rest[-1] | ~rest.any())
        first = p.quotient[-1]
        p.scaled = Mux(first, p.quotient, Cat(Const(0, 1), p.quotient)[:bits])
        p.drop = Mux(p.small, Mux(p.vanish, -1, p.below + ~first), 0)
        p.exponent = Mux(p.small, 1, (p.power - ~first).as_signed()).as_signed()
        p.delay(max(reduce_delay(f.significand + 1) + lut_delay(3), add_delay(f.exponent) + lut_delay()))
        p.cut()
        steps = bits.bit_length()
        for k in reversed(range(steps if self.subnormals else 0)):
            p.scaled, p.sticky = shift_right_sticky_step(p.scaled, p.sticky, p.drop[k], 1 << k)
            p.delay(lut_delay())
            if k and (steps - k) % 2 == 0:
                p.cut()
        round_and_pack(
            p,
            f,
            sign=p.sign,
            exponent=p.exponent,
            significand=p.scaled[2:],
            guard=p.scaled[1],
            sticky=p.scaled[0] | p.sticky,
            nan=p.is_nan,
            inf=p.is_inf,
            zero=p.is_zero,
            invalid=p.invalid,
            divide_by_zero=p.divide_by_zero,
            flags=self.has_flags,
            subnormals=self.subnormals,
        )

    def _operands(self, p: Pipeline) -> None:
        """Classify, normalize, and find the exponent of the quotient."""
        f = self.format
        x, y = (unpack(f, value, subnormals=self.subnormals) for value in (p.a, p.b))
        p.sign = x.sign ^ y.sign
        p.is_nan = x.is_nan | y.is_nan | x.is_zero & y.is_zero | x.is_inf & y.is_inf
        p.invalid = x.is_signaling | y.is_signaling | x.is_zero & y.is_zero | x.is_inf & y.is_inf
        p.is_inf = x.is_inf | y.is_zero
        p.divide_by_zero = y.is_zero & ~x.is_zero & ~x.is_inf & ~x.is_nan
        p.is_zero = x.is_zero | y.is_inf
        p.field_a, p.field_b = x.exponent + f.bias, y.exponent
        p.dividend, p.divisor = x.significand, y.significand
        p.dividend_places = p.divisor_places = Const(0, 1)
        p.delay(add_delay(f.exponent) + lut_delay())
        if self.subnormals:
            p.cut()
            start = p.mark()
            normalize_operand(p, "dividend", f.significand)
            with p.beside(start):
                normalize_operand(p, "divisor", f.significand)
        p.difference = (p.field_a - p.field_b).as_signed()
        p.correction = (p.dividend_places - p.divisor_places).as_signed()
        p.delay(add_delay(f.exponent))
        p.cut()
        p.power = (p.difference - p.correction).as_signed()
        difference = p.dividend - p.divisor
        p.minus = difference[-1]
        p.magnitude = difference[: f.significand] ^ difference[-1].replicate(f.significand)
        p.triple = p.divisor + (p.divisor << 1)
        p.delay(add_delay(f.significand + 2) + lut_delay(1.5))

    def _quotient(self, p: Pipeline, bits: int) -> None:
        """Divide; the sign of each remainder is the inverse of a bit.

        A remainder is kept as a magnitude and a sign, in one's complement: with the sign shifted in from below,
        every step subtracts, and only the sign of the difference decides whether to invert.
        """
        width = self.format.significand + 1
        p.quotient = ~p.minus
        found = 1
        while found < bits:
            p.cut()
            if found == 1:
                self._range(p, bits)
            one = _subtract(Cat(p.minus, p.magnitude), p.divisor, width)
            p.delay(add_delay(width) + lut_delay(2))
            first = ~(one[-1] ^ p.minus)
            if found + 1 == bits:
                p.magnitude = one[:-1] ^ one[-1].replicate(width - 1)
                p.minus = one[-1] ^ p.minus
                p.quotient = Cat(first, p.quotient)
                break
            twice = Cat(p.minus.replicate(2), p.magnitude)
            small = _subtract(twice, p.divisor, width)
            large = _subtract(twice, p.triple, width)
            p.magnitude = Mux(
                one[-1],
                small[:-1] ^ small[-1].replicate(width - 1),
                large[:-1] ^ large[-1].replicate(width - 1),
            )
            following = p.minus ^ Mux(one[-1], small[-1], large[-1])
            p.quotient = Cat(~following, first, p.quotient)
            p.minus = following
            found += 2

    def _range(self, p: Pipeline, bits: int) -> None:
        # Known long before the quotient: whether the result is subnormal, and by how many places.
        below = 1 - p.power
        steps = bits.bit_length()
        first = p.quotient[0]
        p.small = ~below[-1] & (below.any() | ~first) if self.subnormals else Const(0, 1)
        p.below = below[:steps]
        p.vanish = ~below[-1] & (below[steps:].any() | below[:steps].all())


def _subtract(minuend: Value, subtrahend: Value, width: int) -> Value:
    return (minuend - subtrahend)[:width]


class FP32FDiv(Div):
    """:class:`Div` of FP32; combinational unless a profile is given."""

    def __init__(self, **parameters: Any) -> None:
        if "stages" not in parameters:
            parameters.setdefault("profile", "comb")
        super().__init__(FP32, **parameters)
