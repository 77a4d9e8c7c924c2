"""Functions whose definitions in tinygrad overflow or cancel for large or small arguments."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tinygrad import Tensor

from tg2hdl_backend.onnx.node import OnnxNode
from tg2hdl_backend.onnx.operators.arithmetic import divide, wide

__all__ = ["acosh", "asinh", "atan", "atanh", "cos", "cosh", "sinh", "tan"]

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


def atan(node: OnnxNode, x: Tensor) -> Tensor:
    """Arc tangent, beyond 1 by that of the reciprocal."""
    value = wide(x)
    beyond = value.abs() > 1
    inner = beyond.where(value.reciprocal(), value).atan()
    return beyond.where((value > 0).where(math.pi / 2, -math.pi / 2) - inner, inner).cast(x.dtype)


def cos(node: OnnxNode, x: Tensor) -> Tensor:
    """``sin(pi / 2 - x)``; where the difference would round, ``1 - 2 * sin(x / 2) ** 2``."""
    value = wide(x)
    large = value.abs() > 4
    sine = large.where(value / 2, math.pi / 2 - value).sin()
    return large.where(1 - 2 * sine * sine, sine).cast(x.dtype)


def tan(node: OnnxNode, x: Tensor) -> Tensor:
    """Sine by cosine."""
    return divide(wide(x).sin(), cos(node, wide(x))).cast(x.dtype)
