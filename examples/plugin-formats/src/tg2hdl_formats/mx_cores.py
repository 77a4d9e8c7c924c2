"""Hardware for Microscaling blocks: dot product with one rounding, and conversion from FP32."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Const, Mux, Shape, Signal, Value, unsigned

from tg2hdl_fp32 import (
    FP32,
    Core,
    FloatParameterError,
    Format,
    FusedSum,
    Pipeline,
    add_delay,
    compress,
    leading_zeros,
    lut_delay,
    shift_left,
    shift_right_sticky,
)

from .mx_elements import BLOCK, E2M1, E4M3, INT8, NAN_SCALE, Element

__all__ = ["MXDot", "MXFromFloat", "MXScale", "MXWordDot"]


class _BlockSum(FusedSum):
    """An exact integer ``p.sum``, and that times two scales, rounded to FP32 once; see `MXDot` for the parameters."""

    lanes: int
    format_type = Element
    accuracy = "the exact sum, correctly rounded"

    def __init__(self, format: Element = E4M3, **parameters: Any) -> None:
        if extra := parameters.keys() - {"profile", "stages", "target", "domain"}:
            raise FloatParameterError(
                f"{type(self).__name__} has no {', '.join(sorted(extra))}; leave it out"
            )
        super().__init__(format, **parameters)

    def result_shape(self) -> Format:
        """FP32."""
        return FP32

    @property
    def product_bits(self) -> int:
        """Bits of a product as an integer, without its sign."""
        element = self.format
        if not element.exponent:
            return 2 * (element.width - 1) + 1
        return 2 * (element.fraction + 1 + (element.largest >> element.fraction) - 1)

    @property
    def sum_bits(self) -> int:
        """Bits of the sum; zeros below it, so that what is shifted out is below the bits that round."""
        return max(self.exact_bits, FP32.significand + 2)

    @property
    def exact_bits(self) -> int:
        """Bits of the sum as an integer, without its sign."""
        return self.product_bits + (BLOCK - 1).bit_length()

    def add_products(self, p: Pipeline) -> None:
        """Set ``p.sum``, in units of the product of two lowest bits, and cut."""
        width = self.exact_bits + 1
        (self._float_products if self.format.exponent else self._integer_products)(p, width)
        names = [*(f"term{k}" for k in range(self.lanes)), "corrections"]
        terms = compress(p, names, width)
        p.sum = (p[terms[0]] + p[terms[1]])[:width]
        p.delay(add_delay(width))
        p.cut()

    def _pairs(self, p: Pipeline) -> list[tuple[Value, Value]]:
        n = self.format.width
        return [(p.a[k * n : (k + 1) * n], p.b[k * n : (k + 1) * n]) for k in range(self.lanes)]

    def _integer_products(self, p: Pipeline, width: int) -> None:
        for k, (x, y) in enumerate(self._pairs(p)):
            product = p.wire(x.as_signed() * y.as_signed())
            p[f"term{k}"] = Cat(product, product[-1].replicate(width))[:width]
        p.corrections = Const(0, width)
        p.delay(4.6)
        p.cut()

    def _float_products(self, p: Pipeline, width: int) -> None:
        element = self.format
        for k, pair in enumerate(self._pairs(p)):
            x, y = (_significand(value, element) for value in pair)
            # Rows in logic: of two to four bits, too few for a multiplier block.
            rows = [Cat(Const(0, i), x[0] & bit.replicate(len(x[0]))) for i, bit in enumerate(y[0])]
            p[f"product{k}"] = sum(rows[1:], rows[0])[: 2 * len(x[0])]
            # From the exponents of the fields of 1.
            p[f"places{k}"] = (x[1] + y[1] - 2).as_unsigned()[: element.exponent + 1]
            p[f"negative{k}"] = pair[0][-1] ^ pair[1][-1]
        p.delay(add_delay(element.exponent) + lut_delay(3))
        p.cut()
        for k in range(self.lanes):
            p[f"term{k}"] = Cat(p[f"product{k}"], Const(0, width))[: self.product_bits]
        for low in range(0, element.exponent + 1, 2):
            for k in range(self.lanes):
                amount = p[f"places{k}"][low : low + 2]
                p[f"term{k}"] = shift_left(p, p[f"term{k}"], amount, unit=1 << low)
            p.delay(lut_delay(2))
            p.cut()
        for k in range(self.lanes):
            flip = p[f"negative{k}"]
            p[f"term{k}"] = Cat(p[f"term{k}"], Const(0, width))[:width] ^ flip.replicate(width)
        # One is added for each complement.
        count: Value = sum((p[f"negative{k}"] for k in range(self.lanes)), Const(0))
        p.corrections = Cat(count, Const(0, width))[:width]
        p.delay(lut_delay(self.lanes.bit_length()))
        p.cut()

    def scale(self, p: Pipeline) -> None:
        """Set the result; reads ``sum``, ``scales``, ``nan_scale``, ``nan_element``, ``plus`` and ``minus``."""
        width = self.exact_bits + 1
        self.make_positive(p, "sum", width)
        p.nan, p.inf = p.nan_element | p.nan_scale | p.plus & p.minus, p.plus | p.minus
        p.sign = Mux(p.inf, p.minus, p.negative)
        p.subtract, p.invalid = Const(1, 1), Const(0, 1)
        pad = self.sum_bits - self.exact_bits
        p.total = Cat(Const(0, pad), p.total)
        # The biased exponent of the top bit, less one.
        top = self.sum_bits - 1 + 2 * self.format.unit - pad - 2 * 127 + FP32.bias - 1
        p.top = (p.scales + top).as_signed()
        p.delay(add_delay(10))
        p.cut()
        self._lower(p)
        p.top_exponent = p.top[:-1]
        self.mark_digits(p)
        p.delay(lut_delay(2))
        p.cut()
        p.marker = self.marker(p, self.sum_bits)
        self.round_sum(p)

    def _lower(self, p: Pipeline) -> None:
        """Shift a sum whose top bit is below the smallest exponent right."""
        levels = self.sum_bits.bit_length()
        below, deep = p.wire((-p.top).as_unsigned()), p.wire(p.top[-1])
        far = below[levels:].any() if len(below) > levels else Const(0)
        p.lower = Cat((bit | far) & deep for bit in below[:levels])
        p.top = Mux(deep, 0, p.top).as_signed()
        p.fallen = Const(0, 1)
        p.delay(add_delay(len(p.top)) + lut_delay())
        p.cut()
        for low in reversed(range(0, levels, 2)):
            amount = p.lower[low : low + 2]
            p.total, p.fallen = shift_right_sticky(p, p.total, amount, unit=1 << low, sticky=p.fallen)
            p.delay(lut_delay(3))
            p.cut()
        p.total = Cat(p.total[0] | p.fallen, p.total[1:])


class MXDot(_BlockSum):
    """Dot product of two blocks: the exact sum of 32 products times both scales, rounded to FP32 once.

    With fewer lanes a block comes in parts, in consecutive enabled cycles; `first` begins a sum, and each result is
    the sum so far with the scales of its own cycle. A sum of zero is +0.

    Parameters
    ----------
    format : Element
        Of both blocks.
    lanes : int
        Elements in a cycle, a divisor of 32.
    profile, stages, target, domain
        As in `tg2hdl_fp32.Core`.

    Members
    -------
    a, b : In(lanes * element.width)
        Elements, the first in the lowest bits.
    a_scale, b_scale : In(8)
    first : In(1)
        Only with less than 32 lanes.
    """

    operation = "mx_dot"

    def __init__(self, format: Element = E4M3, lanes: int = BLOCK, **parameters: Any) -> None:
        if not isinstance(lanes, int) or lanes < 1 or BLOCK % lanes:
            raise FloatParameterError(f"a block has no parts of {lanes!r} elements; use a divisor of {BLOCK}")
        self.lanes = lanes
        self.operands = ("a", "b", "a_scale", "b_scale", *(["first"] if lanes < BLOCK else []))
        super().__init__(format, **parameters)

    def operand_shapes(self) -> tuple[Shape | Format, ...]:
        """Blocks or parts of them, and scales."""
        part = unsigned(self.lanes * self.format.width)
        return (part, part, unsigned(8), unsigned(8), unsigned(1))[: len(self.operands)]

    def datapath(self, p: Pipeline) -> None:
        """Multiply, place, add, accumulate, scale, round."""
        start, width = p.mark(), self.exact_bits + 1
        self.add_products(p)
        with p.beside(start):
            self._specials(p)
        if self.lanes < BLOCK:
            held = p.adopt(Signal(width, name="sum_so_far"))
            total = p.wire((p.sum + Mux(p.first, 0, held))[:width])
            p.state(held, total)
            p.sum = total
            p.nan_element = self._gather(p, "nan", p.nan_element)
            p.plus, p.minus = self._gather(p, "plus", p.plus), self._gather(p, "minus", p.minus)
            p.delay(add_delay(width))
            p.cut()
        self.scale(p)

    def _specials(self, p: Pipeline) -> None:
        """Elements that are no numbers, beside the products."""
        element = self.format
        p.nan_scale = (p.a_scale == NAN_SCALE) | (p.b_scale == NAN_SCALE)
        p.scales = p.a_scale + p.b_scale
        nan: Value = Const(0, 1)
        plus: Value = Const(0, 1)
        minus: Value = Const(0, 1)
        for x, y in self._pairs(p):
            magnitudes = [value[:-1] for value in (x, y)]
            if element.exponent and element.largest + 1 < 1 << (element.width - 1):
                nan = nan | (magnitudes[0] > element.largest + element.infinities)
                nan = nan | (magnitudes[1] > element.largest + element.infinities)
            if element.infinities:
                far = [m == element.largest + 1 for m in magnitudes]
                nan = nan | far[0] & ~magnitudes[1].any() | far[1] & ~magnitudes[0].any()
                sign = x[-1] ^ y[-1]
                plus, minus = plus | (far[0] | far[1]) & ~sign, minus | (far[0] | far[1]) & sign
        p.nan_element, p.plus, p.minus = nan, plus, minus
        p.delay(lut_delay(4))
        p.cut()

    def _gather(self, p: Pipeline, name: str, bit: Value) -> Value:
        """Whether the bit was set since the first part."""
        held = p.adopt(Signal(name=f"{name}_so_far"))
        so_far = p.wire(bit | held & ~p.first)
        p.state(held, so_far)
        return so_far


class MXWordDot(_BlockSum):
    """Sum of products of the elements in two words of 32 bits, as a signed integer; a block is `BLOCK / lanes` words.

    The unit of the sum is 2 to the power of ``2 * element.unit``.

    Parameters
    ----------
    format : Element
        Without infinities and NaN: E2M1 or INT8 fill a word.
    profile, stages, target, domain
        As in `tg2hdl_fp32.Core`.
    """

    operation = "mx_word_dot"
    accuracy = "exact"

    def __init__(self, format: Element = E2M1, **parameters: Any) -> None:
        if format not in (E2M1, INT8):
            raise FloatParameterError(f"{format} does not fill words with numbers; use E2M1 or INT8")
        self.lanes = 32 // format.width
        super().__init__(format, **parameters)

    def operand_shapes(self) -> tuple[Shape | Format, ...]:
        """Two words."""
        return (unsigned(32),) * 2

    def result_shape(self) -> Shape | Format:
        """An integer."""
        return unsigned(32)

    def datapath(self, p: Pipeline) -> None:
        """Multiply and add."""
        self.add_products(p)
        p.result = Cat(p.sum, p.sum[-1].replicate(32))[:32]


class MXScale(_BlockSum):
    """The FP32 number of a sum of `MXWordDot` and the scales of both blocks, ``b`` and ``c``.

    Parameters
    ----------
    format : Element
        Of the sum, which gives its unit.
    profile, stages, target, domain
        As in `tg2hdl_fp32.Core`.
    """

    operation = "mx_scale"
    accuracy = "correctly rounded"
    operands = ("a", "b", "c")

    def operand_shapes(self) -> tuple[Shape | Format, ...]:
        """An integer and two scales."""
        return unsigned(32), unsigned(8), unsigned(8)

    @property
    def exact_bits(self) -> int:
        """Those of any integer of 32 bits."""
        return 32

    def datapath(self, p: Pipeline) -> None:
        """Scale and round."""
        p.sum = Cat(p.a, p.a[-1])
        p.nan_scale = (p.b == NAN_SCALE) | (p.c == NAN_SCALE)
        p.scales = p.b + p.c
        p.nan_element = p.plus = p.minus = Const(0, 1)
        self.scale(p)


class MXFromFloat(Core):
    """A block of FP32 numbers as a Microscaling block, as `tg2hdl_formats.mx_elements.to_blocks` defines it.

    Parameters
    ----------
    format : Element
    block : int
        Elements of a block.
    profile, stages, target, domain
        As in `tg2hdl_fp32.Core`.

    Members
    -------
    a : In(32 * block)
        Numbers, the first in the lowest bits.
    result : Out(element.width * block + 8)
        Elements, and above them the scale.
    """

    operation = "mx_from_float"
    operands = ("a",)
    format_type = Element
    accuracy = "elements rounded to nearest, ties to even"

    def __init__(self, format: Element = E4M3, block: int = BLOCK, **parameters: Any) -> None:
        if not isinstance(block, int) or not 2 <= block <= BLOCK:
            raise FloatParameterError(f"a block of {block!r} elements is not possible; use 2 to {BLOCK}")
        if extra := parameters.keys() - {"profile", "stages", "target", "domain"}:
            raise FloatParameterError(f"MXFromFloat has no {', '.join(sorted(extra))}; leave it out")
        self.block = block
        super().__init__(format, **parameters)

    def operand_shapes(self) -> tuple[Shape | Format, ...]:
        """The numbers."""
        return (unsigned(32 * self.block),)

    def result_shape(self) -> Shape | Format:
        """The block."""
        return unsigned(self.format.width * self.block + 8)

    def datapath(self, p: Pipeline) -> None:
        """Find the largest exponent, shift and round all elements."""
        element, fraction = self.format, self.format.fraction
        for k in range(self.block):
            p[f"x{k}"] = p.a[32 * k : 32 * (k + 1)]
            p[f"max{k}"] = p[f"x{k}"][23:31]
        left = self.block
        while left > 1:
            half = (left + 1) // 2
            for k in range(left - half):
                low, high = p[f"max{k}"], p[f"max{k + half}"]
                p[f"max{k}"] = Mux(low < high, high, low)
            left = half
            p.delay(add_delay(8) + lut_delay())
            p.cut()
        p.nan = p.max0.all()
        p.scale = Mux(p.nan, NAN_SCALE, Mux(p.max0 < element.emax, 0, (p.max0 - element.emax)[:8]))
        p.delay(add_delay(8) + lut_delay())
        p.cut()
        kept = fraction + 2
        levels = kept.bit_length()
        for k in range(self.block):
            x = p[f"x{k}"]
            hidden = x[23:31].any()
            below = p.wire((p.scale + element.emin - (Cat(x[23] | ~hidden, x[24:31]))).as_signed())
            tiny = ~below[-1]
            far = below[levels:-1].any()
            p[f"places{k}"] = Cat((bit | far) & tiny for bit in below[:levels])
            p[f"above{k}"] = Mux(tiny, 0, -below)[: element.exponent or 1]
            p[f"sign{k}"], p[f"significand{k}"] = x[31], Cat(x[:23], hidden)
        p.delay(2 * add_delay(10))
        p.cut()
        # In a block of tiny scale a subnormal FP32 number may be a normal element.
        reach = 1 - element.emin
        for k in range(self.block):
            above, significand = p[f"above{k}"], p[f"significand{k}"]
            stop = Cat(significand[23 - i] | (above == i) for i in reversed(range(reach + 1)))
            p[f"leading{k}"] = leading_zeros(p, p.wire(stop))[: reach.bit_length()]
        p.delay(lut_delay(5))
        p.cut()
        for k in range(self.block):
            leading = p[f"leading{k}"]
            significand = shift_left(p, p[f"significand{k}"], leading)
            p[f"above{k}"] = (p[f"above{k}"] - leading).as_unsigned()[: len(p[f"above{k}"])]
            p[f"kept{k}"] = significand[-kept:]
            p[f"fallen{k}"] = significand[:-kept].any()
        p.delay(max(lut_delay(len(leading) + 2), add_delay(5)))
        p.cut()
        for low in reversed(range(0, levels, 2)):
            for k in range(self.block):
                amount = p[f"places{k}"][low : low + 2]
                p[f"kept{k}"], p[f"fallen{k}"] = shift_right_sticky(
                    p, p[f"kept{k}"], amount, unit=1 << low, sticky=p[f"fallen{k}"]
                )
            p.delay(lut_delay(3))
            p.cut()
        for k in range(self.block):
            value = p[f"kept{k}"]
            up = value[0] & (value[1] | p[f"fallen{k}"])
            # Each exponent above the smallest adds one to the field; a carry of the rounding does too.
            places = Cat(Const(0, fraction), p[f"above{k}"]) if element.exponent else Const(0)
            p[f"rounded{k}"] = value[1:] + places + up
        p.delay(add_delay(element.width) + lut_delay())
        p.cut()
        for k in range(self.block):
            rounded, sign = p[f"rounded{k}"], p[f"sign{k}"]
            magnitude = p.wire(Mux(rounded > element.largest, element.largest, rounded)[: element.width - 1])
            if element.exponent:
                code: Value = Cat(magnitude, sign)
            else:
                code = ((Cat(magnitude, Const(0, 1)) ^ sign.replicate(element.width)) + sign)[: element.width]
            p[f"element{k}"] = Mux(p.nan, 0, code)
        p.delay(2 * add_delay(element.width))
        p.cut()
        p.result = Cat(*(p[f"element{k}"] for k in range(self.block)), p.scale)


def _significand(value: Value, element: Element) -> tuple[Value, Value]:
    """Significand with the hidden bit, and exponent field of at least 1."""
    field = value[element.fraction : element.width - 1]
    hidden = field.any()
    return Cat(value[: element.fraction], hidden), Cat(field[0] | ~hidden, field[1:])
