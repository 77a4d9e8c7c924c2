"""Layers and networks in tinygrad, and in numpy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from arrays import Both, codes, convolved, narrow, narrowed, sigmoid, weight
from tinygrad import Tensor, dtypes

__all__ = [
    "cnn",
    "feed_forward",
    "float_mlp",
    "gemv",
    "image_attention",
    "keywords",
    "lstm",
    "magnitude",
    "mlp",
    "quantized_depthwise",
    "queries_keys_values",
    "squeeze_excite",
    "swish",
]


def squeeze_excite() -> Both:
    """Gates of 16 channels of 8x8 by their means, then 1x1 to 16."""
    down, up, w = weight(1, 16, 4), weight(2, 4, 16), weight(3, 16, 16, 1, 1)
    d, u, t = Tensor(down), Tensor(up), Tensor(w)

    def model(x: Tensor) -> Tensor:
        gate = ((x.mean((2, 3)) @ d).relu() @ u).sigmoid()
        return (x * gate.reshape(1, 16, 1, 1)).conv2d(t)

    def reference(x: np.ndarray) -> np.ndarray:
        gate = sigmoid(np.maximum(x.mean((2, 3)) @ down, 0) @ up)
        return convolved(x * gate.reshape(1, 16, 1, 1), w)

    return model, reference


def swish() -> Both:
    """Swish, then 3x3 of 8 to 8 channels of 12x12."""
    w = weight(1, 8, 8, 3, 3)
    t = Tensor(w)
    return (
        lambda x: (x * x.sigmoid()).conv2d(t, padding=1),
        lambda x: convolved(x * sigmoid(x), w, padding=1),
    )


def magnitude() -> Both:
    """Magnitudes of 33 bins of 16 frames, then a convolution of 3 frames to 16 channels."""
    w = weight(1, 16, 33, 1, 3)
    t = Tensor(w)

    def model(re: Tensor, im: Tensor) -> Tensor:
        return (re * re + im * im).sqrt().conv2d(t)

    return model, lambda re, im: convolved(np.sqrt(re * re + im * im), w)


def gemv(columns: int) -> Callable[[], Both]:
    """Float product of a vector with weights outside the chip."""

    def make() -> Both:
        w = weight(1, 203, columns)
        t = Tensor(w)
        return lambda x: x @ t, lambda x: x @ w

    return make


def feed_forward() -> Both:
    """SwiGLU 288-768-288 of a llama."""
    gate, up, down = weight(1, 288, 768), weight(2, 288, 768), weight(3, 768, 288)
    g, u, d = Tensor(gate), Tensor(up), Tensor(down)

    def reference(x: np.ndarray) -> np.ndarray:
        a = x @ gate
        return (a * sigmoid(a) * (x @ up)) @ down

    return lambda x: ((x @ g).silu() * (x @ u)) @ d, reference


def quantized_depthwise() -> Both:
    """3x3 with stride 2 in each of 16 channels of 16x16, scaled to bytes."""
    w = codes(1, 16, 1, 3, 3)
    scale = np.random.default_rng(2).integers(1 << 14, 1 << 15, 16).astype(np.int32)
    t, m = Tensor(w), Tensor(scale.reshape(1, 16, 1, 1))

    def model(x: Tensor) -> Tensor:
        sums = x.cast(dtypes.int32).conv2d(t.cast(dtypes.int32), stride=2, padding=1, groups=16)
        return (
            ((sums.cast(dtypes.int64) * m.cast(dtypes.int64) + (1 << 23)) >> 24).clip(-128, 127).cast("int8")
        )

    def reference(x: np.ndarray) -> np.ndarray:
        sums = convolved(x, w, 2, 1, 16)
        return np.clip((sums * scale.reshape(1, 16, 1, 1) + (1 << 23)) >> 24, -128, 127).astype(np.int8)

    return model, reference


def image_attention() -> Both:
    """Attention over the 64 pixels of an image of 32 channels, queries, keys and values by 1x1 convolutions."""
    weights = [weight(n, 32, 32, 1, 1) for n in range(3)]
    tensors = [Tensor(w) for w in weights]

    def model(x: Tensor) -> Tensor:
        q, k, v = (x.conv2d(t).reshape(32, 64) for t in tensors)
        return v @ ((q.T @ k) * 0.25).softmax().T

    def reference(x: np.ndarray) -> np.ndarray:
        q, k, v = (convolved(x, w).reshape(32, 64) for w in weights)
        scores = np.exp(q.T @ k * 0.25)
        return v @ (scores / scores.sum(1, keepdims=True)).T

    return model, reference


def queries_keys_values() -> Both:
    """The three 1x1 convolutions before it, with the queries in rows of pixels and the others in rows of channels."""
    weights = [codes(n, 32, 32, 1, 1) for n in range(3)]
    tensors = [Tensor(w) for w in weights]

    def model(x: Tensor) -> Tensor:
        found = [x.cast(dtypes.int32).conv2d(t.cast(dtypes.int32)).reshape(32, 64) for t in tensors]
        return (found[0].T.contiguous() @ found[1] + found[2].sum()).contiguous()

    def reference(x: np.ndarray) -> np.ndarray:
        q, k, v = (convolved(x, w).reshape(32, 64) for w in weights)
        return (q.T @ k + v.sum()).astype(np.int32)

    return model, reference


def lstm() -> Both:
    """49 steps of an LSTM of 10 features and 16 states, in floats."""
    wi, wh, bias = weight(1, 10, 64), weight(2, 16, 64), weight(3, 64)
    ti, th, tb = Tensor(wi), Tensor(wh), Tensor(bias)

    def model(x: Tensor) -> Tensor:
        h, c = Tensor.zeros(1, 16), Tensor.zeros(1, 16)
        for n in range(49):
            i, f, g, o = (x[n : n + 1] @ ti + h @ th + tb).chunk(4, dim=1)
            c = (f.sigmoid() * c + i.sigmoid() * g.tanh()).contiguous()
            h = (o.sigmoid() * c.tanh()).contiguous()
        return h

    def reference(x: np.ndarray) -> np.ndarray:
        h, c = np.zeros((1, 16)), np.zeros((1, 16))
        for n in range(49):
            i, f, g, o = np.split(x[n : n + 1] @ wi + h @ wh + bias, 4, axis=1)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
        return h

    return model, reference


def mlp() -> Both:
    """16-32-10 of bytes."""
    w1, w2 = codes(1, 16, 32), codes(2, 32, 10)
    t1, t2 = Tensor(w1), Tensor(w2)

    def model(x: Tensor) -> Tensor:
        hidden = narrow(x.cast(dtypes.int32) @ t1.cast(dtypes.int32), 9)
        return hidden.cast(dtypes.int32) @ t2.cast(dtypes.int32)

    def reference(x: np.ndarray) -> np.ndarray:
        hidden = narrowed(x.astype(np.int64) @ w1, 9)
        return (hidden.astype(np.int64) @ w2).astype(np.int32)

    return model, reference


def float_mlp() -> Both:
    """16-32-10 in floats, with ReLU."""
    w1, w2 = weight(1, 16, 32), weight(2, 32, 10)
    t1, t2 = Tensor(w1), Tensor(w2)
    return lambda x: (x @ t1).relu() @ t2, lambda x: np.maximum(x @ w1, 0) @ w2


def cnn() -> Both:
    """12x12, 3x3 to 8 channels, maxima of 2x2, 3x3 to 16 channels, 10 sums."""
    w1, w2, w3 = codes(1, 8, 1, 3, 3), codes(2, 16, 8, 3, 3), codes(3, 576, 10)
    t1, t2, t3 = Tensor(w1), Tensor(w2), Tensor(w3)

    def model(x: Tensor) -> Tensor:
        x = narrow(x.cast(dtypes.int32).conv2d(t1.cast(dtypes.int32), padding=1), 8).max_pool2d(2)
        x = narrow(x.cast(dtypes.int32).conv2d(t2.cast(dtypes.int32), padding=1), 9)
        return x.reshape(1, 576).cast(dtypes.int32) @ t3.cast(dtypes.int32)

    def reference(x: np.ndarray) -> np.ndarray:
        x = narrowed(convolved(x, w1, padding=1), 8)
        x = x.reshape(1, 8, 6, 2, 6, 2).max((3, 5))
        x = narrowed(convolved(x, w2, padding=1), 9)
        return (x.reshape(1, 576).astype(np.int64) @ w3).astype(np.int32)

    return model, reference


def keywords() -> Both:
    """DS-CNN for keywords: 49x10 features, 10x4 to 64 channels, four depthwise-separable blocks, mean, 12 sums."""
    first, last = codes(1, 64, 1, 10, 4), codes(2, 64, 12)
    blocks = [(codes(3 + n, 64, 1, 3, 3), codes(9 + n, 64, 64, 1, 1)) for n in range(4)]
    tensors = [tuple(Tensor(w).cast(dtypes.int32) for w in pair) for pair in blocks]
    tf, tl = Tensor(first).cast(dtypes.int32), Tensor(last).cast(dtypes.int32)

    def model(x: Tensor) -> Tensor:
        x = narrow(x.cast(dtypes.int32).pad((1, 1, 4, 5)).conv2d(tf, stride=2), 8)
        for deep, point in tensors:
            x = narrow(x.cast(dtypes.int32).conv2d(deep, padding=1, groups=64), 8)
            x = narrow(x.cast(dtypes.int32).conv2d(point), 9)
        return (x.cast(dtypes.int32).sum((2, 3)) >> 7) @ tl

    def reference(x: np.ndarray) -> np.ndarray:
        x = narrowed(convolved(np.pad(x, ((0, 0), (0, 0), (4, 5), (1, 1))), first, 2), 8)
        for deep, point in blocks:
            x = narrowed(convolved(x, deep, 1, 1, 64), 8)
            x = narrowed(convolved(x, point), 9)
        return ((x.astype(np.int64).sum((2, 3)) >> 7) @ last).astype(np.int32)

    return model, reference
