"""Layers that can be trained, in numpy: forward, backward, Adam."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Conv", "Dense", "Flatten", "Layer", "MaxPool", "ReLU", "run", "train"]

Array = npt.NDArray[Any]


class Layer:
    """Keeps what `backward` needs of `forward`; `backward` gives the gradient of the input and keeps the others."""

    weights: tuple[Array, ...] = ()
    gradients: tuple[Array, ...] = ()

    def forward(self, x: Array) -> Array:
        raise NotImplementedError

    def backward(self, error: Array) -> Array:
        raise NotImplementedError


class Dense(Layer):
    """``x @ weight + bias``."""

    def __init__(self, inputs: int, outputs: int, rng: np.random.Generator) -> None:
        weight = rng.normal(size=(inputs, outputs)) * np.sqrt(2 / inputs)
        self.weights = (weight.astype(np.float32), np.zeros(outputs, np.float32))

    def forward(self, x: Array) -> Array:
        self.x = x
        return np.asarray(x @ self.weights[0] + self.weights[1])

    def backward(self, error: Array) -> Array:
        self.gradients = (self.x.T @ error, error.sum(0))
        return np.asarray(error @ self.weights[0].T)


class Conv(Layer):
    """Convolution with stride 1 on (N, C, H, W), `padding` zeros around it; weight (outputs, inputs, size, size)."""

    def __init__(self, inputs: int, outputs: int, size: int, padding: int, rng: np.random.Generator) -> None:
        weight = rng.normal(size=(outputs, inputs, size, size)) * np.sqrt(2 / (inputs * size * size))
        self.weights = (weight.astype(np.float32), np.zeros(outputs, np.float32))
        self.padding = padding

    def forward(self, x: Array) -> Array:
        weight, bias = self.weights
        outputs, _, size, _ = weight.shape
        self.padded = np.pad(x, ((0, 0), (0, 0), *[(self.padding,) * 2] * 2))
        windows = np.lib.stride_tricks.sliding_window_view(self.padded, (size, size), (2, 3))
        count, _, height, width = windows.shape[:4]
        self.windows = windows.transpose(0, 2, 3, 1, 4, 5).reshape(count * height * width, -1)
        sums = self.windows @ weight.reshape(outputs, -1).T + bias
        return sums.reshape(count, height, width, outputs).transpose(0, 3, 1, 2)

    def backward(self, error: Array) -> Array:
        weight = self.weights[0]
        outputs, inputs, size, _ = weight.shape
        count, _, height, width = error.shape
        flat = error.transpose(0, 2, 3, 1).reshape(-1, outputs)
        self.gradients = ((flat.T @ self.windows).reshape(weight.shape), flat.sum(0))
        parts = (flat @ weight.reshape(outputs, -1)).reshape(count, height, width, inputs, size, size)
        found = np.zeros_like(self.padded)
        for i, j in np.ndindex(size, size):
            found[:, :, i : i + height, j : j + width] += parts[..., i, j].transpose(0, 3, 1, 2)
        inside = slice(self.padding, -self.padding or None)
        return np.asarray(found[:, :, inside, inside])


class ReLU(Layer):
    """``max(x, 0)``."""

    def forward(self, x: Array) -> Array:
        self.positive = x > 0
        return np.maximum(x, 0)

    def backward(self, error: Array) -> Array:
        return error * self.positive


class MaxPool(Layer):
    """Maximum of windows of 2x2."""

    def forward(self, x: Array) -> Array:
        n, c, h, w = x.shape
        windows = x.reshape(n, c, h // 2, 2, w // 2, 2)
        largest = windows.max((3, 5), keepdims=True)
        self.is_largest = windows == largest
        return np.asarray(largest.reshape(n, c, h // 2, w // 2))

    def backward(self, error: Array) -> Array:
        n, c, h, w = error.shape
        return np.asarray(self.is_largest * error[:, :, :, None, :, None]).reshape(n, c, 2 * h, 2 * w)


class Flatten(Layer):
    """(N, ...) to (N, product of the rest)."""

    def forward(self, x: Array) -> Array:
        self.shape = x.shape
        return x.reshape(len(x), -1)

    def backward(self, error: Array) -> Array:
        return error.reshape(self.shape)


def run(layers: Sequence[Layer], x: Array) -> Array:
    """Scores of the classes."""
    for layer in layers:
        x = layer.forward(x)
    return x


def train(layers: Sequence[Layer], x: Array, labels: Array, epochs: int, seed: int = 0) -> None:
    """Adam on the cross entropy of batches of 64; the rate falls to zero."""
    rng = np.random.default_rng(seed)
    moments = [[np.zeros((2, *w.shape), np.float32) for w in layer.weights] for layer in layers]
    batches = len(x) // 64
    for step in range(epochs * batches):
        if step % batches == 0:
            order = rng.permutation(len(x))
        chosen = order[step % batches * 64 :][:64]
        scores = run(layers, x[chosen])
        error = np.exp(scores - scores.max(1, keepdims=True))
        error /= error.sum(1, keepdims=True)
        error[np.arange(64), labels[chosen]] -= 1
        error /= 64
        for layer in reversed(layers):
            error = layer.backward(error)
        rate = 3e-3 * (1 - step / (epochs * batches))
        for layer, kept in zip(layers, moments, strict=True):
            for weight, gradient, (first, second) in zip(layer.weights, layer.gradients, kept, strict=True):
                first += 0.1 * (gradient - first)
                second += 0.001 * (gradient**2 - second)
                corrected = np.sqrt(second / (1 - 0.999 ** (step + 1))) + 1e-8
                weight -= rate * first / (1 - 0.9 ** (step + 1)) / corrected
