"""Elementary functions in integer arithmetic, from which the tables of the cores are generated.

A real number is an integer in units of ``2**-PRECISION``; results are right to far more bits than a table has.
"""

__all__ = [
    "PRECISION",
    "exp2",
    "log",
    "log2_slope",
    "log_of_2",
    "pi",
    "reciprocal",
    "rsqrt",
    "sine_slope",
    "two_over_pi",
]

from functools import cache
from math import isqrt

#: Fraction bits of a number.
PRECISION = 96
_ONE = 1 << PRECISION


def _inverse_tangent(inverse: int, bits: int) -> int:
    """Arc tangent of ``1/inverse`` in units of ``2**-bits``."""
    term = (1 << bits) // inverse
    total, k = term, 1
    while term:
        term = -term // (inverse * inverse)
        k += 2
        total += term // k
    return total


@cache
def pi(bits: int) -> int:
    """Pi in units of ``2**-bits``, by Machin's formula."""
    guard = bits + 32
    return 4 * (4 * _inverse_tangent(5, guard) - _inverse_tangent(239, guard)) >> 32


def log(x: int) -> int:
    """Natural logarithm of a number near 1: twice the area tangent of (x - 1) / (x + 1)."""
    z = (abs(x - _ONE) << PRECISION) // (x + _ONE)
    square = z * z >> PRECISION
    total, k, power = 0, 1, z
    while power:
        total += power // k
        power = power * square >> PRECISION
        k += 2
    return 2 * total if x > _ONE else -2 * total


@cache
def log_of_2() -> int:
    """Natural logarithm of 2."""
    return log(2 * _ONE)


def exp2(x: int) -> int:
    """2 to the power of `x`."""
    y = x * log_of_2() >> PRECISION
    total, term, k = _ONE, _ONE, 1
    while term not in (0, -1):
        term = (term * y >> PRECISION) // k
        total += term
        k += 1
    return total


def log2_slope(x: int) -> int:
    """``log2(1 + x) / x``, for `x` other than 0."""
    return (log(_ONE + x) << 2 * PRECISION) // (x * log_of_2())


def reciprocal(x: int) -> int:
    """``1 / x``."""
    return (1 << 2 * PRECISION) // x


def rsqrt(x: int) -> int:
    """``1 / sqrt(x)``."""
    return isqrt((1 << 4 * PRECISION) // (x << PRECISION))


def sine_slope(x: int) -> int:
    """``sin(pi/2 x) / x``, for `x` other than 0."""
    half_pi = pi(PRECISION) >> 1
    y = x * half_pi >> PRECISION
    square = y * y >> PRECISION
    total, term, k = 0, half_pi, 1
    while term not in (0, -1):
        total += term
        term = -(term * square >> PRECISION) // ((k + 1) * (k + 2))
        k += 2
    return total


@cache
def two_over_pi(bits: int) -> int:
    """``2 / pi`` cut after `bits` fraction bits."""
    guard = bits + 32
    return (1 << 2 * guard + 1) // pi(guard) >> 32
