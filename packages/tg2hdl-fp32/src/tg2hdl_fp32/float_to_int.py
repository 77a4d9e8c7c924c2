"""Conversion of a float to an integer."""

__all__ = ["OVERFLOWS", "FloatToInt"]

from typing import Any

from amaranth.hdl import Cat, Const, Mux, Shape, signed, unsigned

from .classes import begin_class, end_class
from .constants import at_most, constant_minus
from .core import Core
from .errors import FloatParameterError, one_of
from .format import FP32, Format
from .int_to_float import check_point
from .modes import RoundingMode
from .pipeline import Pipeline
from .rounding import rounds_away
from .shifting import shift_right_sticky
from .timing import add_delay, lut_delay
from .unpacked import unpack

#: Treatment of a number that does not fit.
OVERFLOWS = ("saturate", "wrap")


class FloatToInt(Core):
    """``a`` as an integer or a fixed-point number, toward zero unless another rounding is asked for.

    Parameters
    ----------
    format : Format
        Of the operand.
    width : int
        Bits of the integer, 2 to 64.
    signed : bool
        Two's complement or unsigned.
    overflow : str
        ``saturate`` gives the nearest integer of the type, infinities too, and 0 for NaN. ``wrap`` takes the
        rounded number modulo ``2**width``, and gives 0 for NaN and infinities; so do the casts of tinygrad.
    point : int
        Bits after the binary point: the result is ``a * 2**point``, rounded. A negative one drops bits before the
        point.
    rounding : RoundingMode or "dynamic"
        Direction of rounding.
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
        point: int = 0,
        rounding: RoundingMode | str = RoundingMode.RTZ,
        **parameters: Any,
    ) -> None:
        if not isinstance(width, int) or not 2 <= width <= 64:
            raise FloatParameterError(f"integer width {width!r} is not allowed; use 2 to 64 bits")
        if overflow not in OVERFLOWS:
            raise FloatParameterError(f"unknown overflow {overflow!r}; use one of {one_of(OVERFLOWS)}")
        check_point(format, width, point)
        self.width, self.signed, self.overflow, self.point = width, signed, overflow, point
        super().__init__(format, rounding=rounding, **parameters)

    def result_shape(self) -> Shape:
        """Integer of the chosen width."""
        return signed(self.width) if self.signed else unsigned(self.width)

    def datapath(self, p: Pipeline) -> None:
        """Describe the conversion."""
        fmt, width, wrap = self.format, self.width, self.overflow == "wrap"
        x = unpack(fmt, p.a, subnormals=self.subnormals)
        # As if the exponent were larger.
        bias = fmt.bias - self.point
        # Highest useful position of the hidden bit, and the frame down to the guard bit.
        top = width - 1 + (fmt.fraction if wrap else 0)
        bottom = min(-1, top - fmt.fraction)
        frame = top - bottom + 1
        levels = (frame + 1).bit_length()
        # Only with a bias of 1 or less does a subnormal number reach the guard bit, and its exponent matter.
        exponent = x.exponent if bias <= 1 else x.field
        p.places = constant_minus(p, bias + top, exponent, levels)
        p.beyond = ~at_most(exponent, bias + top)
        # The sum drops the bits above the integer; a plain conversion does not need this wire.
        p.large = ~at_most(exponent, bias + width - 1) if wrap and self.has_flags else Const(0, 1)
        # Too far right, or so far left that nothing is left modulo the width.
        out = p.wire(at_most(exponent, bias + top - (1 << levels)) | (p.beyond if wrap else Const(0)))
        p.out, p.sign = out, x.sign
        p.significand = x.significand & ~out.replicate(fmt.significand)
        begin_class(p, "x", fmt, p.a)
        p.delay(lut_delay(2))
        p.cut()
        end_class(p, "x", fmt, subnormals=self.subnormals)
        value = Cat(Const(0, top - fmt.fraction - bottom), p.significand)
        half = levels // 2
        shifted, sticky = shift_right_sticky(p, value, p.places[half:], unit=1 << half)
        # From here on the significand is complemented where the number is negative.
        p.shifted = shifted ^ p.sign.replicate(len(shifted))
        p.sticky = sticky | p.out & ~p.x_zero
        p.delay(lut_delay(levels - half + 0.5))
        p.cut()
        p.shifted, sticky = shift_right_sticky(p, p.shifted, p.places[:half], sticky=p.sticky, fill=p.sign)
        low = p.shifted[: -bottom - 1]
        p.sticky = sticky | (low ^ p.sign.replicate(len(low))).any()
        p.delay(lut_delay(half))
        p.cut()
        p.whole = Cat(p.shifted[-bottom : width - bottom], p.sign)
        p.guard, p.odd = p.shifted[-bottom - 1] ^ p.sign, p.whole[0] ^ p.sign
        p.up = rounds_away(p.rm, p.sign, p.odd, p.guard, p.sticky) & ~p.beyond
        p.inexact = (p.guard | p.sticky) & ~p.x_nan & ~p.beyond
        if self.rounding is not RoundingMode.RTZ:
            p.delay(lut_delay(2))
            p.cut()
        # -(t + up) is ~t + 1 - up.
        p.total = (Cat(1, p.whole) + Cat(p.up ^ p.sign, Const(0, width)))[1 : width + 2]
        p.delay(add_delay(width))
        p.cut()
        total = p.total
        outside = p.wire((total[width] ^ total[width - 1] if self.signed else total[width]) | p.beyond)
        low = total[:width]
        if wrap:
            p.result = Mux(p.x_nan | p.x_inf, 0, low)
            wrong = p.x_nan | p.x_inf | p.large | outside
        else:
            largest = (1 << (width - self.signed)) - 1
            smallest = -(1 << (width - 1)) if self.signed else 0
            limit = Mux(p.sign, Const(smallest & ((1 << width) - 1), width), Const(largest, width))
            if fmt.max_exponent_field < bias + top:
                # In a narrow format even infinity has the exponent field of a number that would fit.
                outside = p.wire(outside | p.x_inf)
            p.result = Mux(p.x_nan, 0, Mux(outside, limit, low))
            wrong = p.x_nan | outside
        if self.has_flags:
            p.flags = Cat(p.inexact & ~wrong, Const(0, 3), wrong)
        p.delay(lut_delay(2))

    def tuned_stages(self, profile: str) -> int | None:
        """Few registers, as for every conversion; one more where rounding takes logic."""
        return {"balanced": 2, "fast": 4 + (self.rounding is not RoundingMode.RTZ)}.get(profile)
