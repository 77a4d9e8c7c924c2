"""Piecewise polynomials in fixed point: generated with a bound of the error, evaluated by Horner's rule."""

__all__ = ["PolynomialPiece", "PolynomialTable", "degree_for", "fit", "horner"]

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from math import comb

from amaranth.hdl import Cat, Const, Mux, Value

from .carry_save import add_three
from .functions import PRECISION
from .multiplier import multiply
from .pipeline import Pipeline
from .rom import lookup
from .series import Series
from .timing import add_delay, lut_delay

#: Terms of a Taylor series beyond those of the polynomial.
_MORE_TERMS = 10


def degree_for(bits: int) -> int:
    """Return the degree of the polynomials for results of so many bits; the number of intervals follows from it."""
    return next(degree for most, degree in ((14, 2), (30, 3), (44, 4), (58, 6), (999, 8)) if bits <= most)


@dataclass(frozen=True)
class PolynomialPiece:
    """Equal intervals on which a function is approximated, walked up or down.

    Attributes
    ----------
    series : callable
        Taylor series of the function.
    start, step : int
        First argument and signed width of an interval, in units of ``2**-PRECISION``.
    count : int
        Number of intervals.
    scale : int
        The polynomial gives the function times ``2**scale``.
    """

    series: Series
    start: int
    step: int
    count: int
    scale: int = 0


@dataclass(frozen=True)
class PolynomialTable:
    """Coefficients of ``c0 + u (c1 + u (c2 + ...))`` per interval, where `u` in [0, 1) is the place in the interval.

    Parameters
    ----------
    rows : tuple of tuple of int
        Coefficients of each interval in units of ``2**-fraction``.
    delta : int
        Bits of `u`.
    fraction : int
        Fraction bits of the result and of all coefficients.
    error : float
        Bound of the difference from the function, in units of ``2**-fraction``: of the polynomial, of its
        coefficients and of their evaluation.
    """

    rows: tuple[tuple[int, ...], ...]
    delta: int
    fraction: int
    error: float

    @property
    def degree(self) -> int:
        """Degree of the polynomials."""
        return len(self.rows[0]) - 1

    @property
    def index(self) -> int:
        """Bits of the index of an interval."""
        return max((len(self.rows) - 1).bit_length(), 1)

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """Bits of each coefficient, in two's complement."""
        return tuple(
            max((c if c >= 0 else ~c).bit_length() for c in column) + 1
            for column in zip(*self.rows, strict=True)
        )

    @cached_property
    def sums(self) -> tuple[int, ...]:
        """Bits of each partial result, in two's complement: ``sums[k]`` of the one that begins with ``c_k``."""
        most = [0] * (self.degree + 1)
        for row in self.rows:
            size = 0
            for k in reversed(range(self.degree + 1)):
                size = abs(row[k]) + size + (1 if k < self.degree else 0)
                most[k] = max(most[k], size)
        return tuple(size.bit_length() + 1 for size in most)

    def steps(self, k: int) -> int:
        """Bits of `u`, from the top, that the partial result `k` is multiplied with: as many as can matter."""
        return min(self.delta, self.sums[k])

    def evaluate(self, index: int, u: int) -> int:
        """Return the value in units of ``2**-fraction``, as the hardware computes it.

        Parameters
        ----------
        index : int
            Row of the table.
        u : int
            Place in the interval of the row, in units of ``2**-delta`` of it.
        """
        row = self.rows[index]
        result = row[-1]
        for k in reversed(range(self.degree)):
            bits = self.steps(k + 1)
            result = row[k] + (result * (u >> self.delta - bits) >> bits)
        return result


@cache
def _shifted_chebyshev(degree: int) -> tuple[tuple[int, ...], ...]:
    """Chebyshev polynomials of ``2 u - 1`` up to a degree, in powers of u."""
    rows: list[tuple[int, ...]] = [(1,), (-1, 2)]
    while len(rows) <= degree:
        last, before = rows[-1], (*rows[-2], 0, 0)
        twice = [-2 * a + 4 * b for a, b in zip((*last, 0), (0, *last), strict=True)]
        rows.append(tuple(a - b for a, b in zip(twice, before, strict=False)))
    return tuple(rows[: degree + 1])


