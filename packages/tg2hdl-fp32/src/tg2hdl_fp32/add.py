"""Addition and subtraction."""

__all__ = ["Add", "Sub"]

from amaranth.hdl import Cat, Const, Mux, Value

from .comparing import compare_halves, magnitude_order
from .core import Core
from .modes import RoundingMode
from .pipeline import Pipeline
from .rounding import round_and_pack
from .shifting import leading_zeros, shift_left, shift_right_sticky
from .timing import add_delay, lut_delay
from .unpacked import unpack


class Add(Core):
    """``a + b``, correctly rounded.

    One path: the operand of smaller magnitude is shifted right under a guard, a round and a sticky bit, added or
    subtracted, and the sum is normalized. A marker bit at the place of the smallest exponent stops the count of
    leading zeros there, so that subnormal sums need no second shift.
    """

    operation = "add"
    overflows = True

    def datapath(self, p: Pipeline) -> None:
        """Describe the addition."""
        self._order(p)
        self._align(p)
        self._sum(p)
        n = self.format.significand
        round_and_pack(
            p,
            self.format,
            sign=p.sum_sign,
            exponent=p.sum_exponent,
            significand=p.frame[-n:],
            guard=p.frame[-n - 1],
            sticky=p.frame[: -n - 1].any(),
            nan=p.nan,
            inf=p.inf,
            zero=p.sum_zero,
            over=p.sum_over if not self.format.finite else None,
            invalid=p.invalid,
            flags=self.has_flags,
            subnormals=self.subnormals,
            saturate=self.saturate,
        )

    def tuned_stages(self, profile: str) -> int | None:
        """Measured for FP32: in portable logic no design is faster than its multipliers, which 4 stages are."""
        portable = self.target == "generic" and self.format.significand == 24
        return {"balanced": 4}.get(profile) if portable else None

    def negate_b(self) -> bool:
        """Whether the second operand is subtracted."""
        return False

    def _order(self, p: Pipeline) -> None:
        """Find the larger magnitude and the difference of the exponents."""
        fmt = self.format
        x, y = (unpack(fmt, value, subnormals=self.subnormals) for value in (p.a, p.b))
        b_sign = ~y.sign if self.negate_b() else y.sign
        compare_halves(p, "magnitude", p.a[:-1], p.b[:-1])
        p.x_sign, p.y_sign = x.sign, b_sign
        p.x_exponent, p.y_exponent = x.exponent, y.exponent
        p.x_significand, p.y_significand = x.significand, y.significand
        p.subtract = x.sign ^ b_sign
        p.x_nan, p.y_nan = x.is_nan, y.is_nan
        p.x_inf, p.y_inf = x.is_inf, y.is_inf
        p.signals = x.is_signaling | y.is_signaling
        p.cut()
        opposite = p.x_inf & p.y_inf & p.subtract
        p.nan = p.x_nan | p.y_nan | opposite
        p.invalid = p.signals | opposite
        p.inf = p.x_inf | p.y_inf
        swap = p.wire(magnitude_order(p, "magnitude").less)
        p.sign = Mux(swap, p.y_sign, p.x_sign)
        p.big_exponent = Mux(swap, p.y_exponent, p.x_exponent)
        p.big = Mux(swap, p.y_significand, p.x_significand)
        p.small = Mux(swap, p.x_significand, p.y_significand)
        forward = p.wire((p.x_exponent - p.y_exponent)[: fmt.exponent])
        backward = p.wire((p.y_exponent - p.x_exponent)[: fmt.exponent])
        p.distance = Mux(swap, backward, forward)
        p.delay(add_delay(fmt.exponent) + lut_delay())
        p.cut()

    def _align(self, p: Pipeline) -> None:
        """Shift the smaller operand right, two bits beyond the larger one, and gather a sticky bit."""
        fmt = self.format
        levels = min((fmt.significand + 2).bit_length(), fmt.exponent)
        far = p.distance[levels:].any() if levels < fmt.exponent else Const(0)
        p.places = Cat(bit | far for bit in p.distance[:levels])
        value: Value = Cat(Const(0, 2), p.small)
        sticky: Value = Const(0, 1)
        amount = p.places
        p.delay(lut_delay())
        top = levels
        while top:
            step = min(top, 2 if top == levels else 3)
            value, sticky = shift_right_sticky(
                p, value, amount[top - step : top], unit=1 << (top - step), sticky=sticky
            )
            p.delay(lut_delay(step + (step == 2)))
            top -= step
            if top == 0:
                low = p.wire(Cat(sticky, value))
                p.addend = low ^ p.subtract.replicate(len(low))
                p.delay(lut_delay(0.5))
            p.aligned, p.fallen = value, sticky
            p.cut()
            value, sticky, amount = p.aligned, p.fallen, p.places

    def _sum(self, p: Pipeline) -> None:
        """Add or subtract, count leading zeros and normalize."""
        fmt = self.format
        width = fmt.significand + 4
        # The carry into the lowest bit completes the two's complement.
        total = p.wire(Cat(1, Cat(Const(0, 3), p.big)) + Cat(p.subtract, p.addend))
        p.total = Cat(total[1:width], total[width] & ~p.subtract)
        if self.subnormals:
            p.marker = self._marker(p.big_exponent, width)
        p.top_binade = p.big_exponent == (1 << fmt.exponent) - 2
        p.delay(add_delay(width + 1) + lut_delay(0.5))
        p.cut()
        p.stop = p.total | p.marker if self.subnormals else p.total
        p.zero = ~p.total.any()
        chunk = 8
        chunks = -(-width // chunk)
        padded = Cat(Const(0, chunks * chunk - width), p.stop)
        p.filled = Cat(padded[k * chunk : (k + 1) * chunk].any() for k in range(chunks))
        p.delay(lut_delay(3.5))
        p.cut()
        coarse = p.wire(leading_zeros(p, p.filled)[: (chunks - 1).bit_length()])
        p.coarse = coarse
        p.half_shifted = shift_left(p, p.total, coarse, unit=chunk)
        # All chunks are counted while the first nonzero one is found.
        padded = Cat(Const(0, chunks * chunk - width), p.stop)
        p.counts = Cat(leading_zeros(p, padded[k * chunk : (k + 1) * chunk])[:3] for k in range(chunks))
        p.delay(lut_delay(len(coarse) + 2))
        p.cut()
        p.fine = shift_left(p, p.counts, p.coarse, unit=3)[-3:]
        p.delay(lut_delay(2))
        p.cut()
        p.frame = shift_left(p, p.half_shifted, p.fine)
        p.sum_exponent = (p.big_exponent + 1 - Cat(p.fine, p.coarse)).as_signed()
        # Before rounding only a carry out of the top binade overflows; it is known earlier than the exponent.
        p.sum_over = p.top_binade & ~Cat(p.fine, p.coarse).any()
        cancel_sign = p.rm == RoundingMode.RDN.value
        p.sum_sign = Mux(p.zero & p.subtract & ~p.inf, cancel_sign, p.sign)
        p.sum_zero = p.zero
        p.delay(max(lut_delay(3.7), add_delay(fmt.exponent + 2)))
        p.cut()

    def _marker(self, exponent: Value, width: int) -> Value:
        # One-hot at `exponent` places below the top, so that the result's exponent is at least 1.
        span = min(width, 1 << self.format.exponent)
        bits = (span - 1).bit_length()
        near = ~exponent[bits:].any() if bits < len(exponent) else Const(1)
        hot = Cat((exponent[:bits] == k) & near for k in range(span))
        return Cat(Const(0, width - span), *reversed(list(hot)))


class Sub(Add):
    """``a - b``, correctly rounded; the same datapath as :class:`Add` with the second sign flipped."""

    operation = "sub"

    def negate_b(self) -> bool:
        """Whether the second operand is subtracted."""
        return True
