"""Sine of radians, for operands of any size."""

__all__ = ["Cos", "Sin", "SinCos"]

from contextlib import nullcontext
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .carry_save import add_three, save_carries
from .elementary import limbs
from .format import FP32, Format
from .leading_product import low_bits
from .logic_table import select
from .multiplier import multiply
from .pipeline import Pipeline
from .quarter_wave import QuarterWave
from .rom import lookup
from .sin_any_format import sine_by_polynomials, windows
from .timing import add_delay, lut_delay
from .unpacked import unpack

#: Leading zeros that a reduced operand can have, by exhaustive search for the nearest to a multiple of pi/2.
_CANCELLED = {"FP32": 30, "BF16": 16, "FP16": 16}

#: Bits of a factor that a multiplier block takes, and of the parts of a window that logic multiplies.
_BLOCK, _PART = 18, 28


def least_exponent(format: Format) -> int:
    """Return the exponent below which an operand is its own sine."""
    return -(format.significand // 2)


def reduction(format: Format) -> tuple[tuple[int, ...], int, int]:
    """Return the windows of 2/pi, their fraction bits, and how many fraction bits of the product are kept."""
    kept = _CANCELLED[format.name] + format.significand + 3
    fraction = kept + format.significand
    return windows(format, least_exponent(format), fraction), fraction, kept


class Sin(QuarterWave):
    """``sin(a)`` of radians, in any format: error below 1 ULP for every operand, odd.

    The operand is reduced as by Payne and Hanek: the significand is multiplied with just those bits of 2/pi
    that decide the quadrant and the position in it, taken from a table by the exponent. The position is normalized,
    so that operands next to a multiple of pi lose no accuracy. Operands whose cube does not matter are returned.

    Special values: NaN and infinities give NaN, +-0 gives +-0.
    """

    operation = "sin"
    formats = None

    def datapath(self, p: Pipeline) -> None:
        """With a table of quadratics, or in other formats with polynomials."""
        if self.format.name in _CANCELLED:
            super().datapath(p)
        else:
            sine_by_polynomials(self, p)

    def reduce(self, p: Pipeline) -> None:
        """Multiply with a window of 2/pi."""
        f = self.format
        x = unpack(f, p.a, subnormals=self.subnormals)
        words, fraction, kept = reduction(f)
        p.negative = x.sign
        p.is_nan = x.is_nan | x.is_inf
        p.significand = x.significand
        p.field = x.exponent
        offset = (x.field - (f.bias + least_exponent(f))).as_signed()
        p.is_tiny = offset[-1]
        p.delay(add_delay(f.exponent))
        address = offset[: (len(words) - 1).bit_length()]
        lookup(p, "window", address, words, fraction + 2, target=self.target)
        self._multiply(p, fraction + 2)
        turns = p.wire(Cat(p.low_part[:-1], Mux(p.low_part[-1], p.high_more, p.high_part)))
        falls, below = self.quadrant(turns[fraction : fraction + 2])
        p.reduced = turns[fraction - kept : fraction] ^ falls.replicate(kept)
        p.sign = self.signed_result(p, below & ~p.is_tiny)
        p.is_zero = Const(0, 1)
        p.delay(lut_delay(3))

    def may_be_subnormal(self) -> bool:
        """Whether an operand can be so near to a multiple of pi/2: in FP16."""
        return _CANCELLED[self.format.name] > -self.format.emin

    def quadrant(self, quadrant: Value) -> tuple[Value, Value]:
        """Return whether the function falls in a quadrant, and whether it is below zero there."""
        return quadrant[0], quadrant[1]

    def signed_result(self, p: Pipeline, below: Value) -> Value:
        """Return whether the result is negative; `below` tells it for positive operands.

        Parameters
        ----------
        p : Pipeline
        below : Value
            Bit.
        """
        return p.negative ^ below

    def _multiply(self, p: Pipeline, size: int) -> None:
        """Multiply significand and window modulo ``2**size``.

        Sets ``p.low_part`` with its carry on top, ``p.high_part``, and ``p.high_more``, which is the high part with a
        carry in. Blocks multiply the upper 18 bits of the significand, and rows in logic the others, with the window
        registered; the highest bits of the window, few of which matter, have logic of their own.
        """
        low = low_bits(self.format.significand)
        upper = p.significand[low:]
        middle = min(4 * _BLOCK, size - low)
        start = p.mark()
        places = range(0, middle, _BLOCK)
        for place in places:
            with p.beside(start) if place else nullcontext():
                p.delay(lut_delay(3))
                window = p.window[place : min(place + _BLOCK, middle)]
                multiply(p, f"block{place}", upper, window, target=limbs(self.target), cuts=4)
        with p.beside(start):
            p.delay(lut_delay(2))
            p.cut()
            _multiply_top(p, p.window[middle : size - low], p.significand[low:])
            _sum_rows(p, low, size)
        p.top_part = p.top_near + (p.top_far << 2)
        p.delay(lut_delay(3))
        p.cut()
        # Every other product of a block is as wide as the distance to the next one.
        even, odd = (
            [Cat(p[f"block{place}"], Const(0, 2 * _BLOCK))[: 2 * _BLOCK] for place in places[k::2]]
            for k in range(2)
        )
        sums = (Cat(Const(0, low), *even, p.top_part), Cat(Const(0, low + _BLOCK), *odd), p.rows)
        a, b = save_carries(p, sums, size)
        half = size // 2
        p.low_part = a[:half] + b[:half]
        p.high_part = (a[half:] + b[half:])[: size - half]
        p.high_more = (Cat(1, a[half:]) + Cat(1, b[half:]))[1 : size - half + 1]
        p.delay(add_delay(half) + lut_delay())
        p.cut()

    def small(self, p: Pipeline) -> tuple[Any, Any, Any]:
        """Return whether the operand is returned as it is, its significand and its exponent field."""
        return p.is_tiny, p.significand, p.field


def _sum_rows(p: Pipeline, low: int, size: int) -> None:
    """Set ``p.rows`` to the product of the window and the significand's `low` lowest bits, at most six.

    In three parts, for shorter carry chains. Adds three cuts.
    """
    starts = range(0, size, _PART)
    for start in starts:
        part = p.window[start : start + _PART]
        rows = [Cat(Const(0, k), p.significand[k].replicate(len(part)) & part) for k in range(low)]
        rows += [Const(0, 1)] * (6 - low)
        for k in range(3):
            p[f"pair{start}_{k}"] = rows[2 * k] + rows[2 * k + 1]
    p.delay(add_delay(_PART) + lut_delay(1.5))
    p.cut()
    for start in starts:
        pairs = [p[f"pair{start}_{k}"] for k in range(3)]
        p[f"rows{start}"] = add_three(p, (pairs[0], pairs[1], pairs[2]), _PART + low)
    p.delay(add_delay(_PART) + lut_delay())
    p.cut()
    # The first and the last part do not touch.
    outer = Cat(p.rows0, Const(0, _PART - low), p[f"rows{2 * _PART}"] if size > 2 * _PART else Const(0, 1))
    p.rows = Cat(p.rows0[:_PART], outer[_PART:] + p[f"rows{_PART}"])
    p.delay(add_delay(size - _PART) - lut_delay(0.5))
    p.cut()


def _multiply_top(p: Pipeline, window: Value, significand: Value) -> None:
    """Set ``p.top_near`` and ``p.top_far``: near + 4 far is the product modulo the window's size."""
    size = len(window)
    p.top_near = p.top_far = Const(0, 1)
    for name, places in (("top_near", range(min(2, size))), ("top_far", range(2, size))):
        if places:
            digits = significand[places.start : places.stop]
            narrow = window[: size - places.start]
            limit = 1 << len(narrow)
            index = range(1 << len(narrow) + len(digits))
            p[name] = select(Cat(narrow, digits), [(i % limit) * (i // limit) % limit for i in index])


class Cos(Sin):
    """``cos(a)`` of radians, in any format: error below 1 ULP for every operand, even; reduced as by :class:`Sin`.

    Special values: NaN and infinities give NaN, +-0 gives 1.
    """

    operation = "cos"

    def quadrant(self, quadrant: Value) -> tuple[Value, Value]:
        """Return whether the function falls in a quadrant, and whether it is below zero there."""
        return ~quadrant[0], quadrant[0] ^ quadrant[1]

    def signed_result(self, p: Pipeline, below: Value) -> Value:
        """Return `below`: the function is even.

        Parameters
        ----------
        p : Pipeline
        below : Value
            Bit.
        """
        return below

    def small(self, p: Pipeline) -> tuple[Any, Any, Any]:
        """Return whether the operand is so small that its cosine is 1, and the parts of 1."""
        f = self.format
        return p.is_tiny, Const(f.min_normal, f.significand), Const(f.bias, f.exponent)


class SinCos(wiring.Component):
    """Sine and cosine of the same operand: a :class:`Sin` and a :class:`Cos` side by side.

    Parameters
    ----------
    format : Format
        Any.
    parameters
        Those of :class:`Sin`.

    Attributes
    ----------
    latency, ii : int
        Cycles with `en` high from operand to results; 1.

    Members
    -------
    a : In(unsigned)
        Operand.
    en : In(1)
        Clock enable.
    sin, cos : Out(unsigned)
        Results.
    """

    operands = ("a",)
    ii = 1
    # Reading the latency of a core that is never built is a normal use; Amaranth would warn.
    _MustUse__silence = True

    def __init__(self, format: Format = FP32, **parameters: Any) -> None:
        self.parts: dict[str, Sin] = {"sin": Sin(format, **parameters), "cos": Cos(format, **parameters)}
        self.format, self.latency, self.domain = format, self.parts["sin"].latency, self.parts["sin"].domain
        width = format.width
        super().__init__({"a": In(width), "en": In(1, init=1), "sin": Out(width), "cos": Out(width)})

    def elaborate(self, platform: Any) -> Module:
        """Connect both cores."""
        m = Module()
        for name, core in self.parts.items():
            m.submodules[name] = core
            m.d.comb += [core.a.eq(self.a), core.en.eq(self.en), getattr(self, name).eq(core.result)]
        return m
