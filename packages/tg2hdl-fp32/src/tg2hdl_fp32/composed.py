"""Functions made of several cores in one pipeline, in a format with a few more bits than that of the result."""

__all__ = ["Atan2", "Composed", "Hypot", "Pow", "Sigmoid"]

from fractions import Fraction
from typing import Any

from amaranth.hdl import Cat, Const, Mux, Shape, Value

from . import functions
from .add import Add
from .binade_function import Atan
from .core import Core
from .div import Div
from .dot import DotProduct
from .elementary import ElementaryCore
from .exp2 import Exp2
from .float_to_float import FloatToFloat
from .format import FP32, Format
from .functions import PRECISION
from .log2 import Log2
from .mul import Mul
from .pipeline import Pipeline
from .power import Exp
from .shifting import shift_left
from .sqrt import Sqrt
from .timing import lut_delay, reduce_delay
from .unpacked import Unpacked, unpack


class Composed(ElementaryCore):
    """A function of several cores: :meth:`cores` makes them, :meth:`chain` places them with :meth:`part`.

    Intermediate results have `more` bits more than the result and a wider exponent, so that each adds only
    ``2**-more`` ULP to the error of the result.
    """

    formats = None
    #: Bits of intermediate significands and exponents beyond those of the result.
    more: tuple[int, int] = (4, 2)

    def __init__(self, format: Format = FP32, **parameters: Any) -> None:
        if isinstance(format, Format):
            bits, exponents = self.more
            self.wide = Format(min(format.exponent + exponents, 15), format.significand + bits)
            options = {key: value for key, value in parameters.items() if key in ("target", "domain")}
            self.parts = self.cores(format, profile="comb", **options)
        super().__init__(format, **parameters)

    def cores(self, format: Format, **options: Any) -> dict[str, Core]:
        """Return the cores by name; operands and intermediate results in ``self.wide``."""
        raise NotImplementedError

    def chain(self, p: Pipeline) -> None:
        """Describe the function."""
        raise NotImplementedError

    def datapath(self, p: Pipeline) -> None:
        """Describe the function, between zeros for subnormal operands and results where these are flushed."""
        for name in self.operands:
            p[name] = self._flushed(p[name])
        self.chain(p)
        p.result = self._flushed(p.result)
        p.delay(0.0 if self.subnormals else reduce_delay(self.format.exponent))

    def _flushed(self, bits: Value) -> Value:
        if self.subnormals:
            return bits
        normal = bits[self.format.fraction : -1].any()
        return Cat(bits[:-1] & normal.replicate(len(bits) - 1), bits[-1])

    def part(self, p: Pipeline, name: str, **operands: Value) -> None:
        """Set ``p[name]`` to the result of a core; the caller cuts after it.

        Parameters
        ----------
        p : Pipeline
        name : str
            Of the core in `parts`, and of the result.
        **operands : Value
            Patterns in the format of the core, by the names of its operands.
        """
        core = self.parts[name]
        with p.scope(name):
            for operand, shape in zip(core.operands, core.operand_shapes(), strict=True):
                # A multiplexer of constants may have fewer bits.
                value, width = Value.cast(operands[operand]), Shape.cast(shape).width
                p[operand] = Cat(value, Const(0, width))[:width]
            p.rm = Const(core._static_mode(), 3)
            core.datapath(p)
            result = p.result
        p[name] = result

    def unpacked(self, p: Pipeline, name: str) -> Unpacked:
        """Return the fields of an operand.

        Parameters
        ----------
        p : Pipeline
        name : str
            Of an operand in the inner format.
        """
        return unpack(self.format, p[name], subnormals=self.subnormals)