def _economize(series: list[int], degree: int) -> tuple[list[int], int]:
    """Return a polynomial in u of a Taylor series in ``s = 2 u - 1``, and a bound of the difference.

    The Chebyshev series is cut, so that the bound is that of the best polynomial within a few percent. The terms of the
    Taylor series that are not there are bounded by the last two, as of a geometric series.
    """
    count = len(series)
    bound = 2 * (abs(series[-1]) + abs(series[-2]))
    kept = [0] * (degree + 1)
    for j in range(count):
        total = sum(series[k] * comb(k, (k - j) // 2) * 2 >> k for k in range(j, count, 2))
        if j == 0:
            total >>= 1
        if j <= degree:
            kept[j] = total
        else:
            bound += abs(total)
    powers = [0] * (degree + 1)
    for coefficient, row in zip(kept, _shifted_chebyshev(degree), strict=True):
        for m, factor in enumerate(row):
            powers[m] += coefficient * factor
    return powers, bound


def _rows(
    pieces: Sequence[PolynomialPiece], degree: int, fraction: int, limit: int
) -> tuple[list[tuple[int, ...]], int]:
    """Coefficients, and the largest difference of a polynomial; as soon as it is above `limit`, no more of them."""
    rows, worst = [], 0
    half = 1 << PRECISION - fraction - 1
    for piece in pieces:
        for k in reversed(range(piece.count)):
            center = piece.start + piece.step * k + (piece.step >> 1)
            series = piece.series(center, piece.step >> 1, degree + _MORE_TERMS)
            if piece.scale >= 0:
                series = [term << piece.scale for term in series]
            else:
                series = [term >> -piece.scale for term in series]
            powers, bound = _economize(series, degree)
            worst = max(worst, bound)
            if worst > limit:
                return [], worst
            rows.append(tuple(c + half >> PRECISION - fraction for c in powers))
        rows[-piece.count :] = reversed(rows[-piece.count :])
    return rows, worst


def fit(
    make: Sequence[PolynomialPiece], *, delta: int, fraction: int, degree: int, limit: float
) -> PolynomialTable | None:
    """Approximate a function on pieces, or return None if the bound of the error exceeds `limit` units of the result.

    Parameters
    ----------
    make : sequence of PolynomialPiece
    delta : int
        Bits of the place in an interval.
    fraction : int
        Fraction bits of the result.
    degree : int
        Degree of the polynomials.
    limit : float
        Error that is allowed, in units of ``2**-fraction``.
    """
    # Half a unit for each coefficient, a unit for each product that is cut, and half a unit for the bits of u left out.
    rounding = 0.5 * (degree + 1) + 1.5 * degree
    assert rounding < limit, "the caller gives enough fraction bits"
    unit = 1 << PRECISION - fraction
    rows, worst = _rows(make, degree, fraction, int((limit - rounding) * unit))
    if not rows:
        return None
    return PolynomialTable(tuple(rows), delta, fraction, worst / unit + rounding)


def horner(p: Pipeline, table: PolynomialTable, name: str, index: Value, u: Value, *, target: str) -> None:
    """Set ``p[name]`` to the value of a table, at least 0, at `index` and `u`, values of the present stage.

    Adds the cuts of a table read, and those of a multiplication and one more for each degree; the caller cuts after
    that.

    Parameters
    ----------
    p : Pipeline
    table : PolynomialTable
        Its coefficients become a ROM.
    name : str
        Of the result.
    index : Value
        Row of the table.
    u : Value
        Place in the interval of the row: `table.delta` bits.
    target : str
        FPGA family.
    """
    words = []
    for row in table.rows:
        word = position = 0
        for value, width in zip(row, table.widths, strict=True):
            word |= (value & (1 << width) - 1) << position
            position += width
        words.append(word)
    words += [0] * ((1 << table.index) - len(words))
    p[f"{name}_u"] = u
    lookup(p, f"{name}_row", index, words, sum(table.widths), target=target)
    position = 0
    for k, width in enumerate(table.widths):
        p[f"{name}_c{k}"] = p[f"{name}_row"][position : position + width]
        position += width
    p[name] = _extended(p[f"{name}_c{table.degree}"], table.sums[table.degree])
    for k in reversed(range(table.degree)):
        bits, width = table.steps(k + 1), table.sums[k + 1]
        # Without its sign, the partial result is 2**(width - 1) too large where it is an unsigned number.
        p[f"{name}_part"] = Cat(p[name][:-1], ~p[name][-1])
        p[f"{name}_top"] = p[f"{name}_u"][table.delta - bits :]
        multiply(p, f"{name}_product{k}", p[f"{name}_part"], p[f"{name}_top"], target=target, cuts=3)
        size = max(table.sums[k], width) + bits
        terms = (
            p[f"{name}_product{k}"],
            Cat(Const(0, bits), _extended(p[f"{name}_c{k}"], size)),
            Cat(Const(0, width - 1), p[f"{name}_top"]),
        )
        p[name] = add_three(p, terms, size, subtract=(0, 1))[bits : bits + table.sums[k]]
        p.delay(add_delay(size) + lut_delay())
        p.cut()
    p[name] = Mux(p[name][-1], 0, p[name][:-1])
    p.delay(lut_delay(0.5))


def _extended(value: Value, width: int) -> Value:
    """A number in two's complement, in more bits."""
    return Cat(value, value[-1].replicate(max(width - len(value), 0)))[:width]
