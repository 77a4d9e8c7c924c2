"""Piecewise quadratic approximation in fixed point: coefficients, and the exact result of evaluating them."""

__all__ = ["QuadraticTable", "fit"]

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

from .functions import PRECISION


@dataclass(frozen=True)
class QuadraticTable:
    """Coefficients of ``c0 +- u c1 +- v^2 c2`` per interval, where `u` in [0, 1) is the position in the interval.

    `v` is the distance to the middle of the interval, so that both products are formed in parallel.

    Parameters
    ----------
    rows : tuple of (int, int, int)
        Unsigned coefficients of each interval.
    delta : int
        Bits of `u`.
    fold : int
        Bits of the distance to the middle.
    fraction, slope, curve : int
        Fraction bits of ``c0``, of ``c1`` and of ``c2``.
    falling : tuple of bool
        Whether the linear term is subtracted, per interval.
    concave : tuple of bool
        Whether the quadratic term is subtracted, per interval.
    """

    rows: tuple[tuple[int, int, int], ...]
    delta: int
    fold: int
    fraction: int
    slope: int
    curve: int
    falling: tuple[bool, ...]
    concave: tuple[bool, ...]

    @property
    def index(self) -> int:
        """Bits of the index."""
        return (len(self.rows) - 1).bit_length()

    @property
    def widths(self) -> tuple[int, int, int]:
        """Bits of ``c0``, ``c1`` and ``c2``."""
        c0, c1, c2 = (max(column).bit_length() for column in zip(*self.rows, strict=True))
        return c0, c1, c2

    @property
    def curve_shift(self) -> int:
        """Bits dropped from ``c2 v^2``."""
        return 2 * self.fold + 2 + self.curve - self.fraction

    @property
    def slope_shift(self) -> int:
        """Bits dropped from ``c1 u``."""
        return self.delta + self.slope - self.fraction

    @cached_property
    def value_bits(self) -> int:
        """Bits of a result, and of intermediate sums."""
        last = (1 << self.delta) - 1
        most = max(max(self.evaluate(i, 0), self.evaluate(i, last)) for i in range(len(self.rows)))
        starts = (
            c0 + (0 if down else self._bend(c2, 0))
            for (c0, _, c2), down in zip(self.rows, self.concave, strict=True)
        )
        return max(most, *starts).bit_length()

    def _bend(self, c2: int, u: int) -> int:
        return self.square(u) * c2 >> self.curve_shift

    def square(self, u: int) -> int:
        """Return ``v^2`` in units of ``4**-(fold + 1)``, but for a fourth of a unit."""
        top = u >> self.delta - self.fold - 1
        mask = (1 << self.fold) - 1
        distance = top & mask if top > mask else ~top & mask
        return distance * (distance + 1)

    def evaluate(self, index: int, u: int) -> int:
        """Return the value in units of ``2**-fraction``, as the hardware computes it.

        Parameters
        ----------
        index : int
            Row of the table.
        u : int
            Place in the interval of the row, in units of ``2**-delta`` of it.
        """
        c0, c1, c2 = self.rows[index]
        rise = u * c1 >> self.slope_shift
        bend = self._bend(c2, u)
        return c0 + (-rise if self.falling[index] else rise) + (-bend if self.concave[index] else bend)


