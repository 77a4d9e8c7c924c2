"""Pipelined posit arithmetic, one result per cycle: decode, exact integers, encode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amaranth.hdl import Cat, Const, Mux, Shape, Value, unsigned

from tg2hdl_fp32 import (
    FP32,
    Core,
    FloatParameterError,
    Format,
    Pipeline,
    add_delay,
    format_by_name,
    leading_zeros,
    lut_delay,
    multiply,
    normalize_unpacked,
    round_scaled,
    shift_left,
    shift_right_sticky,
    unpack,
)

from .posit import POSIT16, Posit, decode, encode

__all__ = [
    "PositAdd",
    "PositCompare",
    "PositDiv",
    "PositFromFloat",
    "PositMul",
    "PositResize",
    "PositSub",
    "PositToFloat",
]


class PositCore(Core):
    """An operation on posits; every result is rounded once, and there are no flags.

    Parameters
    ----------
    format : Posit
    profile, stages, target, domain
        As in `tg2hdl_fp32.Core`.
    """

    format_type = Posit
    accuracy = "rounded once, as the posit standard says"

    def __init__(
        self,
        format: Posit = POSIT16,
        *,
        profile: str | None = None,
        stages: int | None = None,
        target: str = "generic",
        domain: str = "sync",
    ) -> None:
        super().__init__(format, profile=profile, stages=stages, target=target, domain=domain)

    def operand_shapes(self) -> tuple[Shape | Format, ...]:
        """Patterns."""
        return tuple(unsigned(self.format.width) for _ in self.operands)

    def result_shape(self) -> Shape | Format:
        """A pattern."""
        return unsigned(self.format.width)

    def decode_both(self, p: Pipeline) -> None:
        """Decode both operands side by side, and cut."""
        start = p.mark()
        decode(p, "a", self.format)
        p.cut()
        with p.beside(start):
            decode(p, "b", self.format)
            p.cut()


class PositAdd(PositCore):
    """``a + b``."""

    operation = "posit_add"
    subtracts = False

    def datapath(self, p: Pipeline) -> None:
        """Align the smaller operand, add, normalize."""
        self.decode_both(p)
        size = self.format.significand
        p.nar = p.a_nar | p.b_nar
        p.swap = p.a_magnitude < p.b_magnitude
        p.delay(add_delay(self.format.width))
        p.cut()
        b_sign = ~p.b_sign if self.subtracts else p.b_sign
        p.sign = Mux(p.swap, b_sign, p.a_sign)
        p.minus = p.a_sign ^ b_sign
        p.big, p.small = self._ordered(p, "significand")
        big, small = self._ordered(p, "scale")
        p.big_scale, p.small_scale = big.as_signed(), small.as_signed()
        p.delay(lut_delay())
        p.cut()
        distance = p.wire((p.big_scale - p.small_scale).as_unsigned())
        # Two bits below the significands, and whether any bit is below these.
        levels = (size + 2).bit_length()
        far = distance[levels:].any() if len(distance) > levels else Const(0)
        p.places = Cat(bit | far for bit in distance[:levels])
        p.aligned, p.fallen = Cat(Const(0, 2), p.small), Const(0, 1)
        p.delay(add_delay(len(distance)) + lut_delay())
        for low in reversed(range(0, levels, 2)):
            p.cut()
            amount = p.places[low : low + 2]
            p.aligned, p.fallen = shift_right_sticky(p, p.aligned, amount, unit=1 << low, sticky=p.fallen)
            p.delay(lut_delay(len(amount) + 1))
        p.cut()
        width = size + 4
        other = Cat(p.fallen, p.aligned, Const(0, 1)) ^ p.minus.replicate(width)
        p.total = (Cat(Const(0, 3), p.big) + other + p.minus)[:width]
        p.delay(add_delay(width))
        p.cut()
        p.leading = leading_zeros(p, p.total)[: (width - 1).bit_length()]
        p.zero = ~p.total.any()
        p.delay(lut_delay(len(p.leading)))
        for low in reversed(range(0, len(p.leading), 2)):
            p.cut()
            amount = p.leading[low : low + 2]
            p.total = shift_left(p, p.total, amount, unit=1 << low)
            p.delay(lut_delay(len(amount)))
        p.scale = (p.big_scale + 1 - p.leading).as_signed()
        p.fraction, p.sticky = p.total[:-1], Const(0, 1)
        p.cut()
        encode(p, self.format)

    @staticmethod
    def _ordered(p: Pipeline, what: str) -> tuple[Value, Value]:
        a, b = p[f"a_{what}"], p[f"b_{what}"]
        return Mux(p.swap, b, a), Mux(p.swap, a, b)


class PositSub(PositAdd):
    """``a - b``."""

    operation = "posit_sub"
    subtracts = True


class PositMul(PositCore):
    """``a * b``."""

    operation = "posit_mul"

    def datapath(self, p: Pipeline) -> None:
        """Multiply the significands, add the scales."""
        self.decode_both(p)
        p.nar, p.zero = p.a_nar | p.b_nar, p.a_zero | p.b_zero
        p.sign = p.a_sign ^ p.b_sign
        p.scales = p.a_scale + p.b_scale
        p.delay(add_delay(len(p.scales)))
        multiply(p, "product", p.a_significand, p.b_significand, target=self.target)
        p.cut()
        product, carry = p.product, p.product[-1]
        p.fraction = Mux(carry, product[:-1], Cat(Const(0, 1), product[:-2]))
        p.scale = (p.scales + carry).as_signed()
        p.sticky = Const(0, 1)
        p.delay(add_delay(len(p.scales)))
        p.cut()
        encode(p, self.format)


class PositDiv(PositCore):
    """``a / b``; a division by zero is not a real number."""

    operation = "posit_div"

    def datapath(self, p: Pipeline) -> None:
        """Divide the significands, a bit at a time."""
        self.decode_both(p)
        size = self.format.significand
        p.nar, p.zero = p.a_nar | p.b_nar | p.b_zero, p.a_zero
        p.sign = p.a_sign ^ p.b_sign
        p.less = p.a_significand < p.b_significand
        p.scales = p.a_scale - p.b_scale
        p.delay(add_delay(size))
        p.cut()
        p.scale = (p.scales - p.less).as_signed()
        p.rest = Mux(p.less, Cat(Const(0, 1), p.a_significand), p.a_significand)[: size + 1]
        p.delay(add_delay(len(p.scales)))
        digits: list[str] = []
        # A 1, the bits of the longest fraction, and the one that rounds.
        for k in range(size + 1):
            p.cut()
            difference = p.wire((p.rest - p.b_significand).as_unsigned())
            digit = ~difference[-1]
            rest = Mux(digit, difference[: size + 1], p.rest)
            p.rest = Cat(Const(0, 1), rest)[: size + 1]
            p[f"digit{k}"] = digit
            digits.append(f"digit{k}")
            p.delay(add_delay(size) + lut_delay())
        p.cut()
        p.fraction = Cat(p[name] for name in reversed(digits[1:]))
        p.sticky = p.rest.any()
        p.delay(lut_delay(3))
        encode(p, self.format)


class PositFromFloat(PositCore):
    """The posit of a float; infinities and NaN are not real numbers.

    Parameters
    ----------
    source : Format or str
        Format of the operand.
    parameters
        Those of `PositCore`.
    """

    operation = "posit_from_float"
    operands = ("a",)

    def __init__(self, format: Posit = POSIT16, source: Format | str = FP32, **parameters: Any) -> None:
        self.source = format_by_name(source) if isinstance(source, str) else source
        super().__init__(format, **parameters)

    def operand_shapes(self) -> tuple[Shape | Format, ...]:
        """The format of the operand."""
        return (self.source,)

    def datapath(self, p: Pipeline) -> None:
        """Normalize, then encode."""
        x = unpack(self.source, p.a)
        p.sign, p.zero, p.nar = x.sign, x.is_zero, x.is_nan | x.is_inf
        # Where all subnormal numbers are below the smallest posit, their exponent is enough.
        normalizes = self.source.emin >= -self.format.max_scale
        normalize_unpacked(p, x, self.source, subnormals=normalizes)
        p.scale = (p.field - p.significand_places).as_signed()
        p.fraction, p.sticky = p.significand[:-1], Const(0, 1)
        p.delay(add_delay(len(p.scale)))
        p.cut()
        encode(p, self.format)


class PositToFloat(PositCore):
    """The float nearest to a posit; NaR becomes NaN.

    Parameters
    ----------
    result : Format or str
        Format of the result.
    parameters
        Those of `PositCore`.
    """

    operation = "posit_to_float"
    operands = ("a",)

    def __init__(self, format: Posit = POSIT16, result: Format | str = FP32, **parameters: Any) -> None:
        self.result_format = format_by_name(result) if isinstance(result, str) else result
        super().__init__(format, **parameters)

    def result_shape(self) -> Shape | Format:
        """The format of the result."""
        return self.result_format

    def datapath(self, p: Pipeline) -> None:
        """Decode, then round as floats are."""
        decode(p, "a", self.format)
        p.cut()
        size = len(p.a_significand)
        p.value = Cat(Const(0, max(self.result_format.significand + 2 - size, 0)), p.a_significand)
        p.exponent = (p.a_scale + self.result_format.bias).as_signed()
        p.delay(add_delay(len(p.exponent)))
        round_scaled(
            p,
            self.result_format,
            value="value",
            exponent="exponent",
            sign=p.a_sign,
            nan=p.a_nar,
            inf=Const(0, 1),
            zero=p.a_zero,
            subnormals=True,
        )


class PositResize(PositCore):
    """The posit of another width.

    Parameters
    ----------
    result : int
        Bits of the result.
    parameters
        Those of `PositCore`.
    """

    operation = "posit_resize"
    operands = ("a",)

    def __init__(self, format: Posit = POSIT16, result: int = 32, **parameters: Any) -> None:
        self.result_format = Posit(result)
        super().__init__(format, **parameters)

    def result_shape(self) -> Shape | Format:
        """A pattern of the result."""
        return unsigned(self.result_format.width)

    def datapath(self, p: Pipeline) -> None:
        """Decode, then encode."""
        decode(p, "a", self.format)
        p.cut()
        p.sign, p.zero, p.nar, p.scale = p.a_sign, p.a_zero, p.a_nar, p.a_scale
        p.fraction, p.sticky = p.a_significand[:-1], Const(0, 1)
        encode(p, self.result_format)


_PREDICATES: dict[str, Callable[[Value, Value], Value]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


class PositCompare(PositCore):
    """Whether ``a < b``, or another predicate: that of the patterns as integers, so that NaR is below all numbers.

    Parameters
    ----------
    predicate : str
        ``eq``, ``ne``, ``lt``, ``le``, ``gt`` or ``ge``.
    parameters
        Those of `PositCore`.
    """

    operation = "posit_compare"

    def __init__(self, format: Posit = POSIT16, predicate: str = "lt", **parameters: Any) -> None:
        if predicate not in _PREDICATES:
            raise FloatParameterError(f"unknown predicate {predicate!r}; use one of {', '.join(_PREDICATES)}")
        self.predicate = predicate
        super().__init__(format, **parameters)

    def result_shape(self) -> Shape | Format:
        """One bit."""
        return unsigned(1)

    def datapath(self, p: Pipeline) -> None:
        """Compare integers."""
        p.result = _PREDICATES[self.predicate](p.a.as_signed(), p.b.as_signed())
        p.delay(add_delay(self.format.width))
        p.cut()
