"""Common parts of the elementary functions: their parameters, and the evaluation of a quadratic table."""

__all__ = ["ElementaryCore", "OfAnyFormat", "evaluate", "falling_table", "flushes", "limbs"]

from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any, ClassVar

from amaranth.hdl import Cat, Const, Mux, Value

from .carry_save import add_three
from .core import Core
from .errors import FloatParameterError, one_of
from .format import BF16, FP16, FP32, Format
from .logic_table import select
from .modes import RoundingMode
from .multiplier import multiply
from .pipeline import Pipeline
from .rom import lookup
from .tables import QuadraticTable, fit
from .timing import add_delay, lut_delay


class ElementaryCore(Core):
    """A function of one operand with an error below 1 ULP, rounded to nearest.

    Parameters
    ----------
    format : Format
        FP32, FP16 or BF16, or any, as each function tells.
    **parameters
        As for :class:`Core`, without ``rounding`` and ``flags``.
    """

    operands: tuple[str, ...] = ("a",)
    rounds: ClassVar[bool] = False
    #: None for any.
    formats: ClassVar[tuple[Format, ...] | None] = (FP32, FP16, BF16)

    def __init__(self, format: Format = FP32, **parameters: Any) -> None:
        name = type(self).__name__
        if self.formats is not None and isinstance(format, Format) and format not in self.formats:
            raise FloatParameterError(
                f"{name} of {format} is not available; use one of {one_of(self.formats)}"
            )
        if parameters.get("rounding", RoundingMode.RNE) is not RoundingMode.RNE:
            raise FloatParameterError(
                f"{name} rounds to nearest with an error below 1 ULP; use RoundingMode.RNE"
            )
        if parameters.get("flags", False):
            raise FloatParameterError(f"{name} has no exception flags; use flags=False")
        super().__init__(format, **parameters)


class OfAnyFormat(ElementaryCore):
    """A function of any format, whose result may have another one.

    Parameters
    ----------
    format : Format
        Of the operand; any.
    result : Format, optional
        Of the result, if it is another one.
    **parameters
        As for :class:`Core`, without ``rounding`` and ``flags``.
    """

    formats = None

    def __init__(self, format: Format = FP32, *, result: Format | None = None, **parameters: Any) -> None:
        self.result_format = result if result is not None else format
        super().__init__(format, **parameters)

    def result_shape(self) -> Format:
        """The format of the result, that of the operand unless told otherwise."""
        return self.result_format


def falling_table(format: Format, function: Callable[[int], int], binades: int) -> QuadraticTable:
    """Return the coefficients of a function that falls from 1, for operands from 1 on in some binades.

    Parameters
    ----------
    format : Format
    function : callable
        Takes and returns fixed-point numbers, see `fit`.
    binades : int
        Octaves from 1 on that the table covers.
    """
    wide = format.significand > 11
    index = 8 if wide else 4
    fraction = format.significand + 4
    return fit(
        function,
        [(Fraction(1 + k), Fraction(1 + k, 1 << index), 1 << index) for k in range(binades)],
        delta=format.fraction - index,
        fraction=fraction,
        slope_bits=format.significand - 6 if wide else format.significand,
        exact=(0,),
        limit=(1 << fraction) - 1,
    )


def limbs(target: str) -> str:
    """Return the target for a multiplication that is wider than a multiplier block: always in limbs."""
    return "ecp5" if target == "ecp5" else "ecp5_model"


def flushes(exponent: Value, kept: Value) -> Value:
    """Return whether a result with this biased exponent of its top bit is flushed to zero.

    A power of two may come out just below, with all bits set; rounding carries it to the smallest normal number.

    Parameters
    ----------
    exponent : Value
        In two's complement; the top bit is the sign.
    kept : Value
        Bits of the result that rounding keeps.
    """
    return exponent[-1] | ~exponent.any() & ~kept.all()