def fit(
    function: Callable[[int], int],
    segments: Sequence[tuple[Fraction, Fraction, int]],
    *,
    delta: int,
    fraction: int,
    slope_bits: int,
    exact: Sequence[int] = (),
    limit: int | None = None,
) -> QuadraticTable:
    """Approximate a function on segments of equal intervals.

    The three coefficients come from interpolation at the Chebyshev nodes, which is within a few percent of
    the best quadratic. The next lower coefficient compensates for the error of a rounded one.

    Parameters
    ----------
    function : callable
        Real function of :mod:`tg2hdl_fp32.functions`.
    segments : sequence of (Fraction, Fraction, int)
        First argument, width of an interval (negative to walk down) and number of intervals.
    delta : int
        Bits of the place within an interval.
    fraction : int
        Fraction bits of the result.
    slope_bits : int
        Bits of ``c1``.
    exact : sequence of int
        Intervals at whose start the result is exact.
    limit : int, optional
        Largest result at the start of an interval. With all ones, a function that reaches 1 stays below it by one
        unit, and rounds to it.
    """
    one = 1 << PRECISION
    # Chebyshev nodes 1/2 - sqrt(3)/4, 1/2, 1/2 + sqrt(3)/4 of [0, 1], near enough as fractions.
    nodes = (Fraction(97, 1448), Fraction(1, 2), Fraction(1351, 1448))
    polynomials = []
    places = [(start + step * i, step) for start, step, count in segments for i in range(count)]
    for start, step in places:
        values = [function(int((start + step * u) * one)) for u in nodes]
        first = [(values[k + 1] - values[k]) / (nodes[k + 1] - nodes[k]) for k in range(2)]
        a2 = (first[1] - first[0]) / (nodes[2] - nodes[0])
        a1 = first[0] - a2 * (nodes[0] + nodes[1])
        a0 = values[0] - nodes[0] * (a1 + nodes[0] * a2)
        polynomials.append((a0, a1, a2))
    largest = max(abs(a1 + a2) for _, a1, a2 in polynomials)
    slope = slope_bits + PRECISION - int(largest).bit_length()
    curve = slope + 2
    # A unit of the distance to the middle is worth at most one of the result, so that a rising function stays monotone.
    most = int(max(abs(a2) for *_, a2 in polynomials)) >> PRECISION - fraction
    fold = max(1, min(most.bit_length() - 1, delta - 1, 9))
    shift = 2 * fold + 2 + curve - fraction
    ends = ((1 << fold) - 1) << fold
    rows, falling, concave = [], [], []
    for i, (a0, a1, a2) in enumerate(polynomials):
        down, away = a1 < 0, a2 < 0
        # About the middle, the slope is that of the tangent.
        middle, tangent, bend = ((a0 - a2 / 4) / one, abs(a1 + a2) / one, abs(a2) / one)
        side, turn = -1 if down else 1, -1 if away else 1
        c2 = round(bend * 2**curve)
        c1 = round(tangent * 2**slope)
        # The square lies between 0 and 1/4, and lacks a fourth of its unit; cutting a product loses half a unit.
        rest = (bend - Fraction(c2, 2**curve)) / 8 + Fraction(c2, 2 ** (curve + 2 * fold + 4))
        line = (tangent - Fraction(c1, 2**slope)) / 2
        c0 = round((middle + side * line + turn * rest) * 2**fraction + Fraction(side + turn, 2))
        start = turn * (c2 * ends >> shift)
        if i in exact:
            c0 = round(Fraction(function(int(places[i][0] * one)), 2 ** (PRECISION - fraction))) - start
        rows.append((c0 if limit is None else min(c0, limit - start), c1, c2))
        falling.append(down)
        concave.append(away)
    table = QuadraticTable(tuple(rows), delta, fold, fraction, slope, curve, tuple(falling), tuple(concave))
    for i in exact:
        # With the start fixed, the slope compensates for its error and that of the truncated products.
        c0, c1, c2 = rows[i]
        slopes = [c1 + k for k in range(-4, 5) if (c1 + k).bit_length() <= slope_bits]
        tables = [replace(table, rows=(*rows[:i], (c0, c, c2), *rows[i + 1 :])) for c in slopes]
        table = min(tables, key=lambda t: _worst_error(t, i, polynomials[i]))
        rows = list(table.rows)
    return table


def _worst_error(table: QuadraticTable, index: int, polynomial: tuple[Fraction, ...]) -> Fraction:
    """Largest difference from a polynomial within an interval, in units of the result."""
    a0, a1, a2 = (a / (1 << PRECISION - table.fraction) for a in polynomial)
    size = 1 << table.delta
    points = range(0, size, max(size // 251, 1))
    return max(
        abs(a0 + Fraction(u, size) * (a1 + Fraction(u, size) * a2) - table.evaluate(index, u)) for u in points
    )
