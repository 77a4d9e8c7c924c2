"""Determinants, and Fourier transforms as products with constant matrices."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from tinygrad import Tensor
from tinygrad.dtype import dtypes

from tg2hdl_backend.onnx.node import OnnxNode
from tg2hdl_backend.onnx.operators.arithmetic import constant, wide
from tg2hdl_backend.onnx.tensors import sizes_of

__all__ = ["det", "dft", "dft_17", "stft"]

_LARGEST_DETERMINANT = 6


def det(node: OnnxNode, x: Tensor) -> Tensor:
    """Determinant by minors of growing size, without a division.

    Parameters
    ----------
    node, x
        The node and its inputs, as ONNX defines `Det`.
    """
    size = sizes_of(x)[-1]
    if size > _LARGEST_DETERMINANT:
        raise node.unsupported(
            f"a matrix of {size} x {size}, of at most {_LARGEST_DETERMINANT}", "compute it on the host"
        )
    value = wide(x)
    minors: dict[tuple[int, ...], Tensor] = {(c,): value[..., 0, c] for c in range(size)}
    for row in range(1, size):
        found = {}
        for columns in combinations(range(size), row + 1):
            total: Tensor | None = None
            for n, column in enumerate(columns):
                term = value[..., row, column] * minors[columns[:n] + columns[n + 1 :]]
                term = term if (row + n) % 2 == 0 else -term
                total = term if total is None else total + term
            assert total is not None
            # Larger minors read it several times.
            found[columns] = total.contiguous()
        minors = found
    return minors[tuple(range(size))].cast(x.dtype)


def _waves(node: OnnxNode, length: int, bins: int, dtype: Any) -> tuple[Tensor, Tensor]:
    """Cosines and sines, of shape (length // 2 + 1, bins)."""
    turns = np.outer(np.arange(length // 2 + 1), np.arange(bins)) % length
    angles = 2 * np.pi * turns / length
    kind = np.float64 if dtype == dtypes.float64 else np.float32
    return constant(node, np.cos(angles).astype(kind)), constant(node, np.sin(angles).astype(kind))


def _folded(x: Tensor) -> tuple[Tensor, Tensor]:
    """Sums and differences of the elements that share a wave, which halves the products."""
    length = sizes_of(x)[-1]
    whole = (length - 1) // 2
    first, inner = x[..., :1], x[..., 1 : 1 + whole]
    mirrored = x[..., length - whole :].flip(-1)
    middle = [x[..., length // 2 : length // 2 + 1]] if length % 2 == 0 else []
    even = first.cat(inner + mirrored, *middle, dim=-1) if whole else first.cat(*middle, dim=-1)
    odd = first.const_like(0).cat(inner - mirrored, *(m.const_like(0) for m in middle), dim=-1)
    # Every bin reads all of them.
    return even.contiguous(), odd.contiguous()


def _transform(
    node: OnnxNode, real: Tensor, imaginary: Tensor | None, length: int, bins: int, inverse: bool
) -> Tensor:
    """Transform along the last axis, with real and imaginary parts in a new last axis."""
    cos, sin = _waves(node, length, bins, real.dtype)
    sign = 1.0 if inverse else -1.0
    even, odd = _folded(real)
    re, im = even @ cos, (odd @ sin) * sign
    if imaginary is not None:
        even, odd = _folded(imaginary)
        re, im = re - (odd @ sin) * sign, im + even @ cos
    result = Tensor.stack(re, im, dim=-1)
    return result * (1 / length) if inverse else result


def _real_inverse(node: OnnxNode, x: Tensor, length: int) -> Tensor:
    """Real signal from the bins of one half; the others are their conjugates."""
    bins = length // 2 + 1
    if sizes_of(x)[-2] != bins or sizes_of(x)[-1] != 2:
        raise node.unsupported(
            f"{sizes_of(x)[-2]} bins for a signal of {length}", f"give {bins} complex bins"
        )
    angles = 2 * np.pi * (np.outer(np.arange(bins), np.arange(length)) % length) / length
    twice = np.where((np.arange(bins) == 0) | (2 * np.arange(bins) == length), 1, 2)[:, None] / length
    kind = np.float64 if x.dtype == dtypes.float64 else np.float32
    cos, sin = ((f(angles) * twice).astype(kind) for f in (np.cos, np.sin))
    return (x[..., 0] @ constant(node, cos) - x[..., 1] @ constant(node, sin)).unsqueeze(-1)


def dft(node: OnnxNode, x: Tensor, length: Any = None, axis: Any = None) -> Tensor:
    """Discrete Fourier transform of a real or complex signal.

    Parameters
    ----------
    node, x, length, axis
        The node and its inputs, as ONNX defines `DFT`.
    """
    return _dft(node, x, length, -2 if axis is None else int(np.asarray(axis).reshape(())))


def dft_17(node: OnnxNode, x: Tensor, length: Any = None) -> Tensor:
    """Version 17: the axis is an attribute.

    Parameters
    ----------
    node, x, length
        The node and its inputs, as ONNX defines `DFT`.
    """
    return _dft(node, x, length, node.attribute("axis", 1))


def _dft(node: OnnxNode, x: Tensor, length: Any, axis: int) -> Tensor:
    onesided, inverse = bool(node.attribute("onesided", 0)), bool(node.attribute("inverse", 0))
    at = axis % x.ndim
    if at == x.ndim - 1:
        raise node.unsupported("the last axis holds real and imaginary parts", "name another axis")
    size = sizes_of(x)[at]
    count = size if length is None else int(np.asarray(length).reshape(()))
    value = wide(x).transpose(at, x.ndim - 2)
    if onesided and inverse:
        result = _real_inverse(node, value, 2 * (size - 1) if length is None else count)
        return result.transpose(at, x.ndim - 2).cast(x.dtype)
    short = value.shrink(tuple((0, min(count, size)) if n == x.ndim - 2 else None for n in range(x.ndim)))
    short = short.pad(tuple((0, max(0, count - size)) if n == x.ndim - 2 else (0, 0) for n in range(x.ndim)))
    imaginary = short[..., 1] if sizes_of(x)[-1] == 2 else None
    bins = count // 2 + 1 if onesided else count
    result = _transform(node, short[..., 0], imaginary, count, bins, inverse)
    return result.transpose(at, x.ndim - 2).cast(x.dtype)


def stft(node: OnnxNode, x: Tensor, step: Any, window: Tensor | None = None, length: Any = None) -> Tensor:
    """Transforms of overlapping frames of a signal.

    Parameters
    ----------
    node, x, step, window, length
        The node and its inputs, as ONNX defines `STFT`.
    """
    if window is None and length is None:
        raise node.unsupported("neither a window nor a frame length", "give one of them")
    size = sizes_of(window)[0] if window is not None else int(np.asarray(length).reshape(()))
    hop = int(np.asarray(step).reshape(()))
    signal = wide(x) if x.ndim == 3 else wide(x).unsqueeze(-1)
    if size > sizes_of(signal)[1]:
        raise node.unsupported(
            f"a frame of {size} elements is longer than the signal", "give a shorter frame"
        )
    frames = 1 + (sizes_of(signal)[1] - size) // hop
    places = np.arange(frames)[:, None] * hop + np.arange(size)
    cut = signal[:, constant(node, places.astype(np.int32))]
    cut = cut if window is None else cut * wide(window).reshape(1, 1, -1, 1)
    bins = size // 2 + 1 if node.attribute("onesided", 1) else size
    imaginary = cut[..., 1] if sizes_of(signal)[-1] == 2 else None
    return _transform(node, cut[..., 0], imaginary, size, bins, False).cast(x.dtype)
