"""Conversion between float formats."""

__all__ = ["FloatToFloat"]

from typing import Any

from amaranth.hdl import Cat, Const, Mux, Shape, Value, unsigned

from .core import Core
from .errors import FloatTypeError
from .format import FP32, Format, format_by_name
from .pipeline import Pipeline
from .rounding import round_and_pack
from .shifting import leading_zeros, shift_left, shift_right_sticky
from .timing import add_delay, lut_delay, reduce_delay
from .unpacked import unpack


class FloatToFloat(Core):
    """``a`` in another format, correctly rounded; NaN becomes the canonical NaN.

    A format without infinities gets NaN for infinities and for overflow.

    Parameters
    ----------
    result : Format or str
        Format of the result, or its name.
    """

    operation = "float_to_float"
    operands = ("a",)

    def __init__(self, format: Format = FP32, result: Format | str = "FP16", **parameters: Any) -> None:
        if isinstance(result, str):
            result = format_by_name(result)
        if not isinstance(result, Format):
            raise FloatTypeError(f"result must be a Format, such as FP16, not {result!r}")
        self.result_format = result
        super().__init__(format, **parameters)

    def result_shape(self) -> Shape:
        """Bit pattern of the other format."""
        return unsigned(self.result_format.width)

    def datapath(self, p: Pipeline) -> None:
        """Describe the conversion."""
        source, target = self.format, self.result_format
        x = unpack(source, p.a, subnormals=self.subnormals)
        p.sign, p.significand = x.sign, x.significand
        p.nan, p.inf, p.zero, p.invalid = x.is_nan, x.is_inf, x.is_zero, x.is_signaling
        bits = max(source.exponent, target.exponent) + 2
        rebased = p.wire((x.exponent + (target.bias - source.bias)).as_signed())
        p.exponent = Cat(rebased, rebased[-1].replicate(bits))[:bits].as_signed()
        p.sticky = Const(0, 1)
        p.delay(reduce_delay(source.exponent) + add_delay(bits) - 1)
        if target.emin < source.emin and self.subnormals:
            self._widen_range(p)
        elif target.emin > source.emin:
            self._narrow_range(p)
        n = target.significand
        frame = p.wire(Cat(Const(0, max(n + 2 - source.significand, 0)), p.significand))
        round_and_pack(
            p,
            target,
            sign=p.sign,
            exponent=p.exponent,
            significand=frame[-n:],
            guard=frame[-n - 1],
            sticky=p.wire(p.sticky | frame[: -n - 1].any()),
            nan=p.nan,
            inf=p.inf & ~p.nan,
            zero=p.zero,
            invalid=p.invalid,
            flags=self.has_flags,
            subnormals=self.subnormals,
        )

    def _widen_range(self, p: Pipeline) -> None:
        """Normalize subnormal numbers as far as the other format goes."""
        n = self.format.significand
        room = self.format.emin - self.result_format.emin
        p.cut()
        levels = (n - 1).bit_length()
        marker = 1 << (n - 1 - room) if room < n else 0
        p.count = leading_zeros(p, p.wire(p.significand | Const(marker, n)))[:levels]
        p.delay(lut_delay(3))
        p.cut()
        p.significand = shift_left(p, p.significand, p.count)
        p.exponent = (p.exponent - p.count).as_signed()
        p.delay(lut_delay(levels))
        p.cut()

    def _narrow_range(self, p: Pipeline) -> None:
        """Move numbers below the other format's normal range to its subnormal one."""
        n = self.result_format.significand
        width = max(self.format.significand, n + 2)
        p.cut()
        p.significand = Cat(Const(0, width - self.format.significand), p.significand)
        distance = p.wire((1 - p.exponent).as_signed())
        levels = width.bit_length()
        near = p.wire(~distance[-1])
        high = distance[levels:-1]
        far = p.wire(high.any() if len(high) else Const(0))
        if self.subnormals:
            p.places = Cat((bit | far) & near for bit in distance[: min(levels, len(distance) - 1)])
            p.exponent = Mux(near, 1, p.exponent).as_signed()
        else:
            # Without subnormals the exponent alone tells the rounder to flush.
            p.places = Const(0, 1)
        p.delay(add_delay(len(distance)) + lut_delay())
        p.cut()
        places: Value = p.places
        half = len(places) // 2
        value, sticky = shift_right_sticky(p, p.significand, places[half:], unit=1 << half)
        p.significand, p.sticky = value, sticky
        p.delay(lut_delay(len(places) - half + 1))
        p.cut()
        value, sticky = shift_right_sticky(p, p.significand, p.places[:half], sticky=p.sticky)
        p.significand, p.sticky = value, sticky
        p.delay(lut_delay(half + 1))
        p.cut()
