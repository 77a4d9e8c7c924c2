"""Taylor series of elementary functions in integers, from which the polynomials of the cores are made.

A number is an integer in units of ``2**-PRECISION``. A series about `c` has coefficients in powers of ``s`` for the
argument ``c + half * s``, so that an interval of width ``2 half`` is ``-1 <= s <= 1``.
"""

__all__ = ["Series", "atan", "erf", "exp2", "log2_slope", "sine_slope", "tanh"]

from collections.abc import Callable
from math import isqrt

from . import functions
from .functions import PRECISION

#: Center and half the width of the interval in units of ``2**-PRECISION``, number of terms -> coefficients,
#: lowest first.
Series = Callable[[int, int, int], list[int]]

_ONE = 1 << PRECISION


def _times(a: int, b: int) -> int:
    return a * b >> PRECISION


def _over(a: int, b: int) -> int:
    return (a << PRECISION) // b


def _exp(x: int) -> int:
    """e to the power of `x`."""
    power = _over(x, functions.log_of_2())
    whole = power >> PRECISION
    value = functions.exp2(power & (_ONE - 1))
    return value << whole if whole >= 0 else value >> -whole


def exp2(center: int, half: int, terms: int) -> list[int]:
    """2 to the power of x.

    Parameters
    ----------
    center, half, terms
        As of `Series`.
    """
    rate = _times(functions.log_of_2(), half)
    series = [functions.exp2(center)]
    for k in range(1, terms):
        series.append(_times(series[-1], rate) // k)
    return series


def log2_slope(center: int, half: int, terms: int) -> list[int]:
    """``log2(1 + x) / x``, on an interval without 0 inside.

    Parameters
    ----------
    center, half, terms
        As of `Series`.
    """
    ratio = _over(half, _ONE + center)
    power = _over(_ONE, functions.log_of_2())
    logarithm = [_times(functions.log(_ONE + center), power)]
    for k in range(1, terms):
        power = _times(power, ratio)
        logarithm.append(power // k if k % 2 else -power // k)
    series: list[int] = []
    for term in logarithm:
        series.append(_over(term - (_times(series[-1], half) if series else 0), center))
    return series


def sine_slope(center: int, half: int, terms: int) -> list[int]:
    """``sin(pi/2 x) / x``, on an interval below 1 without 0 inside.

    Parameters
    ----------
    center, half, terms
        As of `Series`.
    """
    rate = _times(functions.pi(PRECISION) >> 1, half)
    sine = _times(functions.sine_slope(center), center)
    cosine = _times(functions.sine_slope(_ONE - center), _ONE - center)
    factor, series = _ONE, list[int]()
    for k in range(terms):
        term = _times((sine, cosine, -sine, -cosine)[k % 4], factor)
        factor = _times(factor, rate) // (k + 1)
        series.append(_over(term - (_times(series[-1], half) if series else 0), center))
    return series


def tanh(center: int, half: int, terms: int) -> list[int]:
    """Hyperbolic tangent, by ``y' = 1 - y**2``.

    Parameters
    ----------
    center, half, terms
        As of `Series`.
    """
    tail = _exp(-2 * center)
    series = [_over(_ONE - tail, _ONE + tail)]
    for k in range(terms - 1):
        square = sum(_times(series[i], series[k - i]) for i in range(k + 1))
        series.append(_times((_ONE if k == 0 else 0) - square, half) // (k + 1))
    return series


def atan(center: int, half: int, terms: int) -> list[int]:
    """Arc tangent, by ``y' = 1 / (1 + x**2)``.

    Parameters
    ----------
    center, half, terms
        As of `Series`.
    """
    bottom = _ONE + _times(center, center)
    slopes: list[int] = []
    for k in range(terms - 1):
        top = _ONE if k == 0 else -2 * _times(_times(center, half), slopes[k - 1])
        if k > 1:
            top -= _times(_times(half, half), slopes[k - 2])
        slopes.append(_over(top, bottom))
    return [_atan(center), *(_times(slope, half) // (k + 1) for k, slope in enumerate(slopes))]


def _atan(x: int) -> int:
    """Arc tangent of a positive number, halved until its series is short."""
    if x > _ONE:
        return (functions.pi(PRECISION) >> 1) - _atan(_over(_ONE, x))
    halvings = 0
    while x > _ONE >> 4:
        # The tangent of half the angle.
        root = isqrt((_ONE << PRECISION) + x * x)
        x, halvings = _over(x, _ONE + root), halvings + 1
    square, power, total, k = _times(x, x), x, 0, 1
    while power:
        total += power // k if k % 4 == 1 else -(power // k)
        power, k = _times(power, square), k + 2
    return total << halvings


def erf(center: int, half: int, terms: int) -> list[int]:
    """Error function, by ``y' = g``, ``g' = -2 x g``.

    Parameters
    ----------
    center, half, terms
        As of `Series`.
    """
    scale = _over(2 * _ONE, isqrt(functions.pi(PRECISION) << PRECISION))
    bell = _times(scale, _exp(-_times(center, center)))
    slopes = [bell]
    for k in range(terms - 2):
        rest = _times(half, slopes[k - 1]) if k else 0
        slopes.append(-2 * _times(_times(center, slopes[k]) + rest, half) // (k + 1))
    return [_erf(center), *(_times(slope, half) // (k + 1) for k, slope in enumerate(slopes))]


def _erf(x: int) -> int:
    """The error function by its alternating series, with bits for its largest terms, about ``e**(x * x)``."""
    more = 3 * (x * x >> 2 * PRECISION) + 32
    bits = PRECISION + more
    square, term, total, n = (x * x << more) >> PRECISION, x << more, 0, 0
    while term:
        total += term // (2 * n + 1)
        n += 1
        size = (abs(term) * square >> bits) // n
        term = -size if term > 0 else size
    scale = 2 * (1 << 2 * PRECISION) // isqrt(functions.pi(PRECISION) << PRECISION)
    return (total * scale >> PRECISION) >> more