class Sigmoid(Composed):
    """``1 / (1 + e**-a)``: error below 1 ULP, in any format, small results for large negative operands too;
    monotone in FP32.

    With ``t = e**-|a|`` it is ``1 / (1 + t)`` or, for negative operands, ``t / (1 + t)``.

    Special values: NaN gives NaN, -inf 0, +inf 1.
    """

    operation = "sigmoid"

    def cores(self, format: Format, **options: Any) -> dict[str, Core]:
        """Exponential, sum, quotient."""
        wide = self.wide
        return {
            "power": Exp(format, result=wide, **options),
            "sum": Add(wide, subnormals=False, **options),
            "quotient": Div(wide, subnormals=False, **options),
            "narrow": FloatToFloat(wide, format, **options),
        }

    def chain(self, p: Pipeline) -> None:
        """Chain the cores."""
        p.negative = p.a[-1]
        self.part(p, "power", a=Cat(p.a[:-1], 1))
        p.cut()
        self.part(p, "sum", a=p.power, b=Const(self.wide.one, self.wide.width))
        p.cut()
        self.part(p, "quotient", a=Mux(p.negative, p.power, self.wide.one), b=p.sum)
        p.cut()
        self.part(p, "narrow", a=p.quotient)
        p.result = p.narrow


class Hypot(Composed):
    """``sqrt(a * a + b * b)``: error below 1 ULP, in any format, without overflow of the squares.

    Special values: an infinity gives +inf, even with a quiet NaN; NaN otherwise gives NaN.
    """

    operation = "hypot"
    operands = ("a", "b")
    overflows = True
    more = (3, 2)

    def cores(self, format: Format, **options: Any) -> dict[str, Core]:
        """Sum of the squares with one rounding, root."""
        bits = min(self.wide.significand, 2 * format.significand - 1)
        wide = Format(self.wide.exponent, bits)
        return {
            "squares": DotProduct(format, result=wide, **options),
            "root": Sqrt(wide, subnormals=False, **options),
            "narrow": FloatToFloat(wide, format, **options),
        }

    def chain(self, p: Pipeline) -> None:
        """Chain the cores."""
        x, y = self.unpacked(p, "a"), self.unpacked(p, "b")
        p.infinite = (x.is_inf | y.is_inf) & ~x.is_signaling & ~y.is_signaling
        self.part(p, "squares", a0=p.a, b0=p.a, a1=p.b, b1=p.b)
        p.cut()
        self.part(p, "root", a=p.squares)
        p.cut()
        self.part(p, "narrow", a=p.root)
        limit = 0 if self.format.finite else self.format.infinity
        p.result = Mux(p.infinite, limit, p.narrow)


class Pow(Composed):
    """``a ** b``: error below 1 ULP, in any format, with the special values of IEEE 754 and C.

    It is ``2 ** (b * log2(|a|))``, with as many bits more as the exponent has. A negative base has a power for
    integers.

    Special values: a power of 0, and any power of 1, is 1, even with NaN; -1 to +-inf is 1; otherwise NaN gives NaN.
    A negative number to a non-integer power is NaN. Powers of zeros and infinities are zeros and infinities,
    negative for odd integer powers of -0 and -inf.
    """

    operation = "pow"
    operands = ("a", "b")

    def __init__(self, format: Format = FP32, **parameters: Any) -> None:
        if isinstance(format, Format):
            self.more = (format.exponent + 5, 2)
        super().__init__(format, **parameters)

    def cores(self, format: Format, **options: Any) -> dict[str, Core]:
        """Logarithm, product, power."""
        wide = self.wide
        return {
            "logarithm": Log2(format, result=wide, **options),
            "widened": FloatToFloat(format, wide, **options),
            "product": Mul(wide, subnormals=False, **options),
            "power": Exp2(wide, result=format, **options),
        }

    def chain(self, p: Pipeline) -> None:
        """Decide on signs and special values, and chain the cores."""
        f = self.format
        x, y = self.unpacked(p, "a"), self.unpacked(p, "b")
        is_one = p.wire(p.a[:-1] == f.one)
        p.to_one = y.is_zero | is_one & (~x.sign | y.is_inf)
        p.to_nan = x.is_nan | y.is_nan
        p.negative = x.sign & ~x.is_zero & ~x.is_inf
        p.base_sign, p.exponent_inf = x.sign, y.is_inf
        p.magnitude, p.exponent = Cat(p.a[:-1], 0), p.b
        self._integers(p, y)
        p.cut()
        self.part(p, "logarithm", a=p.magnitude)
        p.cut()
        self.part(p, "widened", a=p.exponent)
        p.cut()
        self.part(p, "product", a=p.logarithm, b=p.widened)
        p.cut()
        self.part(p, "power", a=p.product)
        undefined = p.negative & ~p.whole & ~p.exponent_inf
        nan = p.wire((p.to_nan | undefined) & ~p.to_one)
        sign = p.base_sign & p.odd & ~p.to_one
        value = Mux(p.to_one, f.one, p.power)[: f.width - 1]
        infinite = (value == f.nan) if f.finite else Const(0)
        p.result = Mux(nan, f.nan, Cat(value, sign & ~infinite))
        p.delay(lut_delay(3))

    def _integers(self, p: Pipeline, y: Unpacked) -> None:
        """Set ``p.whole`` and ``p.odd``: the exponent is an integer, an odd one."""
        f = self.format
        places = p.wire((y.exponent - f.bias).as_signed())
        bits = f.fraction.bit_length()
        large = p.wire(~places[-1] & (places >= f.significand))
        shifted = shift_left(p, y.significand, places[:bits])
        rest = p.wire(shifted[:-1].any())
        # The bit of weight 1 is on top.
        p.whole = large | ~places[-1] & ~rest
        p.odd = ~large & ~places[-1] & ~rest & shifted[-1] & ~y.is_inf
        p.delay(lut_delay(bits + 4))


