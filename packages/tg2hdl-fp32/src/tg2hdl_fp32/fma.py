"""Fused multiply-add."""

__all__ = ["Fma", "Fmsub", "Fnmadd", "Fnmsub"]

from typing import ClassVar

from amaranth.hdl import Cat, Const, Mux, Value

from .carry_save import add_three
from .fused import FusedSum
from .multiplier import multiply
from .pipeline import Pipeline
from .shifting import shift_right_sticky
from .timing import add_delay, lut_delay, reduce_delay
from .unpacked import Unpacked, unpack


class Fma(FusedSum):
    """``a * b + c`` with one rounding.

    The addend is aligned to the product while the multipliers work, in a frame that has room for it above the
    product and one significand below, so that an unnormalized product of a subnormal operand loses nothing.
    Both differences are computed; the non-negative one is selected.
    """

    operation = "fma"
    operands = ("a", "b", "c")
    #: Signs that the product and the addend get.
    negates: ClassVar[tuple[bool, bool]] = (False, False)

    def datapath(self, p: Pipeline) -> None:
        """Describe the operation."""
        fmt = self.format
        x, y, z = (unpack(fmt, value, subnormals=self.subnormals) for value in (p.a, p.b, p.c))
        start = p.mark()
        self._classify(p, x, y, z)
        p.delay(reduce_delay(fmt.exponent))
        multiply(p, "product", x.significand, y.significand, target=self.target, cuts=4)
        with p.beside(start):
            self._align(p, x, y, z)
        p.cut()
        self._sum(p)
        self.round_sum(p)

    def tuned_stages(self, profile: str) -> int | None:
        """Numbers of stages that were measured for FP32 on an ECP5."""
        if self.format.significand == 24 and self.target.startswith("ecp5"):
            return {"balanced": 12, "fast": 16}.get(profile)
        return None

    @property
    def _below(self) -> int:
        """Bits from the addend's lowest bit, far left, to the bottom of the frame."""
        return 3 * self.format.significand + 2

    @property
    def sum_bits(self) -> int:
        """Bits of the frame."""
        return self._below + self.format.significand + 2

    @property
    def _top_bits(self) -> int:
        """Bits of the exponent at the top of the frame, which is positive."""
        fmt = self.format
        largest = 2 * fmt.max_exponent_field + fmt.significand + 3 - fmt.bias
        return max(fmt.exponent + 2, largest.bit_length(), self.mark_bits)

    def _classify(self, p: Pipeline, x: Unpacked, y: Unpacked, z: Unpacked) -> None:
        for name, operand in (("x", x), ("y", y), ("z", z)):
            p[f"{name}_nan"], p[f"{name}_signaling"] = operand.is_nan, operand.is_signaling
            p[f"{name}_inf"], p[f"{name}_zero"] = operand.is_inf, operand.is_zero
        product, addend = self.negates
        sign, apart = x.sign ^ y.sign, x.sign ^ y.sign ^ z.sign
        p.product_sign, p.addend_sign = ~sign if product else sign, ~z.sign if addend else z.sign
        p.subtract = ~apart if product != addend else apart

    def _combine(self, p: Pipeline) -> None:
        product_inf = p.x_inf | p.y_inf
        undefined = p.x_inf & p.y_zero | p.y_inf & p.x_zero
        opposite = product_inf & p.z_inf & p.subtract & ~(p.x_nan | p.y_nan)
        p.nan = p.x_nan | p.y_nan | p.z_nan | undefined | opposite
        p.invalid = p.x_signaling | p.y_signaling | p.z_signaling | undefined | opposite
        p.inf = product_inf | p.z_inf
        p.addend_inf = p.z_inf
        p.product_zero = p.x_zero | p.y_zero

    def _align(self, p: Pipeline, x: Unpacked, y: Unpacked, z: Unpacked) -> None:
        """Place the addend in the frame, while the multipliers work."""
        fmt, n = self.format, self.format.significand
        p.exponent_sum = x.exponent + y.exponent
        p.addend_exponent = z.exponent
        p.addend = z.significand
        p.delay(reduce_delay(fmt.exponent) + add_delay(fmt.exponent))
        p.cut()
        self._combine(p)
        # Exponent of the addend's hidden bit far left, and the distance from there to its place.
        p.left_exponent = (p.exponent_sum + (n + 3 - fmt.bias)).as_signed()
        levels = (self._below + n).bit_length()
        # A format of few exponents and long significands shifts by more than its exponents differ.
        size = max(len(p.exponent_sum - p.addend_exponent + (n + 3 - fmt.bias)), levels + 1)
        room = Const((n + 3 - fmt.bias) % (1 << size), size)
        p.distance = add_three(
            p, (room, p.addend_exponent, p.exponent_sum), size, subtract=(1, 0)
        ).as_signed()
        p.delay(add_delay(fmt.exponent + 2) + lut_delay())
        p.cut()
        stay = p.wire(p.distance[-1] | p.product_zero)
        high = p.distance[levels:-1]
        far = high.any() if len(high) else Const(0)
        top = Mux(stay, p.addend_exponent, p.left_exponent).as_unsigned()
        p.top_exponent = Cat(top, Const(0, self._top_bits))[: self._top_bits]
        places = p.wire(Cat((bit | far) & ~stay for bit in p.distance[:levels]))
        p.places = places
        value: Value = Cat(Const(0, self._below), p.addend)
        value, sticky = shift_right_sticky(p, value, places[-2:], unit=1 << (levels - 2))
        p.aligned, p.fallen = value, sticky
        p.delay(lut_delay(4))
        p.cut()
        middle = (levels - 2) // 2
        value, sticky = shift_right_sticky(
            p, p.aligned, p.places[middle : levels - 2], unit=1 << middle, sticky=p.fallen
        )
        p.aligned, p.fallen = value, sticky
        p.delay(lut_delay(levels - 2 - middle))
        p.cut()
        value, sticky = shift_right_sticky(p, p.aligned, p.places[:middle], sticky=p.fallen)
        frame = Cat(sticky, value, 0)
        p.flipped = frame ^ p.subtract.replicate(len(frame))
        p.delay(lut_delay(middle + 1.5))

    def _sum(self, p: Pipeline) -> None:
        """Add, or subtract in both directions, in two halves."""
        n = self.format.significand
        width = self.sum_bits
        product = p.wire(Cat(Const(0, n + 1), p.product, Const(0, n + 3)))
        half = width // 2
        # With the complement of the addend, a sum without a carry in is the complement of the other difference.
        p.low = (Cat(1, product[:half]) + Cat(p.subtract, p.flipped[:half]))[1:]
        p.low_back = product[:half] + p.flipped[:half]
        p.product_high, p.flipped_high = product[half:], p.flipped[half:]
        p.delay(add_delay(half + 1))
        p.cut()
        high = Cat(1, p.product_high) + Cat(p.low[half], p.flipped_high)
        p.forward = Cat(p.low[:half], high[1 : width - half + 1])
        p.no_borrow = high[width - half + 1]
        back = Cat(1, p.product_high) + Cat(p.low_back[half], p.flipped_high)
        p.backward = Cat(p.low_back[:half], back[1 : width - half + 1])
        self.mark_digits(p)
        p.delay(add_delay(width - half + 1))
        p.cut()
        p.negative = p.subtract & ~p.no_borrow
        p.marker = self.marker(p, width)
        p.delay(lut_delay())
        p.cut()
        p.total = Mux(p.negative, ~p.backward, p.forward)[:width]
        p.sign = Mux(p.addend_inf | (p.negative & ~p.inf), p.addend_sign, p.product_sign)
        p.delay(2.6)


class Fmsub(Fma):
    """``a * b - c`` with one rounding; the datapath of :class:`Fma`, as are the next two."""

    operation = "fmsub"
    negates = (False, True)


class Fnmadd(Fma):
    """``-(a * b) - c`` with one rounding of the negative sum, as FNMADD of RISC-V."""

    operation = "fnmadd"
    negates = (True, True)


class Fnmsub(Fma):
    """``c - a * b`` with one rounding, as FNMSUB of RISC-V."""

    operation = "fnmsub"
    negates = (True, False)
