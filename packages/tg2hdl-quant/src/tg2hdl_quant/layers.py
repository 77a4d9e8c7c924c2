"""Layers of a feed-forward network: float as trained, and integer as the hardware computes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tg2hdl_ir import InputError

__all__ = ["Conv2D", "Dense", "Flatten", "Layer", "MaxPool2D", "QuantizedLayer", "ReLU", "accumulate"]

Array: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Dense:
    """``x @ weight + bias``.

    Parameters
    ----------
    weight : ndarray
        Of shape (inputs, outputs).
    bias : ndarray
        Of shape (outputs,).
    """

    weight: Array
    bias: Array

    def __post_init__(self) -> None:
        _check(self, "Dense", ndim=2, outputs_axis=1, layout="(inputs, outputs)")


@dataclass(frozen=True, eq=False)
class Conv2D:
    """SAME-padded convolution, stride 1, on (N, C, H, W).

    Parameters
    ----------
    weight : ndarray
        Of shape (outputs, inputs, odd height, odd width).
    bias : ndarray
        Of shape (outputs,).
    """

    weight: Array
    bias: Array

    def __post_init__(self) -> None:
        _check(self, "Conv2D", ndim=4, outputs_axis=0, layout="(outputs, inputs, height, width)")
        if not all(size % 2 for size in self.weight.shape[2:]):
            raise InputError(
                f"Conv2D kernel of {self.weight.shape[2]}x{self.weight.shape[3]} has no centre",
                hint="SAME padding needs odd kernel sizes",
            )


@dataclass(frozen=True)
class ReLU:
    """``max(x, 0)``."""


@dataclass(frozen=True)
class MaxPool2D:
    """Maximum over windows of `size` x `size` without overlap; H and W are multiples of `size`."""

    size: int = 2


@dataclass(frozen=True)
class Flatten:
    """(N, ...) to (N, product of the rest)."""


Layer: TypeAlias = Dense | Conv2D | ReLU | MaxPool2D | Flatten


@dataclass(frozen=True, eq=False)
class QuantizedLayer:
    """A layer with integer weights, and the post-processing of its sum.

    ``clip(relu(x.cast(int32) @ weight.cast(int32) + bias) >> shift, -128, 127).cast(int8)``; the last layer
    has neither shift nor clip: its int32 sums are the result.

    Parameters
    ----------
    layer : Dense or Conv2D
        With weights of int8 and biases of int32.
    relu : bool
        Whether the sum is rectified before the shift.
    shift : int or None
        Arithmetic right shift (bits); None for the last layer.
    scale : float
        Value of one step of the result.
    """

    layer: Dense | Conv2D
    relu: bool
    shift: int | None
    scale: float


def accumulate(layer: Dense | Conv2D, x: Array) -> Array:
    """Sums of products plus bias, in the dtype of the operands.

    Parameters
    ----------
    layer : Dense or Conv2D
        Float or integer; of `Conv2D` padded to keep the size of the image.
    x : ndarray
        Batch of rows, or of images with channels first.
    """
    if isinstance(layer, Dense):
        return x @ layer.weight + layer.bias
    height, width = layer.weight.shape[2:]
    pad = ((0, 0), (0, 0), (height // 2, height // 2), (width // 2, width // 2))
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, pad), (height, width), axis=(2, 3))
    sums = np.einsum("nchwij,ocij->nohw", windows, layer.weight)
    return np.asarray(sums + layer.bias[:, None, None])


def _check(layer: Dense | Conv2D, name: str, *, ndim: int, outputs_axis: int, layout: str) -> None:
    weight, bias = np.asarray(layer.weight), np.asarray(layer.bias)
    if weight.ndim != ndim:
        raise InputError(f"{name} weight has shape {weight.shape}", hint=f"expected {layout}")
    if bias.shape != (weight.shape[outputs_axis],):
        raise InputError(
            f"{name} bias has shape {bias.shape} for {weight.shape[outputs_axis]} outputs",
            hint=f"expected ({weight.shape[outputs_axis]},)",
        )
