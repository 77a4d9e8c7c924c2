"""Transcendental operators, computed in float32: tinygrad's definitions cancel near zero or overflow."""

from __future__ import annotations

import math
from collections.abc import Callable

from tinygrad import Tensor

from tg2hdl_backend.onnx.node import OnnxNode
from tg2hdl_backend.onnx.operators import real_functions
from tg2hdl_backend.onnx.operators.arithmetic import divide, wide

__all__ = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "bias_gelu",
    "celu",
    "cos",
    "cosh",
    "elu",
    "erf",
    "exp",
    "fast_gelu",
    "gelu",
    "mish",
    "selu",
    "sinh",
    "softplus",
    "tan",
    "tanh",
]


def _operator(function: Callable[[Tensor], Tensor]) -> Callable[[OnnxNode, Tensor], Tensor]:
    """Operator of one input; half is computed in float32."""
    return lambda node, x: function(wide(x)).cast(x.dtype)


acos = _operator(real_functions.acos)
acosh = _operator(real_functions.acosh)
asin = _operator(real_functions.asin)
asinh = _operator(real_functions.asinh)
atan = _operator(real_functions.atan)
atanh = _operator(real_functions.atanh)
cosh = _operator(real_functions.cosh)
erf = _operator(real_functions.erf)
exp = _operator(real_functions.exp)
mish = _operator(real_functions.mish)
sinh = _operator(real_functions.sinh)
softplus = _operator(real_functions.softplus)
tanh = _operator(real_functions.tanh)


_QUARTER_ROUNDING = 4.371139e-08
"""How much the float32 nearest to pi / 2 is too large."""


def cos(node: OnnxNode, x: Tensor) -> Tensor:
    """``sin(pi / 2 - abs(x))``; where the difference would round, ``1 - 2 * sin(x / 2) ** 2``.

    Parameters
    ----------
    node, x
        The node and its inputs, as ONNX defines `Cos`.
    """
    size = wide(x).abs()
    large = size > 3
    sine = large.where(size / 2, math.pi / 2 - size).sin()
    # At pi / 2, where the cosine is small, the constant's rounding counts in full; at 0 it must not count.
    small = sine - size * (_QUARTER_ROUNDING * 2 / math.pi)
    return large.where(1 - 2 * sine * sine, small).cast(x.dtype)


def tan(node: OnnxNode, x: Tensor) -> Tensor:
    """sin(x) / cos(x).

    Parameters
    ----------
    node, x
        The node and its inputs, as ONNX defines `Tan`.
    """
    return divide(wide(x).sin(), cos(node, wide(x))).cast(x.dtype)


def celu(node: OnnxNode, x: Tensor) -> Tensor:
    """``alpha * (exp(x / alpha) - 1)`` for negative numbers; the sum of two parts, so that -0 becomes 0.

    Parameters
    ----------
    node, x
        The node and its inputs, as ONNX defines `Celu`.
    """
    alpha: float = node.attribute("alpha", 1.0)
    value = wide(x)
    found = (value < 0).where(alpha * real_functions.expm1(value / alpha), value)
    return (x == 0).where(0, found.cast(x.dtype))


def elu(node: OnnxNode, x: Tensor) -> Tensor:
    """``alpha * (exp(x) - 1)`` for negative numbers.

    Parameters
    ----------
    node, x
        The node and its inputs, as ONNX defines `Elu`.
    """
    return real_functions.elu(wide(x), node.attribute("alpha", 1.0)).cast(x.dtype)


def selu(node: OnnxNode, x: Tensor) -> Tensor:
    """ELU with ONNX's constants, which have more digits than tinygrad's.

    Parameters
    ----------
    node, x
        The node and its inputs, as ONNX defines `Selu`.
    """
    gamma: float = node.attribute("gamma", 1.05070102214813232421875)
    value = real_functions.elu(wide(x), node.attribute("alpha", 1.67326319217681884765625))
    return (x == 0).where(0, (value * gamma).cast(x.dtype))


def gelu(node: OnnxNode, x: Tensor) -> Tensor:
    """``x`` times the normal distribution of `x`, or its approximation by tanh.

    Parameters
    ----------
    node, x
        The node and its inputs, as ONNX defines `Gelu`.
    """
    return real_functions.gelu(wide(x), node.attribute("approximate", "none") == "tanh").cast(x.dtype)


def bias_gelu(node: OnnxNode, x: Tensor, bias: Tensor) -> Tensor:
    """Gelu of a sum.

    Parameters
    ----------
    node, x, bias
        The node and its inputs, as ONNX Runtime defines `BiasGelu`.
    """
    return gelu(node, x + bias)


def fast_gelu(node: OnnxNode, x: Tensor, bias: Tensor | None = None) -> Tensor:
    """Approximation of Gelu by tanh, perhaps of a sum.

    Parameters
    ----------
    node, x, bias
        The node and its inputs, as ONNX Runtime defines `FastGelu`.
    """
    return real_functions.gelu(wide(x if bias is None else x + bias), True).cast(x.dtype)
