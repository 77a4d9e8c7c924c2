"""Functions of float32 tensors whose relative error stays small near zero, where closed forms cancel.

Each polynomial is a fit of our own, weighted for relative error; its error is below 5e-9 on its interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tinygrad import Tensor
from tinygrad.dtype import dtypes

__all__ = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "cosh",
    "elu",
    "erf",
    "exp",
    "expm1",
    "gelu",
    "mish",
    "sinh",
    "softplus",
    "tanh",
]

_LARGE = 1e9
"""From here on ``x * x + 1`` and ``x * x - 1`` are ``x * x``, which may be infinite."""
_RATE = 1 / math.log(2)
_RATE_HIGH = 1.4423828125
"""The first 12 bits of ``1 / log(2)``: its product with a number of 12 bits is exact."""
_TANH = (-0.333332993, 0.133319582, -0.0537866814, 0.0208053775, -0.0059058606)
_ASIN = (0.166667539, 0.0749524178, 0.0454770971, 0.0241476118, 0.0422185462)
_ATAN = (-0.333329552, 0.199779257, -0.138798463, 0.0806029807)
_ASINH = (-0.166666439, 0.0749866327, -0.044385864, 0.0281755473, -0.0132480807)
_ATANH = (0.333332988, 0.200025877, 0.142214874, 0.118339576, 0.0509856197, 0.17719632)
_LOG1P = (0.333332066, 0.200108496, 0.139995697, 0.140122328)
_SINH = (0.166666665, 0.0083333506, 0.000198360662, 2.81743965e-06)
_EXPM1 = (0.499999875, 0.166663088, 0.041633246, 0.00819612512, 0.00112823156)
_ERF = (1.12837917, -0.376126271, 0.112836002, -0.0268544446, 0.00518953534, -0.000802084127, 7.8891195e-05)
_LOG_ERFC = (
    0.000353708922,
    1.12704008,
    0.638225602,
    0.103037436,
    -0.0218053512,
    0.00293961574,
    -0.000185574894,
)
"""``-log(erfc(x))`` from 1 to 4, as powers of x."""


def _powers(x: Tensor, factors: Sequence[float]) -> Tensor:
    """Polynomial by Horner's rule, the constant first."""
    total = x * factors[-1] + factors[-2]
    for factor in reversed(factors[:-2]):
        total = total * x + factor
    return total


def _odd_powers(x: Tensor, square: Tensor, factors: Sequence[float]) -> Tensor:
    """``x * (1 + x**2 * p(x**2))``: exact for the smallest numbers and for zeros of both signs."""
    return x * (square * _powers(square, factors) + 1)


def _odd(x: Tensor, limit: float, factors: Sequence[float], beyond: Tensor) -> Tensor:
    """Odd function: a polynomial below `limit`, otherwise `beyond`, its value at ``abs(x)``."""
    near = _odd_powers(x, x * x, factors)
    result: Tensor = (x.abs() < limit).where(near, (x < 0).where(-beyond, beyond))
    return result


def exp(x: Tensor, doublings: int = 0) -> Tensor:
    """``exp(x) * 2**doublings``; the rounding of ``x / log(2)``, which grows with `x`, is made good.

    Parameters
    ----------
    x : Tensor
    doublings : int, default 0
        Added to the exponent before it is rounded.
    """
    if x.dtype != dtypes.float32:
        return x.exp() * 2.0**doublings
    x = (x > 90).where(90.0, (x < -105).where(-105.0, x))
    high = (x.bitcast(dtypes.int32) & -4096).bitcast(dtypes.float32)
    power = x * _RATE
    lost = high * _RATE_HIGH - power + (x - high) * _RATE_HIGH + x * (_RATE - _RATE_HIGH)
    return (power + doublings if doublings else power).exp2() * (lost * math.log(2) + 1)


def expm1(x: Tensor) -> Tensor:
    """``exp(x) - 1`` for numbers that are not positive."""
    return (x > -0.5).where(x + x * x * _powers(x, _EXPM1), x.exp() - 1)


def elu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """``alpha * (exp(x) - 1)`` for negative numbers.

    Parameters
    ----------
    x : Tensor
    alpha : float, default 1.0
        Limit for very negative numbers is ``-alpha``.
    """
    result: Tensor = (x < 0).where(alpha * expm1(x), x)
    return result


def tanh(x: Tensor) -> Tensor:
    """Hyperbolic tangent."""
    return _odd(x, 0.6, _TANH, 1 - 2 * (1 + (2 * x.abs()).exp()).reciprocal())


def _inner_asin(x: Tensor, large: Tensor) -> Tensor:
    """Arc sine of `x`; where `large`, of ``sqrt((1 - abs(x)) / 2)``: half the angle between it and a quarter circle."""
    square = large.where((1 - x.abs()) * 0.5, x * x)
    return _odd_powers(large.where(square.sqrt(), x), square, _ASIN)


