"""Multiplication."""

__all__ = ["FP32Mul", "Mul"]

from typing import Any

from amaranth.hdl import Cat, Const, Mux, Value

from .core import Core
from .format import FP32
from .multiplier import multiply
from .pipeline import Pipeline
from .rounding import round_and_pack
from .shifting import leading_zeros, trailing_zeros
from .timing import add_delay, lut_delay, reduce_delay
from .unpacked import Unpacked, unpack


class Mul(Core):
    """``a * b``, correctly rounded.

    The significands are multiplied as they are, subnormal or not; meanwhile the exponents and the zeros of the
    operands give one shift that normalizes the product or moves it to the subnormal range. The sticky bit comes
    from the trailing zeros of the operands, so that no wide OR follows the shifter.
    """

    operation = "mul"

    def datapath(self, p: Pipeline) -> None:
        """Describe the multiplication."""
        fmt, n = self.format, self.format.significand
        x, y = (unpack(fmt, value, subnormals=self.subnormals) for value in (p.a, p.b))
        start = p.mark()
        p.delay(reduce_delay(fmt.exponent))
        p.sign = x.sign ^ y.sign
        for name, operand in (("x", x), ("y", y)):
            p[f"{name}_nan"], p[f"{name}_signaling"] = operand.is_nan, operand.is_signaling
            p[f"{name}_inf"], p[f"{name}_zero"] = operand.is_inf, operand.is_zero
        multiply(p, "product", x.significand, y.significand, target=self.target, cuts=4)
        with p.beside(start):
            self._plan_shift(p, x, y)
        p.cut()
        if self.subnormals:
            self._shift(p)
        else:
            p.frame = p.product[n - 2 :]
            p.coarse_exponent = p.exponent
            p.less_exponent = (p.exponent - 1).as_signed()
            p.sticky_low = p.trailing < n - 2
        top = p.frame[-1]
        fine = p.wire(~top & p.above_one if self.subnormals else ~top)
        p.kept = Mux(fine, p.frame[:-1], p.frame[1:])
        p.final_exponent = Mux(fine, p.less_exponent, p.coarse_exponent).as_signed()
        p.sticky = p.sticky_low | (p.frame[0] & ~fine)
        p.delay(lut_delay(2.8))
        p.cut()
        round_and_pack(
            p,
            fmt,
            sign=p.sign,
            exponent=p.final_exponent,
            significand=p.kept[1:],
            guard=p.kept[0],
            sticky=p.sticky,
            nan=p.nan,
            inf=p.inf,
            zero=p.zero,
            invalid=p.invalid,
            flags=self.has_flags,
            subnormals=self.subnormals,
        )

    def tuned_stages(self, profile: str) -> int | None:
        """Numbers of stages that were measured for FP32 on an ECP5."""
        if self.format.significand == 24 and self.target.startswith("ecp5") and self.subnormals:
            return {"balanced": 7, "fast": 10}.get(profile)
        return None

    @property
    def _reach(self) -> int:
        """Bits of the largest shift to either side; ``2**reach - 1`` places are beyond every useful one."""
        return (self.format.significand + 1).bit_length()

    def _plan_shift(self, p: Pipeline, x: Unpacked, y: Unpacked) -> None:
        """Find the zeros and the exponent while the multipliers work."""
        fmt, reach = self.format, self._reach
        if self.subnormals:
            # Only the smaller operand can ask for a left shift: two subnormal operands need none.
            p.small = Mux(x.hidden, y.significand, x.significand)
        p.x, p.y = x.significand, y.significand
        p.x_exponent, p.y_exponent = x.exponent, y.exponent
        p.delay(reduce_delay(fmt.exponent) + lut_delay())
        p.cut()
        invalid = p.x_inf & p.y_zero | p.y_inf & p.x_zero
        p.nan = p.x_nan | p.y_nan | invalid
        p.invalid = invalid | p.x_signaling | p.y_signaling
        p.inf = p.x_inf | p.y_inf
        p.zero = p.x_zero | p.y_zero
        p.exponent_sum = p.x_exponent + p.y_exponent
        p.trailing_x, p.trailing_y = trailing_zeros(p, p.x), trailing_zeros(p, p.y)
        if self.subnormals:
            p.leading = leading_zeros(p, p.small)
        p.delay(lut_delay(4.3))
        p.cut()
        # Exponent of a hidden bit at the top of the product; `room` is how far it is above the smallest.
        p.exponent = (p.exponent_sum - (fmt.bias - 1)).as_signed()
        p.trailing = p.trailing_x + p.trailing_y
        if self.subnormals:
            p.room = (p.exponent_sum - fmt.bias).as_signed()
        p.delay(add_delay(fmt.exponent + 2))
        p.cut()
        if self.subnormals:
            p.all_left = p.leading.as_unsigned() < p.room
            p.lost = p.room[-1] & ~p.room[reach:].all()
        p.delay(add_delay(fmt.exponent + 2) + lut_delay())
        p.cut()
        if self.subnormals:
            places = Mux(p.all_left, p.leading[:reach], p.room[:reach])
            p.places = Mux(p.lost, 0, places)
            p.tiny = p.room[-1]
        p.delay(lut_delay(2))

    def _shift(self, p: Pipeline) -> None:
        """Normalize the product, or move it to the subnormal range."""
        n, reach = self.format.significand, self._reach
        # A shift to the left by `places`, or by 1 + ~places to the right, is one to the right from far left.
        amount = p.wire(Cat(~p.places, p.tiny))
        p.amount = amount
        half = reach // 2
        value = Cat(Const(0, (1 << reach) - 1), p.product)[n - 2 :]
        p.half_shifted = self._window(p, value, amount, range(reach, half - 1, -1))
        p.place = p.trailing + ((1 << reach) - n + 1)
        p.coarse_exponent = Mux(p.tiny, 1, (p.exponent - p.places).as_signed())
        p.delay(lut_delay(1 + reach - half) + 0.6)
        p.cut()
        p.frame = self._window(p, p.half_shifted, p.amount, range(half - 1, -1, -1))
        p.sticky_low = p.place < p.amount
        p.above_one = p.coarse_exponent != 1
        p.less_exponent = (p.coarse_exponent - 1).as_signed()
        p.delay(max(lut_delay(half) + 0.8, add_delay(reach)))
        p.cut()

    def _window(self, p: Pipeline, value: Value, amount: Value, levels: range) -> Value:
        """Shift right, and keep at every level only what can still reach the top bits."""
        for k in levels:
            keep = self.format.significand + 1 + (1 << k)
            value = p.wire(Mux(amount[k], value[1 << k :], value)[:keep])
        return value


class FP32Mul(Mul):
    """``a * b`` of FP32 patterns; combinational unless a profile is given."""

    def __init__(self, **parameters: Any) -> None:
        if "stages" not in parameters:
            parameters.setdefault("profile", "comb")
        super().__init__(FP32, **parameters)
