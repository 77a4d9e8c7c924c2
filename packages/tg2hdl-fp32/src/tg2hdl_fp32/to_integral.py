"""Rounding to an integral value in the same format."""

__all__ = ["RoundToIntegral"]

from amaranth.hdl import Cat, Const, Mux, Value

from .classes import begin_class, end_class
from .constants import below
from .core import Core
from .pipeline import Pipeline
from .rounding import rounds_away
from .timing import add_delay, lut_delay
from .unpacked import unpack


class RoundToIntegral(Core):
    """``a`` rounded to an integer: ``RTZ`` truncates, ``RDN`` is floor, ``RUP`` ceil, ``RNE`` and ``RMM`` nearest.

    The sign of zero results is that of the operand. Bits below the unit are found by masks, not shifts, and the
    increment carries into the exponent by itself. The inexact flag is set when the value was not an integer.
    """

    operation = "round"
    operands = ("a",)

    def datapath(self, p: Pipeline) -> None:
        """Describe the operation."""
        fmt, n = self.format, self.format.fraction
        x = unpack(fmt, p.a, subnormals=self.subnormals)
        # Only with a bias of 1 can a subnormal number be one half or more.
        exponent = x.exponent if fmt.bias == 1 else x.field
        # Place k is below the unit when the exponent is below bias + fraction - k; two places above the fraction.
        p.below = Cat(below(exponent, fmt.bias + n - k) for k in range(n + 2))
        p.is_unit = Cat(exponent == fmt.bias + n - k for k in range(n + 1))
        p.is_first = Cat(exponent == fmt.bias + n - k - 1 for k in range(n + 1))
        p.sign, p.significand, p.magnitude = x.sign, x.significand, p.a[:-1]
        begin_class(p, "x", fmt, p.a)
        p.delay(lut_delay(3))
        p.cut()
        # The unit is the lowest bit that is not below it, guard the highest that is.
        p.guards = _any_of(p.significand & p.is_first)
        p.stickies = _any_of(p.significand & p.below[1:])
        end_class(p, "x", fmt, subnormals=self.subnormals)
        p.odds = _any_of(p.significand & p.is_unit)
        p.delay(lut_delay(2.5))
        p.cut()
        guard, sticky = p.wire(p.guards.any()), p.wire(p.stickies.any())
        p.up = rounds_away(p.rm, p.sign, p.odds.any(), guard, sticky)
        p.inexact = (guard | sticky) & ~p.x_nan
        # Ones below the unit carry the increment to it.
        p.filled = p.magnitude | p.below[:n]
        p.delay(lut_delay(2))
        p.cut()
        p.rounded = (p.filled + p.up)[: fmt.width - 1]
        # Without infinities a largest number that is not an integer rounds up to NaN.
        p.beyond = p.filled.all() & p.up if fmt.finite and fmt.emax < n else Const(0)
        p.delay(add_delay(fmt.width - 1))
        p.cut()
        whole = p.rounded & ~Cat(p.below[:n], Const(0, fmt.exponent))
        small = p.below[n]
        to_nan = p.x_nan | p.beyond
        body = Mux(to_nan, fmt.nan, Mux(small, Mux(p.up, fmt.one, 0), whole))
        p.result = Cat(body[: fmt.width - 1], p.sign & ~to_nan)
        p.delay(lut_delay(2))
        if self.has_flags:
            p.flags = Cat(p.inexact, Const(0, 3), p.x_signaling)

    def tuned_stages(self, profile: str) -> int | None:
        """Few registers, as for every conversion."""
        return {"balanced": 2, "fast": 4}.get(profile)


def _any_of(value: Value) -> Value:
    """OR of every four bits."""
    return Cat(value[k : k + 4].any() for k in range(0, len(value), 4))
