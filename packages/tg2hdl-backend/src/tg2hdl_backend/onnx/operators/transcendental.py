"""Functions whose definitions in tinygrad overflow or cancel for large or small arguments."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tinygrad import Tensor

from tg2hdl_backend.onnx.node import OnnxNode
from tg2hdl_backend.onnx.operators.arithmetic import divide, wide

__all__ = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "cos",
    "cosh",
    "erf",
    "exp_minus_1",
    "sinh",
    "softplus_of",
    "tan",
    "tanh",
    "tanh_of",
]

# Minimax polynomials in the square of the argument.
_ASIN = (0.16666754, 0.07495242, 0.0454771, 0.0241476, 0.04221857)
_ATAN = (-0.33332955, 0.19977926, -0.13879849, 0.08060307)
_ATANH = (0.33333206, 0.20010878, 0.1399906, 0.14014956)
_ERF = (1.12837915, -0.376125376, 0.112826855, -0.0268201702, 0.00513127372, -0.000756219208, 6.5273954e-5)
_LARGE = 1e9
"""From here on ``x * x + 1`` and ``x * x - 1`` are ``x * x``, which may be infinite."""


def _odd(x: Tensor, limit: float, series: Sequence[float], beyond: Callable[[Tensor], Tensor]) -> Tensor:
    """``sign(x) * f(abs(x))``: powers below a limit, where the closed form cancels."""
    value = wide(x)
    size = value.abs()
    square, near = size * size, size * series[-1]
    for factor in reversed(series[:-1]):
        near = near * square + size * factor
    result = (size < limit).where(near, beyond(size))
    return (value < 0).where(-result, result).cast(x.dtype)


def _log_of_sum(x: Tensor, root: Tensor) -> Tensor:
    """``log(x + root)``; for large `x` the root equals `x`."""
    large = x > _LARGE
    return large.where(x, x + root).log() + large.where(math.log(2), 0.0)


def asinh(node: OnnxNode, x: Tensor) -> Tensor:
    """Inverse of sinh."""
    return _odd(
        x,
        0.2,
        (1, -1 / 6, 3 / 40, -15 / 336),
        lambda a: _log_of_sum(a, (a.minimum(_LARGE).square() + 1).sqrt()),
    )


def acosh(node: OnnxNode, x: Tensor) -> Tensor:
    """Inverse of cosh, for 1 and more."""
    value = wide(x)
    bounded = value.minimum(_LARGE)
    return _log_of_sum(value, ((bounded - 1) * (bounded + 1)).sqrt()).cast(x.dtype)


def atanh(node: OnnxNode, x: Tensor) -> Tensor:
    """Inverse of tanh, between -1 and 1."""
    return _odd(x, 0.2, (1, 1 / 3, 1 / 5, 1 / 7, 1 / 9), lambda a: divide(1 + a, 1 - a).log() / 2)


def _half_exp(x: Tensor) -> Tensor:
    """``exp(x) / 2``, which is finite where its double is not."""
    return (x - math.log(2)).exp()


def sinh(node: OnnxNode, x: Tensor) -> Tensor:
    """Half the difference of exponentials."""
    return _odd(x, 0.5, (1, 1 / 6, 1 / 120, 1 / 5040), lambda a: _half_exp(a) - _half_exp(-a))


def cosh(node: OnnxNode, x: Tensor) -> Tensor:
    """Half the sum of exponentials."""
    value = wide(x)
    return (_half_exp(value) + _half_exp(-value)).cast(x.dtype)


def _polynomial(x: Tensor, factors: Sequence[float]) -> Tensor:
    """Horner's scheme, the constant term first."""
    total = x * factors[-1] + factors[-2]
    for factor in reversed(factors[:-2]):
        total = total * x + factor
    return total


def _exp_minus_1(x: Tensor) -> tuple[Tensor, Tensor]:
    """Numerator and denominator of ``exp(x) - 1`` without cancellation.

    Near zero the denominator is that of ``x / (1 - x / 2 + x ** 2 / 12 - ...)``, elsewhere it is 1.
    """
    near = x.abs() < 0.5
    square = x * x
    below = 1 - x / 2 + square * (square * -0.00137746 + 0.08333245)
    return near.where(x, x.exp() - 1), near.where(below, 1.0)


