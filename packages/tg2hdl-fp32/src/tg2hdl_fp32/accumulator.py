"""One exact running sum that takes a value in every cycle."""

__all__ = ["Accumulator"]

from typing import Any

from amaranth.hdl import Cat, Const, Mux, Shape, Signal, Value, unsigned

from .errors import FloatParameterError
from .format import FP32, Format
from .fused import FusedSum
from .pipeline import Pipeline
from .shifting import shift_left
from .timing import add_delay, lut_delay
from .unpacked import unpack

#: Bits of the sum that are added in one stage.
_SEGMENT = 48


class Accumulator(FusedSum):
    """The sum of a sequence of values, one in each cycle: exact inside, rounded once at the output.

    `result` is the correctly rounded sum of the values since `first`, `latency` cycles after the last of them, and does
    not depend on their order. Each value is added to a fixed-point number that covers all exponents of the format. Its
    segments are added one stage after the other, so that a carry never travels through more than one of them and
    there is only one sum. A value of -0 changes nothing but the sign of a zero sum.

    Parameters
    ----------
    terms : int
        Values that a sum may have before it may exceed the frame; at least 2. Each doubling costs one bit.
    parameters
        Those of :class:`Core`. With no registers (``profile="comb"``), only the sum itself is one.

    Members
    -------
    a : In(unsigned)
        Value.
    first : In(1)
        The value begins a new sum. Before the first one, results are undefined.
    """

    operation = "accumulate"
    operands = ("a", "first")

    def __init__(self, format: Format = FP32, terms: int = 1 << 20, **parameters: Any) -> None:
        if not isinstance(terms, int) or terms < 2:
            raise FloatParameterError(f"an accumulator of {terms!r} terms is not possible; use 2 or more")
        self.terms = terms
        super().__init__(format, **parameters)

    def operand_shapes(self) -> tuple[Shape | Format, ...]:
        """The format, and one bit."""
        return self.format, unsigned(1)

    @property
    def sum_bits(self) -> int:
        """Bits of the sum, its sign left out."""
        return self.format.significand + self.format.max_exponent_field - 1 + (self.terms - 1).bit_length()

    def datapath(self, p: Pipeline) -> None:
        """Place the value, add it, round the sum."""
        fmt, width = self.format, self.sum_bits + 1
        x = unpack(fmt, p.a, subnormals=self.subnormals)
        p.sign, p.is_nan, p.signals, p.is_inf, p.is_zero = (
            x.sign,
            x.is_nan,
            x.is_signaling,
            x.is_inf,
            x.is_zero,
        )
        p.places = (x.exponent - 1)[: fmt.exponent]
        finite = p.wire(~(x.is_nan | x.is_inf))
        p.value = Cat(x.significand & finite.replicate(fmt.significand), Const(0, width - fmt.significand))
        p.delay(add_delay(fmt.exponent) + lut_delay(2))
        p.cut()
        for low in range(0, fmt.exponent, 2):
            p.value = shift_left(p, p.value, p.places[low : low + 2], unit=1 << low)
            p.delay(lut_delay(2))
            p.cut()
        value = p.wire(p.value ^ p.sign.replicate(width))
        for k, (low, high) in enumerate(self._segments_of(width)):
            p[f"value_{k}"] = value[low:high]
        p.delay(lut_delay())
        self._specials(p)
        p.cut()
        self._add(p, width)
        self.make_positive(p, "sum", width)
        p.sign = Mux(p.inf, p.minus_inf, Mux(p.subtract, p.negative, p.minus))
        top = fmt.max_exponent_field - 1 + (self.terms - 1).bit_length()
        p.top_exponent = Const(top, max(top.bit_length(), self.mark_bits))
        self.mark_digits(p)
        p.delay(lut_delay(2))
        p.cut()
        p.marker = self.marker(p, self.sum_bits)
        self.round_sum(p)

    def _specials(self, p: Pipeline) -> None:
        """Remember infinities, NaN and signs since the first value."""
        plus_inf = self._gather(p, "plus_inf", p.is_inf & ~p.sign)
        minus_inf = self._gather(p, "minus_inf", p.is_inf & p.sign)
        nan, signals = (
            self._gather(p, "any_nan", p.is_nan),
            self._gather(p, "any_signaling", p.is_nan & p.signals),
        )
        # The sign of a sum of zero depends on whether all values have one sign.
        minus, plus = self._gather(p, "some_minus", p.sign), self._gather(p, "some_plus", ~p.sign)
        both = p.wire(plus_inf & minus_inf)
        p.nan, p.inf, p.minus_inf = nan | both, plus_inf | minus_inf, minus_inf
        p.invalid = signals | both & ~nan
        p.subtract, p.minus = minus & plus, minus
        p.delay(lut_delay(2))

    def _gather(self, p: Pipeline, name: str, bit: Value) -> Value:
        """Return whether the bit was set since the first value."""
        held = p.adopt(Signal(name=f"{name}_so_far"))
        so_far = p.wire(bit | held & ~p.first)
        p.state(held, so_far)
        return so_far

    def _add(self, p: Pipeline, width: int) -> None:
        """Add the value, segment by segment, each with its own part of the sum."""
        p.carried = p.sign
        segments = self._segments_of(width)
        for k, (low, high) in enumerate(segments):
            held = p.adopt(Signal(high - low, name=f"held_{k}"))
            before = Mux(p.first, 0, held)
            total = p.wire(Cat(1, before) + Cat(p.carried, p[f"value_{k}"]))
            p.state(held, total[1 : high - low + 1])
            p[f"segment_{k}"], p.carried = total[1 : high - low + 1], total[high - low + 1]
            p.delay(add_delay(high - low + 1) + lut_delay())
            p.cut()
        p.sum = Cat(p[f"segment_{k}"] for k in range(len(segments)))

    @staticmethod
    def _segments_of(width: int) -> list[tuple[int, int]]:
        """First bit and end of each part of the sum."""
        return [(low, min(low + _SEGMENT, width)) for low in range(0, width, _SEGMENT)]
