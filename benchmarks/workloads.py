"""The workloads of the benchmark table; ``tg2hdl bench`` measures them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from tinygrad import Tensor, dtypes

from tg2hdl.bench import BenchCase, Peer, Workload

__all__ = ["WORKLOADS"]


def _weights(seed: int, *shape: int) -> Tensor:
    return Tensor(np.random.default_rng(seed).integers(-128, 128, shape).astype(np.int8))


def _bias(seed: int, *shape: int) -> Tensor:
    return Tensor(np.random.default_rng(seed).integers(-2000, 2000, shape).astype(np.int32))


def _int8(*shape: int) -> Callable[[np.random.Generator], tuple[np.ndarray, ...]]:
    return lambda rng: (rng.integers(-128, 128, shape).astype(np.int8),)


def _float32(*shapes: tuple[int, ...]) -> Callable[[np.random.Generator], tuple[np.ndarray, ...]]:
    return lambda rng: tuple(rng.normal(size=shape).astype(np.float32) for shape in shapes)


def _requantize(sums: Tensor, shift: int) -> Tensor:
    return (sums.relu() >> shift).clip(-128, 127).cast(dtypes.int8)


def mlp() -> Callable[..., Any]:
    """784-128(relu)-10, int8 weights and activations, int32 sums."""
    w1, b1, w2, b2 = _weights(1, 784, 128), _bias(2, 128), _weights(3, 128, 10), _bias(4, 10)

    def model(x: Tensor) -> Tensor:
        hidden = _requantize(x.cast(dtypes.int32) @ w1.cast(dtypes.int32) + b1, 11)
        return hidden.cast(dtypes.int32) @ w2.cast(dtypes.int32) + b2

    return model


def cnn() -> Callable[..., Any]:
    """8x8x1, conv 3x3x8 relu, maxpool 2, conv 3x3x16 relu, dense 10, int8."""
    w1, b1 = _weights(1, 8, 1, 3, 3), _bias(2, 8)
    w2, b2 = _weights(3, 16, 8, 3, 3), _bias(4, 16)
    w3, b3 = _weights(5, 256, 10), _bias(6, 10)

    def conv(x: Tensor, weight: Tensor, bias: Tensor, shift: int) -> Tensor:
        sums = x.cast(dtypes.int32).conv2d(weight.cast(dtypes.int32), padding=1)
        return _requantize(sums + bias.reshape(1, -1, 1, 1), shift)

    def model(x: Tensor) -> Tensor:
        pooled = conv(x, w1, b1, 9).max_pool2d(2)
        flat = conv(pooled, w2, b2, 10).reshape(1, 256)
        return flat.cast(dtypes.int32) @ w3.cast(dtypes.int32) + b3

    return model


def gemv() -> Callable[..., Any]:
    """1x64 @ 64x32, int8."""
    w = _weights(1, 64, 32)
    return lambda x: x.cast(dtypes.int32) @ w.cast(dtypes.int32)


def gemm() -> Callable[..., Any]:
    """32x32 @ 32x32, int8."""
    w = _weights(1, 32, 32)
    return lambda x: x.cast(dtypes.int32) @ w.cast(dtypes.int32)


def _float_product(rows: int, columns: int) -> Callable[[], Callable[..., Any]]:
    def make() -> Callable[..., Any]:
        w = Tensor(np.random.default_rng(1).normal(size=(rows, columns)).astype(np.float32))
        return lambda x: x @ w

    return make


def attention() -> Callable[..., Any]:
    """Scaled dot-product attention of one batch, two heads, 16 positions of 16 features."""
    return lambda q, k, v: ((q @ k.transpose(-2, -1)) * (1 / math.sqrt(16))).softmax() @ v


_SERIAL = {"schedule": "serial"}
"""As they were placed and routed: `benchmarks/sequencers` has the cycles of the same models with other schedules."""


def _within(ideal: int) -> tuple[BenchCase, ...]:
    return (BenchCase(0, ideal * 3 // 2, ideal, _SERIAL),)


_EARLIER = "earlier tg2hdl"

WORKLOADS = [
    Workload(
        "mlp int8",
        mlp,
        _int8(1, 784),
        (
            BenchCase(1, 102_000, 101_632, peers=(Peer("NNgen", 103_985, 63),)),
            BenchCase(
                16,
                6_700,
                6_352,
                peers=(Peer("NNgen", 9_833, 63, "13.4k LUT"), Peer("hls4ml, its law", 7_550)),
            ),
            BenchCase(64, 1_800, 1_588, peers=(Peer("NNgen", 9_153),)),
            BenchCase(128, 980, 794, peers=(Peer("NNgen", 4_993), Peer("hls4ml, its law", 1_420))),
        ),
        macs=101_632,
    ),
    Workload(
        "cnn int8",
        cnn,
        _int8(1, 1, 8, 8),
        (
            BenchCase(9, 3_200, 2_845, _SERIAL, peers=(Peer("NNgen", 7_985),)),
            BenchCase(36, 900, 711, _SERIAL, peers=(Peer("NNgen", 3_953),)),
            BenchCase(144, 320, 178, _SERIAL, peers=(Peer("NNgen", 3_329),)),
        ),
        macs=25_600,
    ),
    Workload(
        "gemv int8 64x32",
        gemv,
        _int8(1, 64),
        (
            BenchCase(1, 2_070, 2_048, peers=(Peer(_EARLIER, 2_112, 50),)),
            BenchCase(4, 535, 512, peers=(Peer(_EARLIER, 576, 49),)),
            BenchCase(8, 280, 256, peers=(Peer(_EARLIER, 320, 45),)),
        ),
        macs=2_048,
    ),
    Workload("gemm int8 32x32x32", gemm, _int8(32, 32), (BenchCase(16, 2_200, 2_048),), macs=32_768),
    Workload(
        "gemv fp32 16x8",
        _float_product(16, 8),
        _float32((1, 16)),
        (
            BenchCase(1, 180, 128, peers=(Peer(_EARLIER, 144, 20.8),)),
            BenchCase(4, 80, 32, {"float_order": "relaxed"}, peers=(Peer(_EARLIER, 48, 20.8),)),
        ),
        macs=128,
    ),
    Workload(
        "gemm fp32 32x32x32",
        _float_product(32, 32),
        _float32((32, 32)),
        (BenchCase(8, 4_400, 4_096),),
        macs=32_768,
    ),
    # Elements read, written and reduced (by the maximum and the sum, or by both products).
    Workload(
        "softmax fp32 16x64", lambda: lambda x: x.softmax(), _float32((16, 64)), _within(1024 * (1 + 1 + 2))
    ),
    Workload(
        "layernorm fp32 16x64",
        lambda: lambda x: x.layernorm(),
        _float32((16, 64)),
        _within(1024 * (1 + 1 + 2)),
    ),
    Workload(
        "attention fp32 1x2x16x16",
        attention,
        _float32((1, 2, 16, 16), (1, 2, 16, 16), (1, 2, 16, 16)),
        _within(4 * 512 + 2 * 8192 + 2 * 512),
    ),
    Workload(
        "add fp32 4096",
        lambda: lambda a, b: a + b,
        _float32((4096,), (4096,)),
        (
            BenchCase(
                0,
                1_060,
                1_024,
                {"unroll_factor": 4},
                peers=(Peer(f"{_EARLIER}, an element a cycle", 4_096, 33),),
            ),
        ),
    ),
    Workload(
        "relu int8 4096",
        lambda: lambda x: x.relu(),
        _int8(4096),
        (BenchCase(0, 1_060, 1_024, {"unroll_factor": 4}),),
    ),
]
