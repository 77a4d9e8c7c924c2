"""Conversion between float formats."""

__all__ = ["FloatToFloat"]

from typing import Any

from amaranth.hdl import Cat, Const, Mux, Value

from .classes import begin_class, end_class
from .constants import at_most, below, constant_minus
from .core import Core
from .errors import FloatTypeError
from .format import FP32, Format, format_by_name
from .pipeline import Pipeline
from .rounding_known import choose_special, round_chosen
from .shifting import count_chunks, join_chunks, shift_left, shift_right_sticky
from .timing import add_delay, lut_delay
from .unpacked import Unpacked, unpack


class FloatToFloat(Core):
    """``a`` in another format, correctly rounded; NaN becomes the canonical NaN.

    A format without infinities gets NaN for infinities and for overflow.

    Parameters
    ----------
    format : Format
        Of the operand.
    result : Format or str
        Format of the result, or its name.
    """

    operation = "float_to_float"
    overflows = True
    operands = ("a",)

    def __init__(self, format: Format = FP32, result: Format | str = "FP16", **parameters: Any) -> None:
        if isinstance(result, str):
            result = format_by_name(result)
        if not isinstance(result, Format):
            raise FloatTypeError(f"result must be a Format, such as FP16, not {result!r}")
        self.result_format = result
        super().__init__(format, **parameters)

    def result_shape(self) -> Format:
        """The other format."""
        return self.result_format

    def datapath(self, p: Pipeline) -> None:
        """Describe the conversion."""
        source, target = self.format, self.result_format
        x = unpack(source, p.a, subnormals=self.subnormals)
        p.sign, p.significand = x.sign, x.significand
        begin_class(p, "x", source, p.a)
        p.over = ~below(x.field, self._shift + (1 << target.exponent) - (not target.finite))
        p.tiny = Const(0, 1) if self.subnormals else below(x.field, 1 + self._shift)
        p.field, p.near = x.field, Const(0, 1)
        widens = target.emin < source.emin and self.subnormals
        narrows = target.emin > source.emin and self.subnormals
        if widens:
            self._count_zeros(p, x.significand)
        elif narrows:
            self._plan_shift(p, x)
        p.delay(lut_delay(1.5))
        p.cut()
        end_class(p, "x", source, subnormals=self.subnormals)
        choose_special(
            p,
            target,
            sign=p.sign,
            nan=p.x_nan,
            inf=p.x_inf,
            zero=p.x_zero,
            over=p.over,
            flush=p.tiny if not self.subnormals else None,
            saturate=self.saturate,
        )
        # Subnormal numbers have the exponent field 0 and the exponent of 1.
        field = Cat(p.field[0] | ~p.x_hidden, p.field[1:])
        p.exponent = (Mux(p.near, 1 + self._shift, field) - self._shift)[: target.exponent]
        if widens:
            n = source.significand
            p.count = join_chunks(p, "leading", n)[: (n - 1).bit_length()]
            p.delay(max(add_delay(target.exponent), lut_delay(2)))
            p.cut()
            p.significand = shift_left(p, p.significand, p.count)
            p.exponent = (p.exponent - p.count)[: target.exponent]
            p.delay(max(lut_delay(len(p.count)), add_delay(target.exponent)))
        elif narrows:
            self._shift_right(p)
        else:
            p.delay(add_delay(target.exponent))
        self._round(p, narrows)

    def tuned_stages(self, profile: str) -> int | None:
        """Few registers, as for every conversion."""
        most = len(self._segments) - 1
        return {"balanced": 1 if self._exact else min(most, 2), "fast": min(most, 4)}.get(profile)

    @property
    def _shift(self) -> int:
        """Difference of the biases."""
        return self.format.bias - self.result_format.bias

    @property
    def _exact(self) -> bool:
        """Every number of this format is one of the other."""
        source, target = self.format, self.result_format
        least = (fmt.emin - fmt.fraction for fmt in (source, target))
        return (
            source.significand <= target.significand
            and source.emax <= target.emax
            and next(least) >= next(least)
        )

    def _count_zeros(self, p: Pipeline, significand: Value) -> None:
        """Count the shift that normalizes a subnormal number, up to the range of the other format."""
        n = self.format.significand
        room = self.format.emin - self.result_format.emin
        marker = 1 << (n - 1 - room) if room < n else 0
        count_chunks(p, "leading", p.wire(significand | Const(marker, n)))

    def _plan_shift(self, p: Pipeline, x: Unpacked) -> None:
        """Find the shift that moves a number to the other format's subnormal range."""
        n = self.result_format.significand
        width = max(self.format.significand, n + 2)
        levels = width.bit_length()
        # A number that is subnormal in this format leaves at most a sticky bit: the exponent needs no correction.
        deep = self.result_format.emin - self.format.emin > n
        exponent = x.field if deep else x.exponent
        places = constant_minus(p, 1 + self._shift, exponent, levels)
        p.near = at_most(exponent, 1 + self._shift)
        p.places = places & p.near.replicate(levels)
        p.far = at_most(exponent, 1 + self._shift - (1 << levels))
        # A fraction of zero counts as its width, the position of the hidden bit.
        count_chunks(p, "trailing", Cat(*reversed(list(x.fraction))))

    def _shift_right(self, p: Pipeline) -> None:
        n, levels = self.result_format.significand, len(p.places)
        width = max(self.format.significand, n + 2)
        value = Cat(Const(0, width - self.format.significand), p.significand)
        half = levels // 2
        value, _ = shift_right_sticky(p, value, p.places[half:], unit=1 << half)
        p.significand = value & ~p.far.replicate(width)
        # Lost bits follow from the position of the lowest set bit, not from the shifter.
        p.trailing = join_chunks(p, "trailing", self.format.fraction)
        surplus = self.format.significand - n - 1
        p.trailing = p.trailing.as_unsigned() + max(-surplus, 0)
        p.fallen = p.places + max(surplus, 0)
        p.delay(lut_delay(levels - half + 0.5))
        p.cut()
        p.significand, _ = shift_right_sticky(p, p.significand, p.places[:half])
        p.sticky = p.far | (p.trailing < p.fallen)
        p.delay(max(lut_delay(half), add_delay(levels) + lut_delay()))

    def _round(self, p: Pipeline, sticky: bool) -> None:
        """Round; `sticky` says whether ``p.sticky`` is already set."""
        n = self.result_format.significand
        p.cut()
        frame = p.wire(Cat(Const(0, max(n + 2 - len(p.significand), 0)), p.significand))
        round_chosen(
            p,
            self.result_format,
            field=p.exponent,
            significand=frame[-n:],
            guard=Const(0) if self._exact else frame[-n - 1],
            sticky=Const(0) if self._exact else p.sticky if sticky else p.wire(frame[: -n - 1].any()),
            invalid=p.x_signaling,
            flags=self.has_flags,
            saturate=self.saturate,
        )
