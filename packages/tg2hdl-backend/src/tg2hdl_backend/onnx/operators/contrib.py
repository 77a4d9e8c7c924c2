"""Operators of ONNX Runtime (domain com.microsoft), which its quantizer and its optimizer write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tinygrad import Tensor
from tinygrad.dtype import dtypes

from tg2hdl_backend.onnx.node import OnnxNode
from tg2hdl_backend.onnx.operators import real_functions
from tg2hdl_backend.onnx.operators.arithmetic import constant, divide, scalar, to_code, wide
from tg2hdl_backend.onnx.operators.convolution import conv, gemm
from tg2hdl_backend.onnx.operators.declared import declared_codes, declared_values, known_quantizer
from tg2hdl_backend.onnx.operators.quantization import (
    Factor,
    _factor,
    _requantized,
    _shifted,
    dynamic_quantize_linear,
    matmul_integer,
)
from tg2hdl_backend.onnx.tensors import sizes_of
from tg2hdl_ir.tensors import Quantizer
from tg2hdl_ir.tensors.roundings import code_sum

__all__ = [
    "dynamic_quantize_matmul",
    "fused_conv",
    "fused_gemm",
    "fused_matmul",
    "matmul_integer_to_float",
    "matmul_n_bits",
    "qgemm",
    "qlinear_add",
    "qlinear_concat",
    "qlinear_global_average_pool",
    "qlinear_leaky_relu",
    "qlinear_mul",
    "qlinear_sigmoid",
    "qlinear_where",
    "quick_gelu",
]

QTensor = tuple[Tensor, Tensor, Tensor | None]


def _real(node: OnnxNode, position: int, x: Tensor, scale: Tensor, zero: Tensor | None) -> Tensor:
    factor: Tensor | float = scalar(node, position + 1, scale)
    value = _shifted(x, scalar(node, position + 2, zero)).cast(dtypes.float32) * factor
    known = 0 if zero is None else node.known(position + 2)
    quantizer = known_quantizer(node, x, node.known(position + 1), known, x.dtype)
    return declared_values(node, value, x, quantizer)


def _code(node: OnnxNode, position: int, x: Tensor, scale: Tensor, zero: Tensor | None) -> Tensor:
    dtype = dtypes.uint8 if zero is None else zero.dtype
    codes = to_code(divide(x, scalar(node, position, scale)), scalar(node, position + 1, zero), dtype)
    known = 0 if zero is None else node.known(position + 1)
    return declared_codes(node, codes, x, known_quantizer(node, x, node.known(position), known, dtype))


def qlinear_add(node: OnnxNode, a: Tensor, *rest: Any) -> Tensor:
    """Sum of dequantized codes, quantized again; of constants with the bits of ONNX Runtime.

    Parameters
    ----------
    node, a, *rest
        The node and its inputs, as ONNX Runtime defines `QLinearAdd`.
    """
    known = [node.known(n) for n, x in enumerate((a, *rest)) if x is not None]
    if all(k is not None for k in known):
        return _constant_sum(node, len(rest) + 1)
    a_scale, a_zero, b, b_scale, b_zero, scale, *zero = rest
    total = _real(node, 0, a, a_scale, a_zero) + _real(node, 3, b, b_scale, b_zero)
    return _code(node, 6, total, scale, zero[0] if zero else None).cast(a.dtype)


def _constant_sum(node: OnnxNode, count: int) -> Tensor:
    """A sum of known codes with one rounding of each product and sum, as ONNX Runtime has."""
    given = [node.known(n) for n in range(count)]
    codes = [np.asarray(given[0]), np.asarray(given[3])]
    scales, zeros = [
        [0 if n >= count or given[n] is None else np.asarray(given[n]).reshape(()).item() for n in positions]
        for positions in ((1, 4, 6), (2, 5, 7))
    ]
    shapes = [c.shape for c in codes]
    found = code_sum(codes, shapes, scales[:2], zeros[:2], scales[2], zeros[2])
    dtype = codes[0].dtype
    limits = np.iinfo(dtype)
    return constant(node, np.clip(found, limits.min, limits.max).astype(dtype))


def qlinear_mul(node: OnnxNode, a: Tensor, *rest: Any) -> Tensor:
    """Product of codes; the zero point is added before the rounding, as ONNX Runtime does.

    Parameters
    ----------
    node, a, *rest
        The node and its inputs, as ONNX Runtime defines `QLinearMul`.
    """
    a_scale, a_zero, b, b_scale, b_zero, scale, *zero = rest
    product = _shifted(a, scalar(node, 2, a_zero)) * _shifted(b, scalar(node, 5, b_zero))
    factor = _factor(node, (1, 4, 6), (a_scale, b_scale, scale), (-1,))
    scaled = product.cast(dtypes.float32) * factor.tensor
    declared_values(node, scaled, product, factor.quantizer)
    offset = scalar(node, 7, zero[0]) if zero else 0
    if isinstance(offset, Tensor):
        offset = offset.cast(dtypes.float32)
    moved = scaled + offset
    return declared_codes(
        node, to_code(moved, 0, a.dtype), moved, known_quantizer(node, moved, 1.0, 0, a.dtype)
    )


def qgemm(node: OnnxNode, a: Tensor, a_scale: Tensor, a_zero: Tensor, b: Tensor, *rest: Any) -> Tensor:
    """Gemm of codes with an int32 bias: requantized, or float without an output scale.

    Parameters
    ----------
    node, a, a_scale, a_zero, b, *rest
        The node and its inputs, as ONNX Runtime defines `QGemm`.
    """
    b_scale, b_zero, bias, y_scale, y_zero, *_ = (*rest, None, None, None)
    if node.attribute("alpha", 1.0) != 1.0:
        raise node.unsupported("alpha other than 1", "fold it into a scale")
    left, right = _shifted(a, scalar(node, 2, a_zero)), _shifted(b, scalar(node, 5, b_zero))
    left = left.transpose(0, 1) if node.attribute("transA", 0) else left
    if node.attribute("transB", 0):
        right = _shifted(b, _rows(scalar(node, 5, b_zero))).transpose(0, 1)
    total = left.matmul(right, dtype=dtypes.int32)
    total = total if bias is None else total + bias
    if y_scale is None:
        scales: Tensor = a_scale * b_scale
        return total.cast(dtypes.float32) * scales
    factor = _factor(node, (1, 4, 7), (a_scale, b_scale, y_scale), (1, -1))
    return _requantized(node, total, factor, 8, y_zero)


def _rows(zero: Any) -> Any:
    return zero.unsqueeze(-1) if isinstance(zero, Tensor) and zero.ndim == 1 else zero


def _table(node: OnnxNode, x: Tensor, function: Callable[[Any], Any], given: tuple[Any, ...]) -> Tensor:
    """One result per code, in a table: the scales are known."""
    known = [node.known(p) for p in (1, 2, 3, 4)]
    x_scale, y_scale = known[0], known[2]
    if x_scale is None or y_scale is None:
        raise node.unsupported("a scale that depends on data", "make scales and zero points initializers")
    dtype = np.int8 if x.dtype == dtypes.int8 else np.uint8
    codes = np.arange(256).astype(np.uint8).view(dtype).astype(np.float32)
    zero = [np.float32(0 if k is None else k.reshape(()).item()) for k in (known[1], known[3])]
    values = function((codes - zero[0]) * np.float32(x_scale.reshape(()).item()))
    limits = np.iinfo(dtype)
    result = np.rint(values / np.float32(y_scale.reshape(()).item())) + zero[1]
    table = constant(node, np.clip(result, limits.min, limits.max).astype(dtype))
    return table[x.bitcast(dtypes.uint8).cast(dtypes.int32)]


def qlinear_sigmoid(node: OnnxNode, x: Tensor, *given: Any) -> Tensor:
    """Sigmoid of codes from a table of 256.

    Parameters
    ----------
    node, x, *given
        The node and its inputs, as ONNX Runtime defines `QLinearSigmoid`.
    """
    return _table(node, x, lambda v: 1 / (1 + np.exp(-v)), given)


def qlinear_leaky_relu(node: OnnxNode, x: Tensor, *given: Any) -> Tensor:
    """Leaky ReLU of codes from a table of 256.

    Parameters
    ----------
    node, x, *given
        The node and its inputs, as ONNX Runtime defines `QLinearLeakyRelu`.
    """
    alpha = np.float32(node.attribute("alpha", 0.01))
    return _table(node, x, lambda v: np.where(v >= 0, v, alpha * v), given)


def qlinear_global_average_pool(node: OnnxNode, x: Tensor, *given: Any) -> Tensor:
    """Mean over the image, requantized by one factor.

    Parameters
    ----------
    node, x, *given
        The node and its inputs, as ONNX Runtime defines `QLinearGlobalAveragePool`.
    """
    x_scale, x_zero, y_scale, y_zero = given
    axes = tuple(range(1, x.ndim - 1)) if node.attribute("channels_last", 0) else tuple(range(2, x.ndim))
    total = _shifted(x, scalar(node, 2, x_zero)).sum(axes, keepdim=True)
    count = np.float32(np.prod([sizes_of(x)[a] for a in axes]))
    known = node.known(1), node.known(3)
    if known[0] is None or known[1] is None:
        return _requantized(node, total, Factor(divide(x_scale, y_scale * float(count)), None), 4, y_zero)
    number = (known[0] / (known[1] * count)).astype(np.float32).reshape(())
    limits = (dtypes.int32.min, dtypes.int32.max)
    steps = Quantizer(number, np.zeros((), np.int64), *limits) if number > 0 else None
    return _requantized(node, total, Factor(float(number), steps), 4, y_zero)


def qlinear_concat(node: OnnxNode, y_scale: Tensor, y_zero: Tensor, *parts: Any) -> Tensor:
    """Codes of several scales, joined in one.

    Parameters
    ----------
    node, y_scale, y_zero, *parts
        The node and its inputs, as ONNX Runtime defines `QLinearConcat`.
    """
    joined = []
    for n in range(0, len(parts), 3):
        real = _real(node, n + 2, parts[n], parts[n + 1], parts[n + 2])
        joined.append(_code(node, 0, real, y_scale, y_zero))
    return joined[0].cat(*joined[1:], dim=node.attribute("axis"))


def qlinear_where(node: OnnxNode, condition: Tensor, *given: Any) -> Tensor:
    """Codes of two scales, chosen by a condition.

    Parameters
    ----------
    node, condition, *given
        The node and its inputs, as ONNX Runtime defines `QLinearWhere`.
    """
    x, x_scale, x_zero, y, y_scale, y_zero, scale, zero = given
    one = _code(node, 7, _real(node, 1, x, x_scale, x_zero), scale, zero)
    return condition.where(one, _code(node, 7, _real(node, 4, y, y_scale, y_zero), scale, zero))


def matmul_integer_to_float(node: OnnxNode, a: Tensor, b: Tensor, *given: Any) -> Tensor:
    """Product of codes times both scales, in float.

    Parameters
    ----------
    node, a, b, *given
        The node and its inputs, as ONNX Runtime defines `MatMulIntegerToFloat`.
    """
    a_scale, b_scale, a_zero, b_zero, bias = (*given, None, None, None)[:5]
    zeros = OnnxNode(
        node.op_type,
        node.domain,
        node.version,
        node.name,
        node.attributes,
        node.outputs,
        [*node.known_inputs[:2], *node.known_inputs[4:6]],
    )
    scales: Tensor = a_scale * b_scale
    total = matmul_integer(zeros, a, b, a_zero, b_zero).cast(dtypes.float32) * scales
    return total if bias is None else total + bias


def dynamic_quantize_matmul(node: OnnxNode, a: Tensor, b: Tensor, *given: Any) -> Tensor:
    """Product with codes of `a` whose scale is found from the data.

    Parameters
    ----------
    node, a, b, *given
        The node and its inputs, as ONNX Runtime defines `DynamicQuantizeMatMul`.
    """
    b_scale, b_zero, bias = (*given, None, None)[:3]
    codes, scale, zero = dynamic_quantize_linear(node, a)
    total = _shifted(codes, zero).matmul(_shifted(b, scalar(node, 3, b_zero)), dtype=dtypes.int32)
    result: Tensor = total.cast(dtypes.float32) * (scale * b_scale)
    return result if bias is None else result + bias


def quick_gelu(node: OnnxNode, x: Tensor) -> Tensor:
    """``x * sigmoid(alpha * x)``.

    Parameters
    ----------
    node, x
        The node and its inputs, as ONNX Runtime defines `QuickGelu`.
    """
    alpha: float = node.attribute("alpha", 1.702)
    return x * (x * alpha).sigmoid()


def fused_matmul(node: OnnxNode, a: Tensor, b: Tensor) -> Tensor:
    """Matrix product of transposed factors, scaled.

    Parameters
    ----------
    node, a, b
        The node and its inputs, as ONNX Runtime defines `FusedMatMul`.
    """
    if node.attribute("transBatchA", 0) or node.attribute("transBatchB", 0):
        raise node.unsupported("transBatchA or transBatchB", "transpose the input")
    left = a.transpose(-2, -1) if node.attribute("transA", 0) else a
    right = b.transpose(-2, -1) if node.attribute("transB", 0) else b
    alpha: float = node.attribute("alpha", 1.0)
    return left @ right if alpha == 1 else (left @ right) * alpha


def _activated(node: OnnxNode, x: Tensor, prefix: str) -> Tensor:
    """The activation that ONNX Runtime's optimizer has fused into a node."""
    kind = node.attribute("activation", "")
    given = node.attribute("activation_params") or []
    alpha = node.attribute(f"{prefix}alpha", given[0] if given else 0.01)
    known: dict[str, Callable[[], Tensor]] = {
        "": lambda: x,
        "Relu": x.relu,
        "Sigmoid": x.sigmoid,
        "Tanh": lambda: real_functions.tanh(x),
        "LeakyRelu": lambda: (x < 0).where(x * alpha, x),
    }
    if kind == "Clip" and len(given) == 2:
        return x.clamp(given[0], given[1])
    if kind not in known:
        raise node.unsupported(f"activation {kind}", "export before ONNX Runtime's optimization")
    return known[kind]()


