"""Rounding to an integral value in the same format."""

__all__ = ["RoundToIntegral"]

from amaranth.hdl import Cat, Const, Mux, Value

from .core import Core
from .pipeline import Pipeline
from .rounding import rounds_away
from .timing import add_delay, lut_delay
from .unpacked import unpack


class RoundToIntegral(Core):
    """``a`` rounded to an integer: ``RTZ`` truncates, ``RDN`` is floor, ``RUP`` ceil, ``RNE`` and ``RMM`` nearest.

    The sign of zero results is that of the operand. Bits below the unit are found by masks, not shifts, and the
    increment carries into the exponent by itself. The inexact flag tells that the value was no integer.
    """

    operation = "round"
    operands = ("a",)

    def datapath(self, p: Pipeline) -> None:
        """Describe the operation."""
        fmt = self.format
        x = unpack(fmt, p.a, subnormals=self.subnormals)
        # Only with a bias of 1 can a subnormal number be one half or more.
        exponent = x.exponent if fmt.bias == 1 else x.field
        # Bit k of a fraction is below the unit when the exponent is below bias + fraction - k.
        p.below = Cat(_below(exponent, fmt.bias + fmt.fraction - k) for k in range(fmt.fraction))
        p.small = _below(exponent, fmt.bias)
        p.tiny = _below(exponent, fmt.bias - 1)
        p.sign, p.significand, p.magnitude = x.sign, x.significand, p.a[:-1]
        p.nan, p.signals = x.is_nan, x.is_signaling
        p.delay(lut_delay(3))
        p.cut()
        n = fmt.fraction
        below = Cat(p.below, p.small, p.tiny)
        # The unit is the lowest bit that is not below it, guard the highest that is.
        unit = p.wire(Cat(1, below[: n + 1]) & ~Cat(below[: n + 2])[: n + 2])
        first = p.wire(Cat(below[: n + 2]) & ~Cat(below[1 : n + 2], 0))
        sig = Cat(p.significand, 0)
        guard = (sig & first[: n + 2]).any()
        sticky = (sig & below[: n + 2] & ~first[: n + 2]).any()
        odd = (sig & unit[: n + 2]).any()
        p.up = rounds_away(p.rm, p.sign, odd, guard, sticky)
        p.inexact = (guard | sticky) & ~p.nan
        p.unit = unit[: n + 1] & ~Cat(Const(0, n), 0)
        p.delay(lut_delay(4))
        p.cut()
        kept = p.magnitude & ~Cat(p.below, Const(0, fmt.exponent))
        p.rounded = (kept + Mux(p.up, p.unit, 0))[: fmt.width - 1]
        p.delay(add_delay(fmt.width - 1) + lut_delay())
        p.cut()
        small = Mux(p.up, fmt.one, 0)
        body = Mux(p.nan, fmt.nan, Mux(p.small, small, p.rounded))
        p.result = Cat(body[: fmt.width - 1], p.sign & ~p.nan)
        p.delay(lut_delay(2))
        if self.has_flags:
            p.flags = Cat(p.inexact, Const(0, 3), p.signals)


def _below(field: Value, limit: int) -> Value:
    if limit >= 1 << len(field):
        return Const(1)
    return field < limit if limit > 0 else Const(0)
