"""Elementwise operators that tinygrad's importer lacks, or computes differently at special values."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
from tinygrad import Tensor
from tinygrad.dtype import dtypes

from tg2hdl_backend.onnx.node import OnnxNode
from tg2hdl_backend.onnx.operators.arithmetic import divide, wide
from tg2hdl_backend.onnx.operators.declared import finite_bound
from tg2hdl_backend.onnx.tensors import sizes_of, to_dtype

__all__ = [
    "absolute",
    "bit_cast",
    "bit_shift",
    "cast",
    "cast_like",
    "clip",
    "cum_prod",
    "dropout",
    "hard_swish",
    "hardmax",
    "hardmax_flat",
    "largest",
    "log_softmax",
    "log_softmax_flat",
    "lp_normalization",
    "mod",
    "p_relu",
    "relu",
    "rounded",
    "shrink",
    "sign",
    "smallest",
    "softmax",
    "softmax_flat",
]


_BITS = {2: dtypes.uint16, 4: dtypes.uint32, 8: dtypes.uint64}


def _with_sign(x: Tensor, sign: Tensor | None) -> Tensor:
    """`x` with the sign bit of `sign`, or a positive one without it; zeros have a sign too."""
    bits = _BITS[x.dtype.itemsize]
    mask = 1 << 8 * x.dtype.itemsize - 1
    found = x.bitcast(bits) & (mask - 1)
    return (found if sign is None else found | (sign.bitcast(bits) & mask)).bitcast(x.dtype)


def absolute(node: OnnxNode, x: Tensor) -> Tensor:
    """Magnitude; of a zero too, whose sign tinygrad keeps.

    Parameters
    ----------
    node, x
        The node and its inputs, as ONNX defines `Abs`.
    """
    return _with_sign(x, None) if dtypes.is_float(x.dtype) else x.abs()


def rounded(node: OnnxNode, x: Tensor) -> Tensor:
    """Nearest whole number, the even one of two; a zero has the sign of `x`.

    Parameters
    ----------
    node, x
        The node and its inputs, as ONNX defines `Round`.
    """
    return _with_sign(x.round(), x)


def bit_shift(node: OnnxNode, x: Tensor, amount: Tensor) -> Tensor:
    """Shift by amounts that may depend on data, also by the width and more.

    Parameters
    ----------
    node, x, amount
        The node and its inputs, as ONNX defines `BitShift`.
    """
    bits = x.dtype.itemsize * 8
    small = amount < bits
    left = node.attribute("direction") == "LEFT"
    # Beyond the last bit the result is zero, or the sign.
    signed = not left and not dtypes.is_unsigned(x.dtype)
    by = small.where(amount, amount.const_like(bits - 1 if signed else 0)).cast(x.dtype)
    shifted = x.lshift(by) if left else x.rshift(by)
    return shifted if signed else small.where(shifted, shifted.const_like(0))


def bit_cast(node: OnnxNode, x: Tensor) -> Tensor:
    """The same bits as another type of the same width.

    Parameters
    ----------
    node, x
        The node and its inputs, as ONNX defines `BitCast`.
    """
    return x.bitcast(to_dtype(node.attribute("to"), node.where))


def _converted(node: OnnxNode, x: Tensor, dtype: Any) -> Tensor:
    if x.dtype == dtype:
        return x
    if dtype.name.startswith("float8"):
        return _to_fp8(node, x, dtype)
    return (x != 0) if dtype == dtypes.bool else x.cast(dtype)


def _to_fp8(node: OnnxNode, x: Tensor, dtype: Any) -> Tensor:
    """FP8 that saturates, infinities included; NaN stays."""
    limit = {"float8_e4m3": 448.0, "float8_e5m2": 57344.0}[dtype.name]
    if not node.attribute("saturate", 1):
        raise node.unsupported("FP8 without saturation", "export with saturate=1")
    real = x.cast(dtypes.float32)
    return real.maximum(-limit).minimum(limit).cast(dtype)


def cast(node: OnnxNode, x: Tensor) -> Tensor:
    """Conversion to a type.

    Parameters
    ----------
    node, x
        The node and its inputs, as ONNX defines `Cast`.
    """
    return _converted(node, x, to_dtype(node.attribute("to"), node.where))


def cast_like(node: OnnxNode, x: Tensor, like: Tensor) -> Tensor:
    """Conversion to the type of another tensor.

    Parameters
    ----------
    node, x, like
        The node and its inputs, as ONNX defines `CastLike`.
    """
    return _converted(node, x, like.dtype)


def _parts(size: Tensor) -> tuple[Tensor, Tensor]:
    """Integer significand and exponent field, from 1 on, of a float32 without its sign."""
    bits = size.bitcast(dtypes.uint32)
    field = (bits >> 23).cast(dtypes.int32)
    significand = (bits & 0x7FFFFF) + (field > 0).where(1 << 23, 0).cast(dtypes.uint32)
    return significand.cast(dtypes.uint64), field.maximum(1)


def _power_of_two(exponent: Tensor) -> Tensor:
    return ((exponent + 127) << 23).bitcast(dtypes.float32)


def _exact_remainder(a: Tensor, b: Tensor) -> Tensor:
    """``fmod`` of float32 without their signs: a long division of significands, 40 bits at a time."""
    (rest, over), (divisor, under) = _parts(a), _parts(b)
    left = over - under
    rest = rest % divisor.maximum(1)
    for _ in range(7):
        step = left.maximum(0).minimum(40)
        rest = (rest << step.cast(dtypes.uint64)) % divisor.maximum(1)
        left = left - step
    exponent = under - 150
    first = exponent.maximum(-126)
    scaled = rest.cast(dtypes.float32) * _power_of_two(first) * _power_of_two(exponent - first)
    finite = (a < b).where(a, scaled)
    return (a.isnan() | b.isnan() | a.isinf() | (b == 0)).where(float("nan"), finite)


def mod(node: OnnxNode, a: Tensor, b: Tensor) -> Tensor:
    """Remainder with the sign of the divisor, or of the dividend with fmod=1; exact.

    Parameters
    ----------
    node, a, b
        The node and its inputs, as ONNX defines `Mod`.
    """
    if not dtypes.is_float(a.dtype):
        return a.fmod(b) if node.attribute("fmod", 0) else a % b
    if a.dtype == dtypes.float64:
        raise node.unsupported("an exact remainder of float64", "cast both operands to float")
    dividend, divisor = wide(a)._broadcasted(wide(b))
    size = _exact_remainder(dividend.abs(), divisor.abs())
    rest = (dividend < 0).where(-size, size)
    if not node.attribute("fmod", 0):
        opposite = (rest != 0) & ((rest < 0) != (divisor < 0))
        rest = opposite.where(rest + divisor, rest)
    return rest.cast(a.dtype)


def relu(node: OnnxNode, x: Tensor) -> Tensor:
    """Zero for negative numbers; NaN stays, which tinygrad's own makes zero.

    Parameters
    ----------
    node, x
        The node and its inputs, as ONNX defines `Relu`.
    """
    result: Tensor = (x < 0).where(0, x)
    return result


def sign(node: OnnxNode, x: Tensor) -> Tensor:
    """-1, 0 or 1; NaN stays.

    Parameters
    ----------
    node, x
        The node and its inputs, as ONNX defines `Sign`.
    """
    sign: Tensor = x.sign()
    return x.isnan().where(x, sign) if dtypes.is_float(x.dtype) else sign


def largest(node: OnnxNode, *inputs: Tensor) -> Tensor:
    """Largest of the inputs, the last of equal ones, as ONNX Runtime; NaN if one is."""
    return reduce(
        lambda a, b: ((b < a) | (a != a)).where(a, b) if dtypes.is_float(a.dtype) else a.maximum(b), inputs
    )


def smallest(node: OnnxNode, *inputs: Tensor) -> Tensor:
    """Smallest of the inputs, the last of equal ones, as ONNX Runtime; NaN if one is."""
    return reduce(
        lambda a, b: ((a < b) | (a != a)).where(a, b) if dtypes.is_float(a.dtype) else a.minimum(b), inputs
    )


def p_relu(node: OnnxNode, x: Tensor, slope: Tensor) -> Tensor:
    """Negative numbers times a slope, which may be infinite or NaN: a zero stays.

    Parameters
    ----------
    node, x, slope
        The node and its inputs, as ONNX defines `PRelu`.
    """
    return (x < 0).where(x * slope, x)


def clip(node: OnnxNode, x: Tensor, low: Any = None, high: Any = None) -> Tensor:
    """Between two numbers, otherwise the largest finite ones; NaN stays.

    Parameters
    ----------
    node, x, low, high
        The node and its inputs, as ONNX defines `Clip`.
    """
    if node.version < 11:
        low, high = node.attribute("min"), node.attribute("max")
    bound = finite_bound(x)
    if bound is not None:
        low, high = (b if v is None else v for v, b in ((low, -bound), (high, bound)))
    return x if low is None and high is None else x.clip(low, high)


def hard_swish(node: OnnxNode, x: Tensor) -> Tensor:
    """``x * clip(x / 6 + 1 / 2, 0, 1)``.

    Parameters
    ----------
    node, x
        The node and its inputs, as ONNX defines `HardSwish`.
    """
    return (wide(x) * (wide(x) * (1 / 6) + 0.5).clamp(0, 1)).cast(x.dtype)


def shrink(node: OnnxNode, x: Tensor) -> Tensor:
    """Zero near zero, elsewhere moved by the bias.

    Parameters
    ----------
    node, x
        The node and its inputs, as ONNX defines `Shrink`.
    """
    bias: float = node.attribute("bias", 0.0)
    limit: float = node.attribute("lambd", 0.5)
    return (x < -limit).where(x + bias, (x > limit).where(x - bias, 0)).cast(x.dtype)


def lp_normalization(node: OnnxNode, x: Tensor) -> Tensor:
    """Divided by the p-norm; a norm of zero gives zero.

    Parameters
    ----------
    node, x
        The node and its inputs, as ONNX defines `LpNormalization`.
    """
    axis, p = node.attribute("axis", -1), node.attribute("p", 2)
    norm = x.abs().sum(axis, keepdim=True) if p == 1 else x.square().sum(axis, keepdim=True).sqrt()
    zero: Tensor = norm == 0
    return zero.where(0.0, divide(x, norm)).cast(x.dtype)


def cum_prod(node: OnnxNode, x: Tensor, axis: Any) -> Tensor:
    """Running product.

    Parameters
    ----------
    node, x, axis
        The node and its inputs, as ONNX defines `CumProd`.
    """
    at = int(np.asarray(axis).reshape(())) % x.ndim
    x = x.flip(at) if node.attribute("reverse", 0) else x
    dtype = x.dtype
    if node.attribute("exclusive", 0):
        ones = x.const_like(1).shrink(tuple((0, 1) if n == at else (0, s) for n, s in enumerate(x.shape)))
        x = ones.cat(x.shrink(tuple((0, s - (n == at)) for n, s in enumerate(x.shape))), dim=at)
    result = x.cumprod(at).cast(dtype)
    return result.flip(at) if node.attribute("reverse", 0) else result


def softmax(node: OnnxNode, x: Tensor) -> Tensor:
    """Softmax along an axis; half is computed in float32.

    Parameters
    ----------
    node, x
        The node and its inputs, as ONNX defines `Softmax`.
    """
    return wide(x).softmax(node.attribute("axis", -1)).cast(x.dtype)


def _rows(node: OnnxNode, x: Tensor) -> Tensor:
    axis = node.attribute("axis", 1) % x.ndim
    return x.reshape(int(np.prod(sizes_of(x)[:axis], dtype=np.int64)), -1)


def softmax_flat(node: OnnxNode, x: Tensor) -> Tensor:
    """Softmax over all axes from `axis` on, as before version 13.

    Parameters
    ----------
    node, x
        The node and its inputs, as ONNX defines `Softmax`.
    """
    return wide(_rows(node, x)).softmax(1).cast(x.dtype).reshape(x.shape)


def log_softmax_flat(node: OnnxNode, x: Tensor) -> Tensor:
    """Logarithm of the softmax over all axes from `axis` on, as before version 13.

    Parameters
    ----------
    node, x
        The node and its inputs, as ONNX defines `LogSoftmax`.
    """
    return wide(_rows(node, x)).log_softmax(1).cast(x.dtype).reshape(x.shape)


def log_softmax(node: OnnxNode, x: Tensor) -> Tensor:
    """Logarithm of the softmax along an axis.

    Parameters
    ----------
    node, x
        The node and its inputs, as ONNX defines `LogSoftmax`.
    """
    return wide(x).log_softmax(node.attribute("axis", -1)).cast(x.dtype)


def _first_largest(x: Tensor, axis: int) -> Tensor:
    places = Tensor.arange(x.shape[axis]).reshape([-1 if n == axis else 1 for n in range(x.ndim)])
    return (places == x.argmax(axis, keepdim=True)).cast(x.dtype)


def hardmax(node: OnnxNode, x: Tensor) -> Tensor:
    """One at the first largest element along an axis.

    Parameters
    ----------
    node, x
        The node and its inputs, as ONNX defines `Hardmax`.
    """
    return _first_largest(x, node.attribute("axis", -1) % x.ndim)


def hardmax_flat(node: OnnxNode, x: Tensor) -> Tensor:
    """One at the first largest element over all axes from `axis` on, as before version 13.

    Parameters
    ----------
    node, x
        The node and its inputs, as ONNX defines `Hardmax`.
    """
    return _first_largest(_rows(node, x), 1).reshape(x.shape)


def dropout(node: OnnxNode, x: Tensor, ratio: Tensor | None = None, training: Any = None) -> Any:
    """Identity, which it is outside of training.

    Parameters
    ----------
    node, x, ratio, training
        The node and its inputs, as ONNX defines `Dropout`.
    """
    active = bool(np.asarray(training).any()) if training is not None else False
    active |= node.version < 7 and not node.attribute("is_test", 0)
    if active:
        raise node.unsupported("training mode needs random numbers", "export the model in evaluation mode")
    # Before version 12 the mask of a model in use is empty, as ONNX Runtime has it.
    return x, x.const_like(node.version >= 12).cast(dtypes.bool)
