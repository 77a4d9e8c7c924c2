"""Post-training quantization to int8 with requantization by shifts only.

The sum of a layer has the step ``s_in * s_weight``.  Shifting it right by n bits gives the next activation,
whose step is ``s_in * s_weight * 2^n``: no multiplier is needed.  Rounding to nearest costs nothing: half a
step of the result is added to the bias.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir import InputError
from tg2hdl_quant.layers import Conv2D, Dense, Flatten, Layer, MaxPool2D, QuantizedLayer, ReLU, accumulate
from tg2hdl_quant.symmetric import finite_floats, quantize_int8

__all__ = ["QuantizedNetwork", "quantize_network", "run_float"]

_INT32 = np.iinfo(np.int32)


class QuantizedNetwork:
    """An integer network; call it with int8 inputs to get the int32 sums of the last layer.

    Parameters
    ----------
    steps : sequence of QuantizedLayer, MaxPool2D and Flatten
        In order.
    input_scale : float
        Value of one step of the int8 input.
    """

    def __init__(self, steps: Sequence[QuantizedLayer | MaxPool2D | Flatten], input_scale: float) -> None:
        self.steps = tuple(steps)
        self.input_scale = input_scale

    @property
    def layers(self) -> tuple[QuantizedLayer, ...]:
        """The steps that have weights."""
        return tuple(step for step in self.steps if isinstance(step, QuantizedLayer))

    def quantize_input(self, x: npt.ArrayLike) -> npt.NDArray[np.int8]:
        """Round inputs to int8 with the input scale, clipped to [-128, 127]."""
        values = finite_floats(x, "quantize_input")
        return np.clip(np.rint(values / self.input_scale), -128, 127).astype(np.int8)

    def __call__(self, x: npt.NDArray[np.int8]) -> npt.NDArray[np.int32]:
        """Run in exact integer arithmetic.

        Raises
        ------
        InputError
            When the input is not of int8.
        """
        if x.dtype != np.int8:
            raise InputError(
                f"a quantized network takes int8, got {x.dtype}", hint="use quantize_input first"
            )
        value: npt.NDArray[Any] = x
        for step in self.steps:
            if isinstance(step, QuantizedLayer):
                value = accumulate(step.layer, value.astype(np.int32))
                if step.relu:
                    value = np.maximum(value, 0)
                if step.shift is not None:
                    value = np.clip(value >> step.shift, -128, 127).astype(np.int8)
            else:
                value = _shape_step(step, value)
        return value


def run_float(layers: Sequence[Layer], x: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Run the float network in float64.

    Parameters
    ----------
    layers : sequence of Dense, Conv2D, ReLU, MaxPool2D and Flatten
        In order.
    x : array_like
        Samples; the first axis counts them.
    """
    value = finite_floats(x, "run_float")
    for layer in layers:
        if isinstance(layer, Dense | Conv2D):
            value = accumulate(layer, value)
        elif isinstance(layer, ReLU):
            value = np.maximum(value, 0)
        else:
            value = _shape_step(layer, value)
    return value


