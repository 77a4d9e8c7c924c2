"""What the elementary functions share: their parameters, and the evaluation of a quadratic table."""

__all__ = ["ElementaryCore", "evaluate", "limbs"]

from collections.abc import Callable
from itertools import product
from typing import Any, ClassVar

from amaranth.hdl import Cat, Const, Value

from .core import Core
from .errors import FloatParameterError, one_of
from .format import BF16, FP16, FP32, Format
from .logic_table import select
from .modes import RoundingMode
from .multiplier import multiply
from .pipeline import Pipeline
from .rom import lookup
from .tables import QuadraticTable
from .timing import add_delay, lut_delay


class ElementaryCore(Core):
    """A function of one operand with an error below 1 ULP, rounded to nearest.

    Parameters
    ----------
    format : Format
        FP32, FP16 or BF16.
    **parameters
        As for :class:`Core`, without ``rounding`` and ``flags``.
    """

    operands: ClassVar[tuple[str, ...]] = ("a",)
    rounds: ClassVar[bool] = False
    formats: ClassVar[tuple[Format, ...]] = (FP32, FP16, BF16)

    def __init__(self, format: Format = FP32, **parameters: Any) -> None:
        name = type(self).__name__
        if isinstance(format, Format) and format not in self.formats:
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


def limbs(target: str) -> str:
    """Return the target for a multiplication that is wider than a multiplier block: always in limbs."""
    return "ecp5" if target == "ecp5" else "ecp5_model"


def evaluate(p: Pipeline, table: QuadraticTable, index: Value, u: Value, *, target: str) -> None:
    """Set ``p.y`` to the value of `table` at `index` and `u`, two values of the present stage.

    Adds the cuts of a table read, a multiplication and an addition; the caller cuts after the last addition.
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
    p.square = (p.squares + p.square_cross)[: 2 * table.fold]
    # From one block to the next, or through a short carry chain.
    p.delay(lut_delay(3.5))
    start = p.mark()
    multiply(p, "rise", p.c1, p.u, target=target)
    with p.beside(start):
        multiply(p, "bend", p.c2, p.square, target=target)
    width = table.value_bits
    p.bent = _add_or_subtract(Cat(p.c0, Const(0, width - w0)), p.bend[table.curve_shift :], p.concave)[:width]
    p.delay(add_delay(width) + lut_delay())
    p.cut()
    p.y = _add_or_subtract(p.bent, p.rise[table.slope_shift :], p.falling)[:width]
    p.delay(add_delay(width) + lut_delay(0.5))


def _square(p: Pipeline, distance: Value) -> None:
    """Set ``p.squares`` and ``p.square_cross``, whose sum is ``k (k + 1)`` for a distance `k`.

    With ``k = a 2^h + b`` and ``b = 4 c + d`` this is ``a^2 4^h + b (b + 1)``, which do not overlap, and
    ``a (2 d + 1) 2^h``, and ``a c 2^(h + 3)``: functions of at most six bits, which take no multiplier blocks.
    """
    half = (len(distance) + 1) // 2
    b, a = distance[:half], distance[half:]
    least = 2 * half
    apart = Cat(_function(lambda b: b * (b + 1), b), Const(0, least))[:least]
    near = _function(lambda a, d: a * (2 * d + 1), a, b[:2])
    p.squares = (Cat(apart, _function(lambda a: a * a, a)) + Cat(Const(0, half), near))[: 2 * len(distance)]
    p.square_cross = Cat(Const(0, half + 3), _function(lambda a, c: a * c, a, b[2:]))
    p.delay(lut_delay(2) + add_delay(len(distance)))


def _function(function: Callable[..., int], *operands: Value) -> Value:
    counts = (range(1 << len(operand)) for operand in operands)
    # The first operand is in the low bits of the index.
    values = [function(*reversed(row)) for row in product(*reversed(list(counts)))]
    return select(Cat(*operands), values)


def _add_or_subtract(a: Value, b: Value, subtract: Any) -> Value:
    flag = Value.cast(subtract)
    if isinstance(flag, Const):
        return (a - b).as_unsigned() if flag.value else a + b
    # One carry chain: the carry in comes from a bit below both operands.
    return (Cat(flag, a) + Cat(flag, b ^ flag.replicate(len(b)), flag.replicate(max(len(a) - len(b), 0))))[1:]