def asin(x: Tensor) -> Tensor:
    """Arc sine; NaN beyond 1."""
    large = x.abs() > 0.5
    small = _inner_asin(x, large)
    beyond = math.pi / 2 - 2 * small
    return large.where((x < 0).where(-beyond, beyond), small)


def acos(x: Tensor) -> Tensor:
    """Arc cosine; NaN beyond 1."""
    large = x.abs() > 0.5
    small = _inner_asin(x, large)
    return large.where((x < 0).where(math.pi - 2 * small, 2 * small), math.pi / 2 - small)


def atan(x: Tensor) -> Tensor:
    """Arc tangent, turned by an eighth or a quarter of a circle."""
    size = x.abs()
    middle, far = size > math.tan(math.pi / 8), size > math.tan(3 * math.pi / 8)
    above = far.where(-1.0, middle.where(size - 1, size))
    below = far.where(size, middle.where(size + 1, 1.0))
    inner = above * below.reciprocal()
    inner = _odd_powers(inner, inner * inner, _ATAN)
    angle = far.where(math.pi / 2, middle.where(math.pi / 4, 0.0)) + inner
    return middle.where((x < 0).where(-angle, angle), (x < 0).where(-inner, (x > 0).where(inner, x)))


def _log_of_sum(x: Tensor, root: Tensor) -> Tensor:
    """``log(x + root)``; for large `x` the root equals `x`."""
    large = x > _LARGE
    return large.where(x, x + root).log() + large.where(math.log(2), 0.0)


def asinh(x: Tensor) -> Tensor:
    """Inverse of sinh."""
    size = x.abs()
    return _odd(x, 0.5, _ASINH, _log_of_sum(size, (size.minimum(_LARGE).square() + 1).sqrt()))


def _log1p(x: Tensor) -> Tensor:
    """``log(1 + x)`` for 0 to 1, as twice the inverse tanh of ``x / (2 + x)``."""
    inner = x * (2 + x).reciprocal()
    return 2 * _odd_powers(inner, inner * inner, _LOG1P)


def acosh(x: Tensor) -> Tensor:
    """Inverse of cosh, for 1 and more; NaN below."""
    bounded = x.minimum(_LARGE)
    root = ((bounded - 1) * (bounded + 1)).sqrt()
    near = (x < 1).where(math.nan, _log1p(x - 1 + root))
    return (x < 1.25).where(near, _log_of_sum(x, root))


def atanh(x: Tensor) -> Tensor:
    """Inverse of tanh, between -1 and 1."""
    size = x.abs()
    return _odd(x, 0.5, _ATANH, ((1 + size) * (1 - size).reciprocal()).log() / 2)


def sinh(x: Tensor) -> Tensor:
    """Half the difference of exponentials, whose halves are finite where they are not."""
    half = exp(x.abs(), -1)
    return _odd(x, 1.0, _SINH, half - 0.25 * half.reciprocal())


def cosh(x: Tensor) -> Tensor:
    """Half the sum of exponentials."""
    half = exp(x.abs(), -1)
    return half + 0.25 * half.reciprocal()


def erf(x: Tensor) -> Tensor:
    """Error function."""
    size = (x.abs() > 4).where(4.0, x.abs())
    beyond = 1 - (-_powers(size, _LOG_ERFC)).exp()
    return (size < 1).where(x * _powers(x * x, _ERF), (x < 0).where(-beyond, beyond))


_ROOT = math.sqrt(2 / math.pi)


def gelu(x: Tensor, by_tanh: bool = False) -> Tensor:
    """``x`` times the normal distribution of `x`, or its approximation ``(1 + tanh(z)) / 2 = sigmoid(2 z)``.

    Parameters
    ----------
    x : Tensor
    by_tanh : bool, default False
        Whether to approximate.
    """
    if by_tanh:
        return x * (x * (x * x * (2 * 0.044715 * _ROOT) + 2 * _ROOT)).sigmoid()
    return x * (0.5 * erf(x * math.sqrt(0.5)) + 0.5)


def softplus(x: Tensor) -> Tensor:
    """``log(1 + exp(x))`` without overflow or underflow of the sum."""
    return (x > 0).where(x, 0) + _log1p(exp(-x.abs()))


def mish(x: Tensor) -> Tensor:
    """``x * tanh(softplus(x))``, which is a quotient of polynomials of an exponential."""
    power, below = exp(-x.abs()), x < 0
    above = below.where(power * (power + 2), 1 + 2 * power)
    return x * above * (above + below.where(2.0, 2 * power * power)).reciprocal()
