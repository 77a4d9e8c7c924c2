"""Models as users bring them: layers with activations and normalizations, blocks and small networks."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tinygrad import Tensor, dtypes, nn

__all__ = ["MODELS", "Case", "Model"]

Make = Callable[[], Callable[..., Any]]
Inputs = Callable[[np.random.Generator], tuple[np.ndarray, ...]]


@dataclass(frozen=True)
class Case:
    """A set of options."""

    multipliers: int = 16
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Model:
    """A model of the table.

    Parameters
    ----------
    macs : int
        Products of its layers, without those of activations and normalizations.
    """

    name: str
    make: Make
    inputs: Inputs
    macs: int
    cases: tuple[Case, ...] = (Case(),)


def _float(*shape: int) -> Inputs:
    return lambda rng: (rng.normal(size=shape).astype(np.float32),)


def _bytes(*shape: int) -> Inputs:
    return lambda rng: (rng.integers(-128, 128, shape).astype(np.int8),)


def _weight(seed: int, *shape: int, low: float | None = None) -> Tensor:
    rng = np.random.default_rng(seed)
    fan = math.prod(shape[1:]) if len(shape) > 1 else 1
    array = rng.normal(size=shape) / math.sqrt(fan) if low is None else rng.uniform(low, 2, shape)
    return Tensor(array.astype(np.float32))


def _norm(seed: int, channels: int) -> Callable[[Tensor], Tensor]:
    norm = nn.BatchNorm(channels)
    norm.weight, norm.bias = _weight(seed, channels, low=0.5), _weight(seed + 1, channels)
    norm.running_mean, norm.running_var = _weight(seed + 2, channels), _weight(seed + 3, channels, low=0.5)
    return norm


def _conv(seed: int, into: int, out: int, size: int, **options: Any) -> Callable[[Tensor], Tensor]:
    weight = _weight(seed, out, into // options.get("groups", 1), size, size)
    return lambda x: x.conv2d(weight, **options)


def _product(after: Callable[[Tensor], Tensor]) -> Make:
    def make() -> Callable[..., Any]:
        weight = _weight(1, 32, 64)
        return lambda x: after(x @ weight)

    return make


def _erf_gelu(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + (x * (1 / math.sqrt(2))).erf())


def mlp() -> Callable[..., Any]:
    """30-16-1: every feature and hidden unit once, one result."""
    w1, b1, w2, b2 = _weight(1, 30, 16), _weight(2, 16), _weight(3, 16, 1), _weight(4, 1)
    return lambda x: ((x @ w1 + b1).relu() @ w2 + b2).sigmoid()


def conv_norm() -> Callable[..., Any]:
    """3x3, 8 to 8 channels, BatchNorm, ReLU."""
    conv, norm = _conv(1, 8, 8, 3, padding=1), _norm(2, 8)
    return lambda x: norm(conv(x)).relu()


def residual() -> Callable[..., Any]:
    """Two 3x3 convolutions with BatchNorm, and the input added."""
    first, second = _conv(1, 8, 8, 3, padding=1), _conv(2, 8, 8, 3, padding=1)
    norms = _norm(3, 8), _norm(7, 8)
    return lambda x: (norms[1](second(norms[0](first(x)).relu())) + x).relu()


def depthwise() -> Callable[..., Any]:
    """3x3 in each of 8 channels, then 1x1 to 16, each with BatchNorm and ReLU."""
    deep, point = _conv(1, 8, 8, 3, padding=1, groups=8), _conv(2, 8, 16, 1)
    norms = _norm(3, 8), _norm(7, 16)
    return lambda x: norms[1](point(norms[0](deep(x)).relu())).relu()


def transformer() -> Callable[..., Any]:
    """One block over 16 positions of 32 features: two heads, GELU in between 32-64-32."""
    wq, wk, wv, wo = (_weight(n, 32, 32) for n in range(1, 5))
    up, down = _weight(5, 32, 64), _weight(6, 64, 32)

    def heads(x: Tensor) -> Tensor:
        return x.reshape(16, 2, 16).transpose(0, 1)

    def model(x: Tensor) -> Tensor:
        y = x.layernorm()
        q, k, v = heads(y @ wq), heads(y @ wk), heads(y @ wv)
        mixed = ((q @ k.transpose(-2, -1)) * 0.25).softmax() @ v
        x = x + mixed.transpose(0, 1).reshape(16, 32) @ wo
        return x + (x.layernorm() @ up).gelu() @ down

    return model


def audio() -> Callable[..., Any]:
    """Conv1d 1-8-16 with strides, mean over time, 4 classes."""
    w1, w2, w3 = _weight(1, 8, 1, 9), _weight(2, 16, 8, 5), _weight(3, 16, 4)

    def model(x: Tensor) -> Tensor:
        x = x.conv2d(w1, stride=4, padding=4).relu().conv2d(w2, stride=2, padding=2).relu()
        return x.mean(-1) @ w3

    return model


def autoencoder() -> Callable[..., Any]:
    """1-4-8 channels by strided 3x3, and back by transposed 3x3."""
    w1, w2, w3, w4 = (
        _weight(1, 4, 1, 3, 3),
        _weight(2, 8, 4, 3, 3),
        _weight(3, 8, 4, 3, 3),
        _weight(4, 4, 1, 3, 3),
    )

    def model(x: Tensor) -> Tensor:
        x = x.conv2d(w1, stride=2, padding=1).relu().conv2d(w2, stride=2, padding=1).relu()
        x = x.conv_transpose2d(w3, stride=2, padding=1, output_padding=1).relu()
        return x.conv_transpose2d(w4, stride=2, padding=1, output_padding=1).sigmoid()

    return model


def transposed() -> Callable[..., Any]:
    """8x8x4 to 16x16x4 by a transposed 3x3."""
    weight = _weight(1, 4, 4, 3, 3)
    return lambda x: x.conv_transpose2d(weight, stride=2, padding=1, output_padding=1)


def resnet(blocks: int) -> Make:
    """int8 ResNet for 32x32x3 with three stages of so many blocks: 8 or 20 layers."""

    def make() -> Callable[..., Any]:
        rng = np.random.default_rng(blocks)

        def conv(into: int, out: int, size: int, stride: int, shift: int) -> Callable[[Tensor], Tensor]:
            weight = Tensor(rng.integers(-128, 128, (out, into, size, size)).astype(np.int8))
            bias = Tensor(rng.integers(-500, 500, out).astype(np.int32))

            def layer(x: Tensor) -> Tensor:
                sums = x.cast(dtypes.int32).conv2d(
                    weight.cast(dtypes.int32), stride=stride, padding=size // 2
                )
                return (sums + bias.reshape(1, -1, 1, 1)) >> shift

            return layer

        first = conv(3, 16, 3, 1, 9)
        layers = []
        for stage, (into, out) in enumerate(((16, 16), (16, 32), (32, 64))):
            for block in range(blocks):
                step, width = (2, into) if stage and not block else (1, out)
                short = conv(width, out, 1, step, 7) if width != out else None
                layers.append((conv(width, out, 3, step, 10), conv(out, out, 3, 1, 10), short))
        dense = Tensor(rng.integers(-128, 128, (64, 10)).astype(np.int8))

        def narrow(x: Tensor) -> Tensor:
            return x.clip(0, 127).cast(dtypes.int8)

        def model(x: Tensor) -> Tensor:
            x = narrow(first(x))
            for one, two, short in layers:
                x = narrow(two(narrow(one(x))) + (x.cast(dtypes.int32) if short is None else short(x)))
            mean = x.cast(dtypes.int32).sum((2, 3)) >> 6
            return mean @ dense.cast(dtypes.int32)

        return model

    return make


def _resnet_macs(blocks: int) -> int:
    total, side, width = 1024 * 27 * 16, 32, 16
    for stage, out in enumerate((16, 32, 64)):
        for block in range(blocks):
            if stage and not block:
                side //= 2
                total += side * side * width * out
            total += side * side * 9 * (width * out + out * out)
            width = out
    return total + 640


def inception() -> Callable[..., Any]:
    """Four branches side by side: 1x1, 3x3 and 5x5 behind 1x1, and 1x1 behind a maximum of 3x3; 8 to 24 channels."""
    one, three, five, pooled = (
        _conv(1, 8, 8, 1),
        (_conv(2, 8, 4, 1), _conv(3, 4, 8, 3, padding=1)),
        (_conv(4, 8, 4, 1), _conv(5, 4, 4, 5, padding=2)),
        _conv(6, 8, 4, 1),
    )

    def model(x: Tensor) -> Tensor:
        branches = [one(x)]
        branches += [second(first(x).relu()) for first, second in (three, five)]
        branches += [pooled(x.max_pool2d(3, stride=1, padding=1))]
        return Tensor.cat(*branches, dim=1).relu()

    return model


def densenet() -> Callable[..., Any]:
    """3x3 from 3 to 8 channels, three layers of 4 more channels each from all before, 1x1 to 10, mean."""
    first, last = _conv(1, 3, 8, 3, padding=1), _conv(5, 20, 10, 1)
    layers = [_conv(2 + n, 8 + 4 * n, 4, 3, padding=1) for n in range(3)]

    def model(x: Tensor) -> Tensor:
        x = first(x).relu()
        for layer in layers:
            x = x.cat(layer(x).relu(), dim=1)
        return last(x).mean((2, 3))

    return model


def sobel() -> Callable[..., Any]:
    """Magnitudes of both gradients of a 64x64 image of bytes."""
    kernel = np.array([[1, 0, -1], [2, 0, -2], [1, 0, -1]], np.int32)
    weight = Tensor(np.stack([kernel, kernel.T])[:, None])
    return lambda x: x.cast(dtypes.int32).conv2d(weight, padding=1).abs().sum(1)


def cholesky() -> Callable[..., Any]:
    """Lower factor of an 8x8 matrix, column by column."""

    def model(a: Tensor) -> Tensor:
        columns: list[Tensor] = []
        for j in range(8):
            rest = a[:, j]
            for column in columns:
                rest = rest - column * column[j]
            below = rest * (rest[j].rsqrt())
            columns.append((Tensor.arange(8) >= j).where(below, 0))
        return Tensor.stack(*columns, dim=1)

    return model


def _positive(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    a = rng.normal(size=(8, 8))
    return ((a @ a.T + 8 * np.eye(8)).astype(np.float32),)


_RELAXED = {"float_order": "relaxed"}
_FOLDED = {"fold_batchnorm": True}
_OVERLAP = {"schedule": "overlap"}
_OWN = {"schedule": "overlap", "share_multipliers": False}
_SHORT = {"float_order": "relaxed", "units": {"add": "fp32.add.small"}}
_IMAGE = _float(1, 8, 8, 8)
_FEW_STEPS = (Case(), Case(options=_RELAXED), Case(options=_SHORT))
_GELU = (Case(), Case(options=_OVERLAP), Case(options=_OWN))

MODELS = [
    Model("matmul 16x32x64", _product(lambda x: x), _float(16, 32), 32768),
    Model("matmul + tanh-GELU", _product(lambda x: x.gelu()), _float(16, 32), 32768, _GELU),
    Model("matmul + erf-GELU", _product(_erf_gelu), _float(16, 32), 32768, _GELU),
    Model(
        "matmul + BatchNorm",
        lambda: _product(_norm(2, 64))(),
        _float(16, 32),
        32768,
        (Case(), Case(options=_FOLDED)),
    ),
    Model("MLP 30-16-1", mlp, _float(1, 30), 496, _FEW_STEPS),
    Model(
        "conv 3x3 + BatchNorm + ReLU",
        conv_norm,
        _IMAGE,
        36864,
        (Case(), Case(options=_FOLDED), Case(options=_OVERLAP)),
    ),
    Model("residual block", residual, _IMAGE, 2 * 36864, (Case(), Case(options=_FOLDED))),
    Model(
        "depthwise-separable block",
        depthwise,
        _IMAGE,
        64 * (72 + 128),
        (Case(), Case(options=_OVERLAP), Case(options=_FOLDED)),
    ),
    Model(
        "transformer block 16x32",
        transformer,
        _float(16, 32),
        16 * (4 * 1024 + 2 * 2048) + 16384,
        (Case(), Case(options=_OVERLAP)),
    ),
    Model("Conv1d audio net", audio, _float(1, 1, 256), 64 * 72 + 32 * 640 + 64),
    Model(
        "autoencoder 16x16",
        autoencoder,
        _float(1, 1, 16, 16),
        64 * 36 + 16 * 288 + 16 * 288 + 64 * 36,
    ),
    Model("transposed convolution", transposed, _float(1, 4, 8, 8), 64 * 144),
    Model("Inception block", inception, _IMAGE, 64 * (3 * 32 + 64 + 9 * 32 + 25 * 16)),
    Model(
        "DenseNet",
        densenet,
        _float(1, 3, 8, 8),
        64 * (9 * (3 * 8 + 4 * (8 + 12 + 16)) + 20 * 10),
    ),
    Model("ResNet-8 int8", resnet(1), _bytes(1, 3, 32, 32), _resnet_macs(1)),
    Model("ResNet-20 int8", resnet(3), _bytes(1, 3, 32, 32), _resnet_macs(3)),
    Model("sobel 64x64", sobel, _bytes(1, 1, 64, 64), 4096 * 12),
    Model("Cholesky 8x8", cholesky, _positive, 204, (Case(1), Case(16))),
]