def quantize_network(
    layers: Sequence[Layer], calibration: npt.ArrayLike, *, input_scale: float | None = None
) -> QuantizedNetwork:
    """Quantize a trained network to int8 weights and activations with int32 sums.

    Parameters
    ----------
    layers : sequence of Layer
        As trained; a `ReLU` follows its `Dense` or `Conv2D` directly.
    calibration : array_like
        Representative inputs, first axis the samples; they choose the scales, nothing else.
    input_scale : float, optional
        Value of one step of the int8 input; ``max|calibration| / 127`` unless given.

    Returns
    -------
    QuantizedNetwork
        Deterministic: the same arguments give the same integers.

    Raises
    ------
    InputError
        For calibration data that is empty or not finite, a `ReLU` in another place, a network that does not
        end in a layer with weights, or a layer whose int32 sums can overflow.
    """
    samples = finite_floats(calibration, "quantize_network")
    if not layers or not isinstance(_last_weighted(layers), Dense | Conv2D):
        raise InputError(
            "the network has no Dense or Conv2D layer last", hint="end with the layer that gives the result"
        )
    scale = float(quantize_int8(samples)[1]) if input_scale is None else float(input_scale)
    if not (np.isfinite(scale) and scale > 0):
        raise InputError(f"input_scale {scale} is not a positive finite number", hint="e.g. 1 / 127")
    network = QuantizedNetwork((), scale)
    value: npt.NDArray[Any] = network.quantize_input(samples)
    steps: list[QuantizedLayer | MaxPool2D | Flatten] = []
    step: QuantizedLayer | MaxPool2D | Flatten
    reference = samples
    index = 0
    while index < len(layers):
        layer = layers[index]
        if isinstance(layer, ReLU):
            raise InputError(
                f"layer {index} is a ReLU that follows no Dense or Conv2D", hint="put it directly after one"
            )
        if isinstance(layer, Dense | Conv2D):
            relu = index + 1 < len(layers) and isinstance(layers[index + 1], ReLU)
            last = index + 1 + relu == len(layers)
            reference = accumulate(layer, reference)
            if relu:
                reference = np.maximum(reference, 0)
            weighted = _quantize_layer(layer, relu, last, scale, value, reference, index)
            step, scale, index = weighted, weighted.scale, index + 1 + relu
        else:
            step = layer
            reference = _shape_step(layer, reference)
            index += 1
        value = QuantizedNetwork((step,), scale)(value)
        steps.append(step)
    return QuantizedNetwork(steps, network.input_scale)


def _last_weighted(layers: Sequence[Layer]) -> Layer:
    return layers[-2] if len(layers) > 1 and isinstance(layers[-1], ReLU) else layers[-1]


def _quantize_layer(
    layer: Dense | Conv2D,
    relu: bool,
    last: bool,
    input_scale: float,
    value: npt.NDArray[Any],
    reference: npt.NDArray[np.float64],
    index: int,
) -> QuantizedLayer:
    """Quantize one layer; `value` are its int8 inputs on the samples, `reference` its float result."""
    weight, weight_scale = quantize_int8(layer.weight)
    scale = input_scale * float(weight_scale)
    bias = np.rint(finite_floats(layer.bias, "quantize_network") / scale)
    terms = weight.astype(np.int64)
    outputs_axis = 1 if isinstance(layer, Dense) else 0
    reach = np.abs(terms).sum(axis=tuple(a for a in range(terms.ndim) if a != outputs_axis)) * 128 + np.abs(
        bias
    )
    if reach.max() > _INT32.max:
        raise InputError(
            f"sums of layer {index} can reach {int(reach.max())}, more than an int32 holds",
            hint="use fewer inputs per output, or scale its bias down",
        )
    make = type(layer)
    sums = accumulate(make(terms, bias.astype(np.int64)), value.astype(np.int64))
    if relu:
        sums = np.maximum(sums, 0)
    if last:
        return QuantizedLayer(make(weight, bias.astype(np.int32)), relu, None, scale)
    top = max(int(np.abs(sums).max()), 1)
    widest = max(top.bit_length() - 7, 0)
    # One shift less clips the largest activations and halves the step of all others; take the smaller error.
    shift = min(
        (n for n in (widest, widest - 1, widest - 2) if n >= 0),
        key=lambda n: float(
            np.square(np.clip(_rounded(sums, n), -128, 127) * scale * 2**n - reference).mean()
        ),
    )
    rounding = (1 << shift) >> 1
    quantized = make(weight, (bias + rounding).astype(np.int32))
    return QuantizedLayer(quantized, relu, shift, scale * 2**shift)


def _rounded(sums: npt.NDArray[Any], shift: int) -> npt.NDArray[Any]:
    return (sums + ((1 << shift) >> 1)) >> shift


def _shape_step(step: Layer, value: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if isinstance(step, Flatten):
        return value.reshape(len(value), -1)
    assert isinstance(step, MaxPool2D)
    n, channels, height, width = value.shape
    if height % step.size or width % step.size:
        raise InputError(
            f"MaxPool2D of size {step.size} does not divide {height}x{width}", hint="pad or crop the input"
        )
    tiles = value.reshape(n, channels, height // step.size, step.size, width // step.size, step.size)
    return np.asarray(tiles.max((3, 5)))
