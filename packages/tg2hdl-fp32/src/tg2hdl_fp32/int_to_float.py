"""Conversion of an integer to a float."""

__all__ = ["IntToFloat", "check_point"]

from typing import Any

from amaranth.hdl import Cat, Const, Mux, Shape, Value, signed, unsigned

from .constants import at_most
from .core import Core
from .errors import FloatParameterError, FloatTypeError
from .format import FP32, Format
from .pipeline import Pipeline
from .rounding_known import choose_special, round_chosen
from .shifting import count_chunks, join_chunks, shift_left
from .timing import add_delay, lut_delay


def check_point(format: Format, width: int, point: int) -> None:
    """Refuse a binary point for which no number has a normal float, or all but zero are too large.

    Parameters
    ----------
    format : Format
        Of the float.
    width : int
        Bits of the integer.
    point : int
        Places by which the integer is scaled: its value is ``n / 2**point``.

    Raises
    ------
    FloatTypeError
        For anything but an int.
    FloatParameterError
        For a point that does not suit.
    """
    if not isinstance(point, int) or isinstance(point, bool):
        raise FloatTypeError(f"point must be an int, not {point!r}")
    low, high = -format.emax, format.bias + width - 2
    if not low <= point <= high:
        raise FloatParameterError(
            f"a binary point {point} does not suit {width} bits and {format}; use {low} to {high}"
        )


class IntToFloat(Core):
    """An integer or a fixed-point number as a float, correctly rounded; zero gives +0.

    Parameters
    ----------
    format : Format
        Of the result.
    width : int
        Bits of the integer, 1 to 64.
    signed : bool
        Two's complement or unsigned.
    point : int
        Bits after the binary point: the number is ``a * 2**-point``. A negative one stands for zeros that are left out
        before the point.
    """

    operation = "int_to_float"
    overflows = True
    operands = ("a",)

    def __init__(
        self,
        format: Format = FP32,
        width: int = 32,
        signed: bool = True,
        *,
        point: int = 0,
        **parameters: Any,
    ) -> None:
        if not isinstance(width, int) or not 1 <= width <= 64:
            raise FloatParameterError(f"integer width {width!r} is not allowed; use 1 to 64 bits")
        check_point(format, width, point)
        self.width, self.signed, self.point = width, signed, point
        super().__init__(format, **parameters)

    def operand_shapes(self) -> tuple[Shape, ...]:
        """Integer of the chosen width."""
        return (signed(self.width) if self.signed else unsigned(self.width),)

    def datapath(self, p: Pipeline) -> None:
        """Describe the conversion."""
        fmt, width = self.format, self.width
        n = fmt.significand
        # The magnitude of a negative number is its complement plus one; the rounder adds the one.
        p.sign = p.a[-1] if self.signed else Const(0, 1)
        p.flipped = p.a.as_unsigned() ^ p.sign.replicate(width)
        count_chunks(p, "zeros", p.flipped)
        p.some = Cat(p.flipped[k : k + 8].any() for k in range(0, width, 8))
        p.delay(lut_delay(3.5))
        p.cut()
        levels = max((width - 1).bit_length(), 1)
        p.count = join_chunks(p, "zeros", width)
        zero = p.wire(p.count[levels] if width == 1 << levels else ~p.some.any())
        # For minus one, whose complement is zero, all bits below the hidden bit are set.
        clamped, most = zero, width - 1
        base = fmt.bias - self.point
        if base + width - 2 < most:
            # Numbers below the smallest normal one are shifted to its place.
            most = base + width - 2
            clamped = ~at_most(p.count, most)
        places = p.wire(Mux(clamped, most, p.count)[:levels])
        p.tiny = clamped if most < width - 1 else Const(0, 1)
        half = min(levels, 3)
        # Room for the significand, the guard bit and one more below.
        wide = Cat(p.sign.replicate(max(n + 2 - width, 0)), p.flipped)
        p.shifted = shift_left(p, wide, places[half:], unit=1 << half, fill=p.sign)
        p.places = places[:half]
        p.zero = zero & ~p.sign
        p.delay(lut_delay(levels - half + 2))
        p.cut()
        p.frame = shift_left(p, p.shifted, p.places[1:], unit=2, fill=p.sign)
        bits = max(fmt.exponent + 1, levels + 2, (base + width).bit_length())
        p.exponent = (base + width - 1 - p.count)[:bits]
        p.delay(max(lut_delay(half + 0.5), add_delay(bits)))
        p.cut()
        self._round(p)

    def _round(self, p: Pipeline) -> None:
        fmt = self.format
        n = fmt.significand
        # The shift by the last place is here; the ends of the low bits before and after it differ in one bit.
        last, below = p.places[0], len(p.frame) - n - 1
        frame = p.wire(Mux(last, Cat(p.sign, p.frame[:-1]), p.frame))
        significand, guard = frame[-n:], frame[below]
        end = Mux(last, p.sign, p.frame[below - 1])
        some = p.wire(p.frame[: below - 1].any() | end)
        full = p.wire(p.frame[: below - 1].all() & end)
        filled = p.wire(p.sign & full)
        high = p.exponent[fmt.exponent :]
        over: Value = Const(0)
        if fmt.bias - self.point + self.width - 1 > fmt.max_exponent_field:
            over = high.any() | (Const(0) if fmt.finite else p.exponent[: fmt.exponent].all())
        hidden: Value = Const(1)
        flush = None
        if not isinstance(p.tiny, Const):
            hidden, over = ~p.tiny, over & ~p.tiny
            # The complement of the smallest normal number looks tiny.
            flush = None if self.subnormals else p.wire(p.tiny & ~(filled & guard & significand[:-1].all()))
        choose_special(
            p,
            fmt,
            sign=p.sign,
            nan=Const(0),
            inf=Const(0),
            zero=p.zero,
            over=p.wire(over),
            flush=flush,
            saturate=self.saturate,
        )
        round_chosen(
            p,
            fmt,
            field=p.exponent[: fmt.exponent],
            significand=Cat(significand[:-1], hidden),
            guard=p.wire(guard ^ filled),
            sticky=p.wire(Mux(p.sign, ~full, some)),
            carry=p.wire(filled & guard) if self.signed else None,
            flags=self.has_flags,
            saturate=self.saturate,
        )

    def tuned_stages(self, profile: str) -> int | None:
        """Few registers, as for every conversion."""
        return {"balanced": 2, "fast": 4}.get(profile)