class Atan2(Composed):
    """The angle of the point with ordinate ``a`` and abscissa ``b``, in [-pi, pi]: error below 1 ULP, in any format.

    The quotient of the smaller and the larger magnitude goes through the arc tangent, whose result is added to or
    subtracted from a multiple of pi/2.

    Special values: NaN gives NaN; zeros and infinities as in C: atan2(+-0, +0) is +-0, atan2(+-0, -0) +-pi,
    atan2(+-inf, +-inf) an odd multiple of pi/4.
    """

    operation = "atan2"
    operands = ("a", "b")

    def cores(self, format: Format, **options: Any) -> dict[str, Core]:
        """Quotient, arc tangent, sum."""
        wide = self.wide
        return {
            "numerator": FloatToFloat(format, wide, **options),
            "denominator": FloatToFloat(format, wide, **options),
            "quotient": Div(wide, subnormals=False, **options),
            "angle": _UnitAtan(wide, subnormals=False, **options),
            "sum": Add(wide, subnormals=False, **options),
            "narrow": FloatToFloat(wide, format, **options),
        }

    def chain(self, p: Pipeline) -> None:
        """Order the magnitudes, and chain the cores."""
        f, wide = self.format, self.wide
        y, x = self.unpacked(p, "a"), self.unpacked(p, "b")
        p.to_nan = x.is_nan | y.is_nan
        p.sign, p.left = y.sign, x.sign
        swap = p.wire(p.a[:-1] > p.b[:-1])
        p.swap = swap
        small, large = Mux(swap, p.b[:-1], p.a[:-1]), Mux(swap, p.a[:-1], p.b[:-1])
        both, any_inf = x.is_inf & y.is_inf, x.is_inf | y.is_inf
        zeros = x.is_zero & y.is_zero
        least = Mux(swap, x.is_zero, y.is_zero)
        p.small = Mux(both, f.one, Mux(any_inf | least, 0, small))[: f.width - 1]
        p.large = Mux(any_inf | zeros, f.one, large)[: f.width - 1]
        p.delay(reduce_delay(f.width) + lut_delay(4))
        p.cut()
        self.part(p, "numerator", a=Cat(p.small, 0))
        p.cut()
        self.part(p, "denominator", a=Cat(p.large, 0))
        p.cut()
        self.part(p, "quotient", a=p.numerator, b=p.denominator)
        p.cut()
        self.part(p, "angle", a=p.quotient)
        p.cut()
        half_turn = functions.pi(PRECISION)
        turn, quarter = (_encoded(wide, value) for value in (half_turn, half_turn >> 1))
        start = Mux(p.swap, quarter, Mux(p.left, turn, 0))
        self.part(p, "sum", a=start, b=Cat(p.angle[:-1], p.swap ^ p.left))
        p.cut()
        self.part(p, "narrow", a=p.sum)
        p.result = Mux(p.to_nan, f.nan, Cat(p.narrow[:-1], p.sign))
        p.delay(lut_delay(2))


class _UnitAtan(Atan):
    """Arc tangent of numbers up to 1."""

    highest = 0


def _encoded(format: Format, value: int) -> int:
    """Pattern of a number in units of ``2**-PRECISION``."""
    return format.encode(Fraction(value, 1 << PRECISION))