def evaluate(
    p: Pipeline, table: QuadraticTable, index: Value, u: Value, *, target: str, one: str | None = None
) -> None:
    """Set ``p.y`` to the value of `table` at `index` and `u`, two values of the present stage.

    Adds the cuts of a table read, a square, a multiplication and its return path; the caller cuts after the addition.

    Parameters
    ----------
    table : QuadraticTable
        Coefficients.
    index, u : Value
        Interval and place in it.
    target : str
        As for :func:`~tg2hdl_fp32.multiplier.multiply`.
    one : str, optional
        Name of a bit that makes the value 1 instead.
    """
    w0, w1, w2 = table.widths
    mixed = [len(set(signs)) > 1 for signs in (table.falling, table.concave)]
    words = []
    for row, signs in zip(table.rows, zip(table.falling, table.concave, strict=True), strict=True):
        word, position = 0, 0
        columns = [
            *zip(row, (w0, w1, w2), strict=True),
            *((int(s), 1) for s, m in zip(signs, mixed, strict=True) if m),
        ]
        for value, width in columns:
            word |= value << position
            position += width
        words.append(word)
    p.u = u
    p.table_index = index
    start = p.mark()
    lookup(p, "row", p.table_index, words, position, target=target)
    with p.beside(start):
        top = p.u[-1]
        p.distance = p.u[table.delta - table.fold - 1 : -1] ^ (~top).replicate(table.fold)
        p.delay(lut_delay())
        p.cut()
        _square(p, p.distance)
    p.c0, p.c1, p.c2 = p.row[:w0], p.row[w0 : w0 + w1], p.row[w0 + w1 : w0 + w1 + w2]
    flags = [p.row[w0 + w1 + w2 + k] for k in range(position - w0 - w1 - w2)]
    p.falling = flags.pop(0) if mixed[0] else Const(table.falling[0], 1)
    p.concave = flags.pop(0) if mixed[1] else Const(table.concave[0], 1)
    _add_square(p, table.fold)
    p.cut()
    # The multiplier blocks are far from the tables and from the logic around them.
    p.delay(lut_delay(2) if target.startswith("ecp5") else 0.0)
    if one is not None:
        use = ~p[one]
        p.c0 = Mux(use, p.c0, 1 << table.fraction)
        p.u, p.square = p.u & use.replicate(len(p.u)), p.square & use.replicate(len(p.square))
        p.delay(lut_delay())
    start = p.mark()
    multiply(p, "rise", p.c1, p.u, target=target, cuts=4)
    with p.beside(start):
        multiply(p, "bend", p.c2, p.square, target=target, cuts=4)
    width = table.value_bits
    p.y = add_three(
        p,
        (p.c0, p.bend[table.curve_shift :], p.rise[table.slope_shift :]),
        width,
        subtract=(p.concave, p.falling),
    )
    p.delay(add_delay(width) + lut_delay())


def _square(p: Pipeline, distance: Value) -> None:
    """Set three values from which :func:`_add_square` computes ``k (k + 1)`` for a distance `k`.

    With ``k = a 2^h + b`` and ``b = 4 c + d`` this is ``a^2 4^h + b (b + 1)``, which do not overlap, and
    ``a (2 d + 1) 2^h``, and ``a c 2^(h + 3)``: functions of at most six bits, which take no multiplier blocks.
    """
    half = (len(distance) + 1) // 2
    b, a = distance[:half], distance[half:]
    least = 2 * half
    apart = Cat(_function(lambda b: b * (b + 1), b), Const(0, least))[:least]
    p.square_parts = Cat(apart, _function(lambda a: a * a, a))
    p.square_near = _function(lambda a, d: a * (2 * d + 1), a, b[:2])
    p.square_cross = _function(lambda a, c: a * c, a, b[2:])
    p.delay(lut_delay(2.5))


def _add_square(p: Pipeline, fold: int) -> None:
    """Set ``p.square`` for a distance of `fold` bits."""
    half = (fold + 1) // 2
    width = 2 * fold - half
    cross = Cat(Const(0, 3), p.square_cross)
    upper = add_three(p, (p.square_parts[half:], p.square_near, cross), width)
    p.square = Cat(p.square_parts[:half], upper)
    p.delay(add_delay(width) + lut_delay())


def _function(function: Callable[..., int], *operands: Value) -> Value:
    counts = (range(1 << len(operand)) for operand in operands)
    # The first operand is in the low bits of the index.
    values = [function(*reversed(row)) for row in product(*reversed(list(counts)))]
    return select(Cat(*operands), values)
