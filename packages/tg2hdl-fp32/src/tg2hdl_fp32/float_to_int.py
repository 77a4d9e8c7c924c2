"""Conversion of a float to an integer."""

__all__ = ["OVERFLOWS", "FloatToInt"]

from typing import Any

from amaranth.hdl import Cat, Const, Mux, Shape, signed, unsigned

from .core import Core
from .errors import FloatParameterError, one_of
from .format import FP32, Format
from .modes import RoundingMode
from .pipeline import Pipeline
from .rounding import rounds_away
from .shifting import shift_right_sticky
from .timing import add_delay, lut_delay, reduce_delay
from .unpacked import unpack

#: What happens to a number that does not fit.
OVERFLOWS = ("saturate", "wrap")


class FloatToInt(Core):
    """``a`` as an integer, toward zero unless another rounding is asked for.

    Parameters
    ----------
    width : int
        Bits of the integer, 2 to 64.
    signed : bool
        Two's complement or unsigned.
    overflow : str
        ``saturate`` gives the nearest integer of the type, infinities too, and 0 for NaN. ``wrap`` takes the
        rounded number modulo ``2**width``, and gives 0 for NaN and infinities; so do the casts of tinygrad.
    """

    operation = "float_to_int"
    operands = ("a",)

    def __init__(
        self,
        format: Format = FP32,
        width: int = 32,
        signed: bool = True,
        *,
        overflow: str = "saturate",
        rounding: RoundingMode | str = RoundingMode.RTZ,
        **parameters: Any,
    ) -> None:
        if not isinstance(width, int) or not 2 <= width <= 64:
            raise FloatParameterError(f"integer width {width!r} is not allowed; use 2 to 64 bits")
        if overflow not in OVERFLOWS:
            raise FloatParameterError(f"unknown overflow {overflow!r}; use one of {one_of(OVERFLOWS)}")
        self.width, self.signed, self.overflow = width, signed, overflow
        super().__init__(format, rounding=rounding, **parameters)

    def result_shape(self) -> Shape:
        """Integer of the chosen width."""
        return signed(self.width) if self.signed else unsigned(self.width)

    def datapath(self, p: Pipeline) -> None:
        """Describe the conversion."""
        fmt, width, wrap = self.format, self.width, self.overflow == "wrap"
        x = unpack(fmt, p.a, subnormals=self.subnormals)
        # Highest place of the hidden bit that matters, and the frame down to the guard bit.
        top = width - 1 + (fmt.fraction if wrap else 0)
        bottom = min(-1, top - fmt.fraction)
        frame = top - bottom + 1
        levels = (frame + 1).bit_length()
        distance = p.wire((fmt.bias + top - x.exponent).as_signed())
        p.beyond = distance[-1] if distance.shape().signed else Const(0)
        high = distance[levels:-1]
        far = high.any() if len(high) else Const(0)
        p.places = Cat(bit | far for bit in distance[:levels]) if len(distance) > levels else distance
        p.sign, p.significand = x.sign, x.significand
        p.nan, p.inf = x.is_nan, x.is_inf
        p.delay(add_delay(fmt.exponent + 1) + lut_delay())
        p.cut()
        value = Cat(Const(0, top - fmt.fraction - bottom), p.significand)
        sticky = Const(0, 1)
        half = len(p.places) // 2
        p.shifted, p.sticky = shift_right_sticky(p, value, p.places[half:], unit=1 << half, sticky=sticky)
        p.delay(lut_delay(len(p.places) - half))
        p.cut()
        p.shifted, p.sticky = shift_right_sticky(p, p.shifted, p.places[:half], sticky=p.sticky)
        p.delay(lut_delay(half + 0.5))
        p.cut()
        shifted = p.wire(p.shifted)
        whole = p.wire(Mux(p.beyond, 0, shifted[-bottom : width - bottom]))
        guard = p.wire(shifted[-bottom - 1] & ~p.beyond)
        sticky = p.wire((p.sticky | shifted[: -bottom - 1].any()) & ~p.beyond)
        up = p.wire(rounds_away(p.rm, p.sign, whole[0], guard, sticky))
        p.inexact = (guard | sticky) & ~p.nan
        # -(t + up) is ~t + 1 - up.
        flipped = Cat(whole, 0) ^ p.sign.replicate(width + 1)
        total = (Cat(1, flipped) + Cat(up ^ p.sign, Const(0, width)))[1 : width + 2]
        p.total = total
        p.delay(add_delay(width) + lut_delay(2))
        p.cut()
        total = p.total
        outside = p.wire(total[width] ^ total[width - 1] if self.signed else total[width])
        if not wrap:
            outside = p.wire(outside | p.beyond)
        low = total[:width]
        if wrap:
            p.result = Mux(p.nan | p.inf, 0, low)
            wrong = p.nan | p.inf | outside | p.beyond
        else:
            largest = (1 << (width - self.signed)) - 1
            smallest = -(1 << (width - 1)) if self.signed else 0
            limit = Mux(p.sign, Const(smallest & ((1 << width) - 1), width), Const(largest, width))
            p.result = Mux(p.nan, 0, Mux(outside, limit, low))
            wrong = p.nan | outside
        if self.has_flags:
            p.flags = Cat(p.inexact & ~wrong, Const(0, 3), wrong)
        p.delay(lut_delay(2) + (0 if wrap else reduce_delay(4)))
