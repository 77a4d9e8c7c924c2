"""Conversion of an integer to a float."""

__all__ = ["IntToFloat"]

from typing import Any

from amaranth.hdl import Cat, Const, Shape, signed, unsigned

from .core import Core
from .errors import FloatParameterError
from .format import FP32, Format
from .pipeline import Pipeline
from .rounding import round_and_pack
from .shifting import leading_zeros, shift_left
from .timing import add_delay, lut_delay


class IntToFloat(Core):
    """An integer as a float, correctly rounded; zero gives +0.

    Parameters
    ----------
    width : int
        Bits of the integer, 1 to 64.
    signed : bool
        Two's complement or unsigned.
    """

    operation = "int_to_float"
    operands = ("a",)

    def __init__(
        self, format: Format = FP32, width: int = 32, signed: bool = True, **parameters: Any
    ) -> None:
        if not isinstance(width, int) or not 1 <= width <= 64:
            raise FloatParameterError(f"integer width {width!r} is not allowed; use 1 to 64 bits")
        self.width, self.signed = width, signed
        super().__init__(format, **parameters)

    def operand_shapes(self) -> tuple[Shape, ...]:
        """Integer of the chosen width."""
        return (signed(self.width) if self.signed else unsigned(self.width),)

    def datapath(self, p: Pipeline) -> None:
        """Describe the conversion."""
        fmt, width = self.format, self.width
        n = fmt.significand
        p.sign = p.a[-1] if self.signed else Const(0, 1)
        if self.signed:
            flipped = p.a.as_unsigned() ^ p.sign.replicate(width)
            p.magnitude = (Cat(1, flipped) + Cat(p.sign, Const(0, width)))[1 : width + 1]
            p.delay(add_delay(width) + lut_delay(0.5))
            p.cut()
        else:
            p.magnitude = p.a.as_unsigned()
        levels = max((width - 1).bit_length(), 1)
        count = leading_zeros(p, p.magnitude)
        p.count = p.wire(Cat(count, Const(0, 1)))[:levels]
        p.zero = ~p.magnitude.any()
        p.delay(lut_delay(4 if width > 16 else 3))
        p.cut()
        half = levels // 2
        # Room for the significand, the guard bit and one more below.
        wide = Cat(Const(0, max(n + 2 - width, 0)), p.magnitude)
        p.half_shifted = shift_left(p, wide, p.count[half:], unit=1 << half)
        bits = max(fmt.exponent + 1, levels + 1, (fmt.bias + width).bit_length())
        p.exponent = (fmt.bias + width - 1 - p.count)[:bits]
        p.delay(lut_delay(levels - half))
        p.cut()
        frame = p.wire(shift_left(p, p.half_shifted, p.count[:half]))
        p.delay(lut_delay(half))
        round_and_pack(
            p,
            fmt,
            sign=p.sign,
            exponent=p.exponent,
            significand=frame[-n:],
            guard=frame[-n - 1],
            sticky=frame[: -n - 1].any(),
            nan=Const(0),
            inf=Const(0),
            zero=p.zero,
            flags=self.has_flags,
            subnormals=self.subnormals,
        )
