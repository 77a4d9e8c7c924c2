"""Sums of products with one rounding: dot product and complex product."""

__all__ = ["ComplexMul", "DotProduct"]

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .carry_save import add_segments, compress
from .core import FLAGS
from .errors import FloatParameterError, FloatTypeError
from .format import FP32, Format, format_by_name
from .fused import FusedSum
from .multiplier import multiply
from .pipeline import Pipeline
from .shifting import shift_left, shift_right_sticky
from .timing import add_delay, lut_delay, reduce_delay
from .unpacked import unpack

#: Terms of a dot product at most.
_MOST = 64


class DotProduct(FusedSum):
    """``a0 * b0 + a1 * b1 + ...`` with one rounding: the exact sum, correctly rounded.

    Two products are aligned to the larger one, in a frame that is as wide as that of a fused multiply-add. More are
    placed in a frame for all exponents of the format, which is narrow for FP16 (82 bits for three or four) and FP8,
    but has 556 bits for FP32.

    Parameters
    ----------
    terms : int
        Number of products, 2 to 64; by default as many as there are signs, or 2.
    signs : str
        ``+`` or ``-`` for each product, such as ``"+-"`` for ``a0 * b0 - a1 * b1``; all are added by default.
    result : Format, optional
        Format of the result, if it is not that of the operands. Its significand has less than twice the bits of theirs.
    """

    operation = "dot"

    def __init__(
        self,
        format: Format = FP32,
        terms: int | None = None,
        *,
        signs: str = "",
        result: Format | str | None = None,
        **parameters: Any,
    ) -> None:
        count = (len(signs) or 2) if terms is None else terms
        if not isinstance(count, int) or not 2 <= count <= _MOST:
            raise FloatParameterError(f"a dot product of {count!r} terms is not possible; use 2 to {_MOST}")
        if signs and (set(signs) - {"+", "-"} or len(signs) != count):
            raise FloatParameterError(f"signs {signs!r} do not suit {count} terms; use + or - for each")
        made = format if result is None else format_by_name(result) if isinstance(result, str) else result
        if not isinstance(made, Format):
            raise FloatTypeError(f"result must be a Format, such as FP16, not {result!r}")
        if isinstance(format, Format) and made != format and made.significand >= 2 * format.significand:
            raise FloatParameterError(
                f"a dot product of {format} cannot have a result of {made}; "
                f"use a significand of {2 * format.significand - 1} bits or less"
            )
        self.result_format = made
        self.terms = count
        self.signs = signs or "+" * count
        self.operands = tuple(f"{side}{k}" for k in range(count) for side in "ab")
        super().__init__(format, **parameters)

    def result_shape(self) -> Format:
        """The format of the result."""
        return self.result_format

    @property
    def sum_bits(self) -> int:
        """Bits of the frame, the sign left out."""
        carries = (self.terms - 1).bit_length()
        if self.terms == 2:
            # Twice the product, and the sticky bit.
            return 4 * self.format.significand + carries + 1
        return 2 * self.format.significand + 2 * (self.format.max_exponent_field - 1) + carries

    def datapath(self, p: Pipeline) -> None:
        """Multiply, align, add, round."""
        start = p.mark()
        pairs = [(f"a{k}", f"b{k}") for k in range(self.terms)]
        factors = [[unpack(self.format, p[x], subnormals=self.subnormals) for x in pair] for pair in pairs]
        for k, (x, y) in enumerate(factors):
            if k:
                with p.beside(start):
                    multiply(p, f"product{k}", x.significand, y.significand, target=self.target, cuts=4)
            else:
                multiply(p, "product0", x.significand, y.significand, target=self.target, cuts=4)
        with p.beside(start):
            self._exponents(p)
        p.cut()
        if self.terms == 2:
            self._align_two(p)
        else:
            self._place(p)
        self._sum(p)
        self.round_sum(p)

    def _exponents(self, p: Pipeline) -> None:
        """Classify the operands and add their exponents, while the multipliers work."""
        for k, minus in enumerate(self.signs):
            x, y = (unpack(self.format, p[f"{side}{k}"], subnormals=self.subnormals) for side in "ab")
            p[f"sign{k}"] = x.sign ^ y.sign ^ (minus == "-")
            p[f"nan{k}"] = x.is_nan | y.is_nan
            p[f"signals{k}"] = x.is_signaling | y.is_signaling
            p[f"undefined{k}"] = x.is_inf & y.is_zero | x.is_zero & y.is_inf
            p[f"inf{k}"], p[f"zero{k}"] = x.is_inf | y.is_inf, x.is_zero | y.is_zero
            p[f"exponent{k}"] = x.exponent + y.exponent
        p.delay(reduce_delay(self.format.exponent) + add_delay(self.format.exponent))
        p.cut()
        signs, far = (Cat(p[f"{what}{k}"] for k in range(self.terms)) for what in ("sign", "inf"))
        either, undefined, signals = (
            Cat(p[f"{what}{k}"] for k in range(self.terms)).any() for what in ("nan", "undefined", "signals")
        )
        above, below = p.wire((far & ~signs).any()), p.wire((far & signs).any())
        p.nan = either | undefined | above & below
        p.invalid = signals | undefined | above & below & ~either
        p.inf, p.inf_sign = above | below, below
        p.subtract = signs.any() & ~signs.all()
        p.delay(lut_delay(4))

    def _align_two(self, p: Pipeline) -> None:
        """Shift the product of the smaller exponent right, by twice its width and into a sticky bit at most."""
        n, size = self.format.significand, self.format.exponent + 2
        difference = p.wire((p.exponent0 - p.exponent1)[:size])
        # A product of zero has any exponent, and must not be the larger one.
        p.swap = p.zero0 | difference[-1] & ~p.zero1
        p.difference = difference
        p.delay(add_delay(size) + lut_delay())
        p.cut()
        opposite = p.wire(p.difference[-1])
        distance = p.wire((p.difference ^ opposite.replicate(size)) + opposite)[:size]
        levels = (2 * n + 1).bit_length()
        far = distance[levels:].any() if levels < size else Const(0)
        p.places = Cat(bit | far for bit in distance[: min(levels, size)])
        p.big, small = Mux(p.swap, p.product1, p.product0), Mux(p.swap, p.product0, p.product1)
        # So far below the larger product, only whether it is zero matters.
        p.small = Mux(far, 0, small)
        p.fallen = far & ~Mux(p.swap, p.zero0, p.zero1)
        p.big_sign, p.small_sign = Mux(p.swap, p.sign1, p.sign0), Mux(p.swap, p.sign0, p.sign1)
        p.big_exponent = Mux(p.swap, p.exponent1, p.exponent0)
        p.delay(add_delay(size) + lut_delay())
        p.cut()
        p.aligned = Cat(Const(0, 2 * n), p.small)
        for low in reversed(range(0, len(p.places), 2)):
            amount = p.places[low : low + 2]
            aligned, fallen = shift_right_sticky(p, p.aligned, amount, unit=1 << low, sticky=p.fallen)
            p.aligned, p.fallen = aligned, fallen
            p.delay(lut_delay(len(amount) + 1))
            p.cut()
        p.term0 = self._signed(Cat(Const(0, 2 * n + 1), p.big), p.big_sign)
        p.term1 = self._signed(Cat(p.fallen, p.aligned), p.small_sign)
        # One is added for each complement.
        p.corrections = p.big_sign + p.small_sign
        p.delay(lut_delay())
        # With a sign, also where it cannot be negative.
        p.top = Cat(p.big_exponent, Const(0, 1)).as_signed() + (1 + self._shift)

    def _place(self, p: Pipeline) -> None:
        """Shift every product to its place in the frame."""
        bits = self.format.exponent + 1
        for k in range(self.terms):
            p[f"places{k}"] = (p[f"exponent{k}"] - 2)[:bits]
            width = self.sum_bits - (self.terms - 1).bit_length()
            p[f"term{k}"] = Cat(p[f"product{k}"], Const(0, width - 2 * self.format.significand))
        p.delay(add_delay(bits))
        p.cut()
        for low in range(0, bits, 2):
            for k in range(self.terms):
                p[f"term{k}"] = shift_left(p, p[f"term{k}"], p[f"places{k}"][low : low + 2], unit=1 << low)
            p.delay(lut_delay(2))
            p.cut()
        for k in range(self.terms):
            p[f"term{k}"] = self._signed(p[f"term{k}"], p[f"sign{k}"])
        p.corrections = sum((p[f"sign{k}"] for k in range(self.terms)), Const(0))
        p.delay(lut_delay(self.terms.bit_length()))
        carries = (self.terms - 1).bit_length()
        top = 2 * self.format.max_exponent_field + self._shift + carries
        p.top = Const(top, max(top.bit_length(), self.mark_bits) + 1)

    @property
    def _shift(self) -> int:
        """From the sum of two exponents with their biases to an exponent with that of the result."""
        return self.result_format.bias - 2 * self.format.bias

    def _signed(self, magnitude: Value, sign: Value) -> Value:
        width = self.sum_bits + 1
        return Cat(magnitude, Const(0, width - len(magnitude))) ^ sign.replicate(width)

    def _sum(self, p: Pipeline) -> None:
        """Add the terms, make the sum positive, and mark the place of the smallest exponent."""
        width = self.sum_bits + 1
        terms = compress(p, [*(f"term{k}" for k in range(self.terms)), "corrections"], width)
        p.cut()
        add_segments(p, "sum", terms, width)
        p.cut()
        self.make_positive(p, "sum", width)
        p.sign = Mux(p.inf, p.inf_sign, Mux(p.subtract, p.negative, p.sign0))
        if self.terms == 2:
            self._lower(p)
        p.top_exponent = Cat(p.top, Const(0, self.mark_bits))[: max(len(p.top) - 1, self.mark_bits)]
        self.mark_digits(p)
        p.delay(lut_delay(2))
        p.cut()
        p.marker = self.marker(p, self.sum_bits)

    def _lower(self, p: Pipeline) -> None:
        """Shift a sum whose top bit is below the smallest exponent right, into the guard bit at most."""
        levels = (self.result_format.significand + 1).bit_length()
        below = p.wire(-p.top)
        deep, far = p.wire(p.top[-1]), below[levels:].any()
        p.lower = Cat((bit | far) & deep for bit in below[:levels])
        p.top = Mux(deep, 0, p.top)
        p.delay(add_delay(len(p.top)) + lut_delay())
        p.cut()
        for low in reversed(range(0, levels, 2)):
            value, fallen = shift_right_sticky(p, p.total, p.lower[low : low + 2], unit=1 << low)
            p.total = Cat(value[0] | fallen, value[1:])
            p.delay(lut_delay(3))
            p.cut()