def fused_gemm(node: OnnxNode, a: Tensor, b: Tensor, c: Tensor | None = None) -> Tensor:
    """Gemm and an activation.

    Parameters
    ----------
    node, a, b, c
        The node and its inputs, as ONNX Runtime defines `FusedGemm`.
    """
    return _activated(node, gemm(node, a, b, c), "activation_")


def fused_conv(
    node: OnnxNode, x: Tensor, w: Tensor, bias: Tensor | None = None, added: Tensor | None = None
) -> Tensor:
    """Convolution, an addition and an activation.

    Parameters
    ----------
    node, x, w, bias, added
        The node and its inputs, as ONNX Runtime defines `FusedConv`.
    """
    result = conv(node, x, w, bias)
    return _activated(node, result if added is None else result + added, "activation_")


def matmul_n_bits(node: OnnxNode, a: Tensor, b: Tensor, scales: Tensor, *given: Any) -> Tensor:
    """Product with weights of 2, 4 or 8 bits in blocks that have a scale, and perhaps a zero point, each.

    Parameters
    ----------
    node, a, b, scales, *given
        The node and its inputs, as ONNX Runtime defines `MatMulNBits`.
    """
    zeros, groups, bias = (*given, None, None, None)[:3]
    bits, size = node.attribute("bits", 4), node.attribute("block_size")
    rows, columns = node.attribute("N"), node.attribute("K")
    packed, steps = node.known(1), node.known(2)
    if packed is None or steps is None or (zeros is not None and node.known(3) is None):
        raise node.unsupported(
            "weights that depend on data", "make weights, scales and zero points initializers"
        )
    if bits not in (2, 4, 8) or groups is not None:
        raise node.unsupported("a permutation of groups, or codes of odd width", "quantize without g_idx")
    blocks = -(-columns // size)
    codes = _unpacked(packed.reshape(rows, blocks, -1), bits)[:, :, :size].astype(np.float32)
    offset = np.full((rows, blocks, 1), 2.0 ** (bits - 1), np.float32)
    known = node.known(3) if zeros is not None else None
    if known is not None and known.dtype == np.uint8:
        offset = _unpacked(known.reshape(rows, 1, -1), bits)[:, 0, :blocks, None].astype(np.float32)
    elif known is not None:
        offset = known.reshape(rows, blocks, 1).astype(np.float32)
    matrix = ((codes - offset) * steps.reshape(rows, blocks, 1).astype(np.float32)).reshape(rows, -1)
    matrix = np.ascontiguousarray(matrix[:, :columns].T)
    result = wide(a).matmul(constant(node, matrix))
    return (result if bias is None else result + wide(bias)).cast(a.dtype)


def _unpacked(packed: Any, bits: int) -> Any:
    """Codes of bytes, the lowest bits first, along the last axis."""
    shifts = np.arange(0, 8, bits)
    codes = (packed[..., None] >> shifts) & (2**bits - 1)
    return codes.reshape(*packed.shape[:-1], -1)
