"""Quantizers of operators whose scales are known when the model is compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from tinygrad import Tensor
from tinygrad.dtype import dtypes

from tg2hdl_backend.onnx.node import OnnxNode
from tg2hdl_backend.tinygrad_adapter.quantizers import (
    are_finite,
    declaration_of,
    declare_codes,
    declare_values,
)
from tg2hdl_ir.tensors import Quantizer

__all__ = ["declared_codes", "declared_values", "finite_bound", "known_quantizer"]


def finite_bound(x: Tensor) -> float | None:
    """Largest finite number of a float type; None for integers, and where numbers are finite.

    They are behind quantizers, which bound them, and in a model that is read to be quantized.
    """
    if (
        not dtypes.is_float(x.dtype)
        or are_finite()
        or any(declaration_of(u) is not None for u in x.uop.toposort())
    ):
        return None
    exponent, significand = dtypes.finfo(x.dtype)
    return float((2 - 2.0**-significand) * 2.0 ** (2 ** (exponent - 1) - 1))


def known_quantizer(node: OnnxNode, x: Tensor, scale: Any, zero: Any, dtype: Any) -> Quantizer | None:
    """The quantizer of a tensor like `x`; None for a scale for each block, or a value that depends on data.

    Parameters
    ----------
    scale, zero : ndarray, number or None
        Their values; None where they depend on data.
    dtype : tinygrad dtype
        Type of the codes.
    """
    if scale is None or zero is None:
        node.stays_float(f"its {'scale' if scale is None else 'zero point'} is computed from inputs")
        return None
    if node.attribute("block_size", 0):
        node.stays_float("a scale for each block")
        return None
    if np.asarray(scale).dtype not in (np.float32, np.float64):
        node.stays_float(f"it computes in {np.asarray(scale).dtype}")
        return None
    axis = node.attribute("axis", 1) % max(x.ndim, 1)

    def spread(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if array.size == 1:
            return array.reshape(())
        return array.reshape([-1 if n == axis else 1 for n in range(x.ndim)]) if array.ndim == 1 else array

    steps = spread(np.asarray(scale, np.float32))
    if not np.all(np.isfinite(steps)) or np.any(steps <= 0):
        node.stays_float("its scale is not positive")
        return None
    return Quantizer(steps, spread(np.asarray(zero).astype(np.int64)), int(dtype.min), int(dtype.max))


def declared_codes(node: OnnxNode, result: Tensor, source: Tensor, quantizer: Quantizer | None) -> Tensor:
    """`result`, declared to be codes of `source` where the quantizer is known.

    Parameters
    ----------
    node : OnnxNode
    result : Tensor
    source : Tensor
    quantizer : Quantizer or None
        None where it depends on data: nothing is declared.
    """
    return result if quantizer is None else declare_codes(result, source, quantizer, node.name)


def declared_values(node: OnnxNode, result: Tensor, source: Tensor, quantizer: Quantizer | None) -> Tensor:
    """`result`, declared to be the values of the codes `source` where the quantizer is known.

    Parameters
    ----------
    node : OnnxNode
    result : Tensor
    source : Tensor
    quantizer : Quantizer or None
        None where it depends on data: nothing is declared.
    """
    return result if quantizer is None else declare_values(result, source, quantizer, node.name)