class ComplexMul(wiring.Component):
    """``(a_re + i a_im) * (b_re + i b_im)``: each part is a sum of two products with one rounding.

    Parameters
    ----------
    format : Format
        Format of the four operands and both results.
    parameters
        Those of :class:`DotProduct`.

    Attributes
    ----------
    latency, ii : int
        Cycles with `en` high from operands to results; 1.

    Members
    -------
    a_re, a_im, b_re, b_im : In(unsigned)
        Factors.
    rm : In(3)
        Rounding mode; only with ``rounding="dynamic"``.
    en : In(1)
        Clock enable.
    re, im : Out(unsigned)
        Product.
    flags : Out(FLAGS)
        Exception flags of either part; only with ``flags=True``.
    """

    operands = ("a_re", "a_im", "b_re", "b_im")
    ii = 1
    # Reading the latency of a core that is never built is a normal use; Amaranth would warn.
    _MustUse__silence = True

    def __init__(self, format: Format = FP32, **parameters: Any) -> None:
        self.parts = {
            "re": DotProduct(format, signs="+-", **parameters),
            "im": DotProduct(format, **parameters),
        }
        core = self.parts["re"]
        self.format, self.latency, self.domain = format, core.latency, core.domain
        members: dict[str, Any] = {name: In(format.width) for name in self.operands}
        members |= {name: core.signature.members[name] for name in ("rm",) if core.dynamic}
        members |= {"en": In(1, init=1), "re": Out(format.width), "im": Out(format.width)}
        if core.has_flags:
            members["flags"] = Out(FLAGS)
        super().__init__(members)

    def elaborate(self, platform: Any) -> Module:
        """Connect both parts."""
        m = Module()
        crossed = {"re": (self.b_re, self.b_im), "im": (self.b_im, self.b_re)}
        for name, core in self.parts.items():
            m.submodules[name] = core
            first, second = crossed[name]
            m.d.comb += [core.a0.eq(self.a_re), core.b0.eq(first), core.a1.eq(self.a_im), core.b1.eq(second)]
            m.d.comb += [core.en.eq(self.en), getattr(self, name).eq(core.result)]
            if core.dynamic:
                m.d.comb += core.rm.eq(self.rm)
        if self.parts["re"].has_flags:
            m.d.comb += self.flags.eq(self.parts["re"].flags.as_value() | self.parts["im"].flags.as_value())
        return m
