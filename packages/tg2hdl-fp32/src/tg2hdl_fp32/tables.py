"""Piecewise quadratic approximation in fixed point: coefficients, and the exact result of evaluating them."""

__all__ = ["QuadraticTable", "fit"]

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from .functions import PRECISION


@dataclass(frozen=True)
class QuadraticTable:
    """Coefficients of ``c0 +- u (c1 +- u c2)`` per interval, where `u` in [0, 1) is the place in the interval.

    Parameters
    ----------
    rows : tuple of (int, int, int)
        Unsigned coefficients of each interval.
    delta : int
        Bits of `u`.
    coarse : int
        Leading bits of `u` that are multiplied with ``c2``.
    fraction, slope, curve : int
        Fraction bits of ``c0``, of ``c1`` and of ``c2``.
    falling : tuple of bool
        Whether the slope is subtracted, per interval.
    concave : tuple of bool
        Whether the curvature is subtracted from the slope, per interval.
    """

    rows: tuple[tuple[int, int, int], ...]
    delta: int
    coarse: int
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
    def slope_bits(self) -> int:
        """Bits of the slope that is multiplied with `u`."""
        top = (1 << self.coarse) - 1
        bends = [row[2] * top >> self.curve_shift for row in self.rows]
        slopes = (
            max(c1, c1 if away else c1 + bend)
            for (_, c1, _), bend, away in zip(self.rows, bends, self.concave, strict=True)
        )
        return max(slopes).bit_length()

    @property
    def curve_shift(self) -> int:
        """Bits dropped from ``c2 u``."""
        return self.coarse + self.curve - self.slope

    @property
    def slope_shift(self) -> int:
        """Bits dropped from ``c1 u``."""
        return self.delta + self.slope - self.fraction

    def evaluate(self, index: int, u: int) -> int:
        """Return the value in units of ``2**-fraction``, as the hardware computes it."""
        c0, c1, c2 = self.rows[index]
        bend = c2 * (u >> self.delta - self.coarse) >> self.curve_shift
        product = u * (c1 - bend if self.concave[index] else c1 + bend) >> self.slope_shift
        return c0 - product if self.falling[index] else c0 + product


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
    the best quadratic. The error of a rounded coefficient is taken up by the next lower one.

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
        Intervals at whose start the result is exact: ``c0`` is the function there.
    limit : int, optional
        Largest ``c0``. With all ones, a function that reaches 1 stays below it by one unit, and rounds to it.
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
    largest = max(max(abs(a1), abs(a1 + 2 * a2)) for _, a1, a2 in polynomials)
    slope = slope_bits + PRECISION - int(largest).bit_length()
    curve = slope + 2
    coarse = min(delta, (int(max(abs(a2) for *_, a2 in polynomials)) >> PRECISION - curve).bit_length() + 1)
    rows, falling, concave = [], [], []
    for i, (a0, a1, a2) in enumerate(polynomials):
        down = a1 < 0
        away = (a2 < 0) != down
        a0, a1, a2 = (a / one for a in (a0, abs(a1), abs(a2)))
        c2 = round(a2 * 2**curve)
        rest = (a2 - Fraction(c2, 2**curve)) * (-1 if away else 1)
        # On [0, 1] the best line for u^2 is u - 1/8; cutting c2 u loses half a unit of the slope.
        lost = Fraction(-1 if away else 1, 2 ** (slope + 1)) if coarse + curve > slope else Fraction(0)
        c1 = round((a1 + rest + lost) * 2**slope)
        line = a1 + rest + lost - Fraction(c1, 2**slope)
        side = -1 if down else 1
        c0 = (a0 + side * (line / 2 - rest / 8)) * 2**fraction + Fraction(side, 2)
        if i in exact:
            c0 = Fraction(function(int(places[i][0] * one)), 2 ** (PRECISION - fraction))
        rows.append((round(c0) if limit is None else min(round(c0), limit), c1, c2))
        falling.append(down)
        concave.append(away)
    return QuadraticTable(tuple(rows), delta, coarse, fraction, slope, curve, tuple(falling), tuple(concave))