def exp_minus_1(x: Tensor) -> Tensor:
    """``exp(x) - 1``, relative to its size."""
    return divide(*_exp_minus_1(x))


def tanh_of(x: Tensor) -> Tensor:
    """Hyperbolic tangent, relative to its size."""
    over, below = _exp_minus_1(x.abs() * -2)
    result = divide(-over, over + below * 2)
    return (x < 0).where(-result, (x == 0).where(x, result))


def _log_1_plus(x: Tensor) -> Tensor:
    """``log(1 + x)`` for `x` from 0 to 1: twice the area tangent of ``x / (2 + x)``."""
    ratio = divide(x, x + 2)
    square = ratio * ratio
    return (ratio + ratio * square * _polynomial(square, _ATANH)) * 2


def softplus_of(x: Tensor) -> Tensor:
    """``log(1 + exp(x))`` without overflow."""
    return (x > 0).where(x, 0) + _log_1_plus((-x.abs()).exp())


def erf_of(x: Tensor) -> Tensor:
    """Error function: a polynomial below 1.2, beyond it tinygrad's, whose error is absolute."""
    square = x * x
    return (x.abs() < 1.2).where(x * _polynomial(square, _ERF), x.erf())


def tanh(node: OnnxNode, x: Tensor) -> Tensor:
    """Hyperbolic tangent."""
    return tanh_of(wide(x)).cast(x.dtype)


def erf(node: OnnxNode, x: Tensor) -> Tensor:
    """Error function."""
    return erf_of(wide(x)).cast(x.dtype)


def _small_asin(size: Tensor) -> tuple[Tensor, Tensor]:
    """Whether `size` is below 1/2, and the arc sine of it or else of ``sqrt((1 - size) / 2)``."""
    small = size < 0.5
    square = small.where(size * size, (1 - size) / 2)
    root = small.where(size, square.sqrt())
    return small, root + root * square * _polynomial(square, _ASIN)


def asin(node: OnnxNode, x: Tensor) -> Tensor:
    """Arc sine, beyond 1/2 by the half angle."""
    value = wide(x)
    small, angle = _small_asin(value.abs())
    result = small.where(angle, math.pi / 2 - angle * 2)
    return (value < 0).where(-result, (value == 0).where(value, result)).cast(x.dtype)


def acos(node: OnnxNode, x: Tensor) -> Tensor:
    """Arc cosine, which keeps its digits at 1."""
    value = wide(x)
    small, angle = _small_asin(value.abs())
    signed = (value < 0).where(-angle, angle)
    beyond = (value < 0).where(math.pi - angle * 2, angle * 2)
    return small.where(math.pi / 2 - signed, beyond).cast(x.dtype)


def atan(node: OnnxNode, x: Tensor) -> Tensor:
    """Arc tangent: the argument is reduced to below ``tan(pi / 8)``."""
    value = wide(x)
    size = value.abs()
    large, middle = size > 2.41421356, size > 0.41421356
    over = large.where(-1.0, middle.where(size - 1, size))
    reduced = divide(over, large.where(size, middle.where(size + 1, 1.0)))
    square = reduced * reduced
    angle = reduced + reduced * square * _polynomial(square, _ATAN)
    result = large.where(math.pi / 2, middle.where(math.pi / 4, 0.0)) + angle
    return (value < 0).where(-result, (value == 0).where(value, result)).cast(x.dtype)


def cos(node: OnnxNode, x: Tensor) -> Tensor:
    """``sin(pi / 2 - x)``; where the difference would round, ``1 - 2 * sin(x / 2) ** 2``."""
    value = wide(x)
    large = value.abs() > 4
    sine = large.where(value / 2, math.pi / 2 - value).sin()
    return large.where(1 - 2 * sine * sine, sine).cast(x.dtype)


def tan(node: OnnxNode, x: Tensor) -> Tensor:
    """Sine by cosine."""
    return divide(wide(x).sin(), cos(node, wide(x))).cast(x.dtype)
