"""Multiplication."""

__all__ = ["Mul"]

from amaranth.hdl import Cat, Const, Mux, Value

from .classes import begin_class, end_class
from .core import Core
from .multiplier import multiply
from .pipeline import Pipeline
from .rounding_known import choose_special, round_chosen
from .shifting import count_chunks, join_chunks
from .timing import add_delay, lut_delay
from .unpacked import Unpacked, unpack


class Mul(Core):
    """``a * b``, correctly rounded.

    The significands are multiplied as they are, subnormal or not; meanwhile the exponents and the zeros of the
    operands give one shift that normalizes the product or moves it to the subnormal range. The sticky bit comes
    from the trailing zeros of the operands, so that no wide OR follows the shifter.
    """

    operation = "mul"
    overflows = True

    def datapath(self, p: Pipeline) -> None:
        """Describe the multiplication."""
        fmt, n = self.format, self.format.significand
        x, y = (unpack(fmt, value, subnormals=self.subnormals) for value in (p.a, p.b))
        start = p.mark()
        p.sign = x.sign ^ y.sign
        self._multiply(p, x, y)
        with p.beside(start):
            self._plan_shift(p, x, y)
        p.cut()
        if self.subnormals:
            self._shift(p)
            frame = self._window(p, p.shifted, p.amount, range(1))
        else:
            frame = p.wire(p.product[n - 2 :])
        fine = p.wire(~frame[-1] & p.above_one if self.subnormals else ~frame[-1])
        p.kept = Mux(fine, frame[:-1], frame[1:])
        p.final_exponent = Mux(fine, p.less_exponent, p.coarse_exponent).as_signed()
        p.sticky = p.sticky_low | (frame[0] & ~fine)
        self._choose_special(p, fine)
        p.delay(lut_delay(3.3 if self.subnormals else 2.8))
        p.cut()
        round_chosen(
            p,
            fmt,
            field=p.final_exponent[: fmt.exponent],
            significand=p.kept[1:],
            guard=p.kept[0],
            sticky=p.sticky,
            invalid=p.invalid,
            flags=self.has_flags,
            saturate=self.saturate,
        )

    def tuned_stages(self, profile: str) -> int | None:
        """Numbers of stages that were measured for FP32 on an ECP5."""
        if self.format.significand != 24:
            return None
        if not self.target.startswith("ecp5"):
            # The inferred multiplication is then the slowest stage, wherever the parallel path is cut.
            return {"balanced": 4, "fast": 4}.get(profile)
        fast, balanced = (10, 7) if self.subnormals else (7, 6)
        return {"balanced": balanced, "fast": fast}.get(profile)

    def _multiply(self, p: Pipeline, x: Unpacked, y: Unpacked) -> None:
        """Set ``p.product`` to the product of the significands."""
        if self.subnormals:
            tops = x.hidden, y.hidden
            multiply(p, "product", x.fraction, y.fraction, tops=tops, target=self.target, cuts=5)
        else:
            # Without subnormals only a zero has no hidden bit, and the product does not matter.
            factors = Cat(x.fraction, Const(1, 1)), Cat(y.fraction, Const(1, 1))
            multiply(p, "product", *factors, target=self.target, cuts=5)

    @property
    def _reach(self) -> int:
        """Bits of the largest shift to either side; no useful shift reaches ``2**reach - 1``."""
        return (self.format.significand + 1).bit_length()

    def _plan_shift(self, p: Pipeline, x: Unpacked, y: Unpacked) -> None:
        """Find the class, the zeros and the exponent while the multipliers work."""
        fmt, n, reach = self.format, self.format.significand, self._reach
        for name, bits, operand in (("x", p.a, x), ("y", p.b, y)):
            begin_class(p, name, fmt, bits)
            p[f"{name}_fraction"], p[f"{name}_field"] = operand.fraction, operand.field
            # A fraction of zero counts as its width, the position of the hidden bit.
            count_chunks(p, f"{name}_trailing", Cat(*reversed(list(operand.fraction))))
        p.cut()
        for name in "xy":
            end_class(p, name, fmt, subnormals=self.subnormals)
            field, hidden = p[f"{name}_field"], p[f"{name}_hidden"]
            p[f"{name}_exponent"] = Cat(field[0] | ~hidden, field[1:])
            p[f"{name}_trailing"] = join_chunks(p, f"{name}_trailing", fmt.fraction)
        if self.subnormals:
            # Only the smaller operand can ask for a left shift: two subnormal operands need none.
            p.small = Mux(p.x_hidden, Cat(p.y_fraction, p.y_hidden), Cat(p.x_fraction, 0))
        p.delay(lut_delay(2))
        p.cut()
        invalid = p.x_inf & p.y_zero | p.y_inf & p.x_zero
        p.nan = p.x_nan | p.y_nan | invalid
        p.invalid = invalid | p.x_signaling | p.y_signaling
        p.inf = p.x_inf | p.y_inf
        p.zero = p.x_zero | p.y_zero
        p.exponent_sum = p.x_exponent + p.y_exponent
        p.trailing = p.x_trailing + p.y_trailing
        if self.subnormals:
            count_chunks(p, "leading", p.small)
        p.delay(max(add_delay(fmt.exponent), lut_delay(2.5)))
        p.cut()
        # Exponent of a hidden bit at the top of the product; `room` is how far it is above the smallest.
        p.exponent = (p.exponent_sum - (fmt.bias - 1)).as_signed()
        if self.subnormals:
            room = (p.exponent_sum - fmt.bias).as_signed()
            # A long significand is shifted by more than the few exponents of a small field differ.
            p.room = Cat(room, room[-1].replicate(max(reach + 1 - len(room), 0))).as_signed()
            p.leading = join_chunks(p, "leading", n)
        p.delay(max(add_delay(fmt.exponent + 2), lut_delay(2.5)))
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
        else:
            p.sticky_low = p.trailing < n - 2
            p.coarse_exponent = p.exponent
            self._check_range(p)
        p.delay(lut_delay(2))

    def _check_range(self, p: Pipeline) -> None:
        """Classify the last exponent, for either outcome of the last normalization."""
        exponent, bits = p.coarse_exponent, self.format.exponent
        p.less_exponent = (exponent - 1).as_signed()
        beyond = p.wire(~exponent[-1] & exponent[bits:-1].any())
        if self.format.finite:
            # The rounder looks for the pattern of all ones itself.
            p.over, p.over_less = beyond, beyond & (exponent != 1 << bits)
        else:
            p.over, p.over_less = beyond | ~exponent[-1] & exponent[:bits].all(), beyond
        p.above_one = exponent != 1
        p.flush = exponent[-1] | ~exponent.any()
        p.flush_less = exponent[-1] | ~exponent[1:].any()

    def _choose_special(self, p: Pipeline, less: Value) -> None:
        choose_special(
            p,
            self.format,
            sign=p.sign,
            nan=p.nan,
            inf=p.inf,
            zero=p.zero,
            over=p.wire(Mux(less, p.over_less, p.over)),
            flush=None if self.subnormals else p.wire(Mux(less, p.flush_less, p.flush)),
            saturate=self.saturate,
        )

    def _shift(self, p: Pipeline) -> None:
        """Normalize the product or move it to the subnormal range, all but the last bit of the shift."""
        n, reach = self.format.significand, self._reach
        # The product starts far left: a left shift by `places`, or a right shift by 1 + ~places, is one right shift.
        p.amount = Cat(~p.places, p.tiny)
        middle = reach // 2
        value = Cat(Const(0, (1 << reach) - 1), p.product)[n - 2 :]
        p.shifted = self._window(p, value, p.amount, range(reach, middle, -1))
        p.place = p.trailing + ((1 << reach) - n + 1)
        p.coarse_exponent = Mux(p.tiny, 1, (p.exponent - p.places).as_signed())
        p.delay(max(lut_delay(reach - middle) + 0.8, add_delay(self.format.exponent + 2)))
        p.cut()
        p.shifted = self._window(p, p.shifted, p.amount, range(middle, 0, -1))
        p.sticky_low = p.place < p.amount
        self._check_range(p)
        p.delay(max(lut_delay(middle) + 0.6, add_delay(reach)))
        p.cut()

    def _window(self, p: Pipeline, value: Value, amount: Value, levels: range) -> Value:
        """Shift right, and keep at every level only bits that can still reach the top."""
        for k in levels:
            keep = self.format.significand + 1 + (1 << k)
            value = p.wire(Mux(amount[k], value[1 << k :], value)[:keep])
        return value
