"""Division, correctly rounded."""

__all__ = ["Div"]

from amaranth.hdl import Cat, Const, Mux

from .core import Core
from .normalizing import normalize_operand
from .pipeline import Pipeline
from .rounding import round_and_pack
from .shifting import shift_right_sticky_step
from .timing import add_delay, lut_delay
from .unpacked import unpack


class Div(Core):
    """``a / b``, correctly rounded in any format and rounding mode.

    Non-restoring digit recurrence, two quotient bits to a step: the second remainder is formed for both
    outcomes of the first bit at once, from the divisor and three times the divisor, and the sign of the first
    remainder selects.

    Special values: NaN, 0 / 0 and inf / inf give NaN, a finite number but zero over 0 gives an infinity.
    """

    operation = "div"
    overflows = True

    def datapath(self, p: Pipeline) -> None:
        """Normalize, find the quotient, shift to subnormal, round."""
        f = self.format
        self._operands(p)
        bits = f.significand + 2
        self._quotient(p, bits)

        # The quotient is in (1/2, 2): its first bit or its second one is set.
        steps = bits.bit_length()
        p.scaled = Mux(p.quotient[-1], p.quotient, Cat(Const(0, 1), p.quotient)[:bits])
        small = (~p.below[-1] & p.below.any()) if self.subnormals else Const(0, 1)
        p.drop = Mux(small, p.below[:steps] | p.below[steps:-1].any().replicate(steps), 0)
        p.exponent = Mux(small, 1, p.lowered).as_signed()
        p.delay(lut_delay(2.5))
        p.cut()
        # An exact quotient leaves 0 or minus the divisor; whether their sum is 0 takes no carry chain.
        divisor = Cat(p.divisor, Const(0, 1))
        carried = p.rest ^ divisor ^ ((p.rest | divisor) << 1)[: f.significand + 1]
        p.carried = Cat(carried[k : k + 2].any() for k in range(0, len(carried), 2))
        p.left = Cat(p.rest[k : k + 4].any() for k in range(0, len(carried), 4))
        p.sticky = Const(0, 1)
        # The bits of the shift have a high fan-out: each selects for the whole quotient.
        p.delay(lut_delay(1.5))
        for k in reversed(range(steps if self.subnormals else 0)):
            p.scaled, p.sticky = shift_right_sticky_step(p.scaled, p.sticky, p.drop[k], 1 << k)
            p.delay(lut_delay())
            if k and (steps - k) % 2 == 0:
                p.cut()
        if not self.subnormals:
            p.cut()
        remainder = p.left.any() & (p.carried.any() | ~p.rest[-1])
        p.delay(lut_delay())
        round_and_pack(
            p,
            f,
            sign=p.sign,
            exponent=p.exponent,
            significand=p.scaled[2:],
            guard=p.scaled[1],
            sticky=p.scaled[0] | p.sticky | remainder,
            nan=p.is_nan,
            inf=p.is_inf,
            zero=p.is_zero,
            invalid=p.invalid,
            divide_by_zero=p.divide_by_zero,
            flags=self.has_flags,
            subnormals=self.subnormals,
            saturate=self.saturate,
        )

    def _operands(self, p: Pipeline) -> None:
        """Classify, normalize, and subtract for the first bit of the quotient."""
        f = self.format
        x, y = (unpack(f, value, subnormals=self.subnormals) for value in (p.a, p.b))
        p.sign = x.sign ^ y.sign
        p.is_nan = x.is_nan | y.is_nan | x.is_zero & y.is_zero | x.is_inf & y.is_inf
        p.invalid = x.is_signaling | y.is_signaling | x.is_zero & y.is_zero | x.is_inf & y.is_inf
        p.is_inf = x.is_inf | y.is_zero
        p.divide_by_zero = y.is_zero & ~x.is_zero & ~x.is_inf & ~x.is_nan
        p.is_zero = x.is_zero | y.is_inf
        p.field_a, p.field_b = x.exponent, y.exponent
        p.dividend, p.divisor = x.significand, y.significand
        p.dividend_places = p.divisor_places = Const(0, 1)
        start = p.mark()
        p.delay(lut_delay(2.5))
        if self.subnormals:
            normalize_operand(p, "dividend", f.significand)
            with p.beside(start):
                p.delay(lut_delay(2.5))
                normalize_operand(p, "divisor", f.significand)
        p.cut()
        p.difference = (p.field_a - p.field_b).as_signed()
        p.correction = (p.dividend_places - p.divisor_places).as_signed()
        difference = p.dividend - p.divisor
        p.minus = difference[-1]
        p.magnitude = difference[: f.significand] ^ difference[-1].replicate(f.significand)
        p.triple = p.divisor + (p.divisor << 1)
        p.delay(add_delay(f.significand + 2) + lut_delay(1.5))

    def _quotient(self, p: Pipeline, bits: int) -> None:
        """Divide; the sign of each remainder is the inverse of a bit.

        A remainder is kept as a magnitude and a sign, in one's complement: with the sign shifted in from below,
        every step subtracts, and only the sign of the difference decides whether to invert. The registers are
        between the subtractions and the selection.
        """
        n = self.format.significand
        p.quotient = ~p.minus
        found, pair = 1, True
        while found < bits:
            p.cut()
            self._exponent(p, found)
            difference = (Cat(p.minus, p.magnitude) - p.divisor)[: n + 1]
            p.former = p.minus
            if found + 1 == bits or not pair:
                p.one = difference
                p.delay(add_delay(n + 1))
                p.cut()
                p.rest = p.one ^ p.former.replicate(n + 1)
                p.minus = p.rest[-1]
                p.magnitude = p.one[:-1] ^ p.one[-1].replicate(n)
                p.quotient = Cat(~p.minus, p.quotient)
                p.delay(lut_delay())
                found += 1
            else:
                p.first = difference[-1]
                twice = Cat(p.minus.replicate(2), p.magnitude)
                p.small, p.large = ((twice - multiple)[: n + 1] for multiple in (p.divisor, p.triple))
                p.delay(add_delay(n + 1))
                p.cut()
                small, large = (v[:-1] ^ v[-1].replicate(n) for v in (p.small, p.large))
                p.magnitude = Mux(p.first, small, large)
                chosen = Mux(p.first, p.small, p.large)
                p.rest = Cat(chosen[:-1] ^ p.former.replicate(n), p.former ^ chosen[-1])
                p.minus = p.former ^ chosen[-1]
                p.quotient = Cat(~p.minus, ~(p.first ^ p.former), p.quotient)
                p.delay(lut_delay(1.5))
                found += 2
            # After the multiplexer of a pair's two remainders, one subtraction routes better than three.
            pair = not pair or self.profile != "fast"

    def _exponent(self, p: Pipeline, found: int) -> None:
        """Find the exponent of the quotient, and its shift when subnormal, long before the quotient."""
        if found == 1:
            p.power = (p.difference - p.correction).as_signed()
        elif found == 3:
            bias, first = self.format.bias, p.quotient[-1]
            p.below = (~p.power + Mux(first, Const(2 - bias), Const(3 - bias))).as_signed()
            p.lowered = (p.power + Mux(first, bias, bias - 1)).as_signed()
