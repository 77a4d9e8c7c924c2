"""Operators of int16 activations against TensorFlow Lite Micro, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tg2hdl_tflite.testing import Network, run_golden, run_micro

pytest.importorskip("tflite_micro", reason="tflite-micro, the reference, is not installed")

Case = tuple[bytes, list[np.ndarray]]
Generator = np.random.Generator


def codes(r: Generator, *shape: int) -> np.ndarray:
    found = r.integers(-32768, 32768, shape).astype(np.int16)
    found.reshape(-1)[: min(found.size, 2)] = (-32768, 32767)[: min(found.size, 2)]
    return found


def scale(r: Generator, low: float, high: float) -> np.float32:
    power = r.uniform(low, high)
    return np.float32(2.0 ** (round(power) if r.integers(3) == 0 else power))


def single(
    name: str,
    x: np.ndarray,
    options: str | None,
    shape: tuple[int, ...],
    scales: tuple[Any, Any],
    more: Any = (),
    kinds: tuple[str, str] = ("INT16", "INT16"),
    zero: int = 0,
    **fields: Any,
) -> Case:
    net = Network()
    a = net.tensor(x.shape, kinds[0], scale=scales[0])
    constants = [net.constant(value, **how) for value, how in more]
    y = net.tensor(shape, kinds[1], scale=scales[1], zero_point=zero)
    net.operator(name, [a, *constants], [y], options, **fields)
    return net.finish([a], [y]), [x[None]]


WINDOW = {"StrideH": 1, "StrideW": 1, "DilationHFactor": 1, "DilationWFactor": 1}


def convolution(r: Generator, depthwise: bool, bias: Any = np.int64) -> Case:
    h, w, c, o = (int(v) for v in r.integers((4, 4, 1, 1), (7, 7, 6, 7)))
    o = c if depthwise else o
    s_in, s_w = scale(r, -14, -9), np.float32(2.0 ** r.uniform(-9, -5, o))
    weights = r.integers(-127, 128, (1, 3, 3, c) if depthwise else (o, 3, 3, c)).astype(np.int8)
    more = [(weights, {"scale": s_w, "axis": 3 if depthwise else 0})]
    # Sums of int64 go beyond 32 bits.
    reach = 9e5 if bias == np.int32 or r.integers(2) else 2**40
    more.append((r.integers(-reach, reach, o).astype(bias), {"scale": s_in * s_w}))
    s_out = np.float32(float(s_in) * s_w.mean() * r.uniform(60, 300) * (1 if reach < 2**32 else 2**20))
    return single(
        "DEPTHWISE_CONV_2D" if depthwise else "CONV_2D",
        codes(r, 1, h, w, c),
        "DepthwiseConv2DOptions" if depthwise else "Conv2DOptions",
        (1, h, w, o),
        (s_in, s_out),
        more,
        version=4,
        FusedActivationFunction=int(r.integers(2)),
        **WINDOW,
        **({"DepthMultiplier": 1} if depthwise else {}),
    )


def fully_connected(r: Generator) -> Case:
    i, o = (int(v) for v in r.integers((1, 1), (60, 30)))
    s_in, s_w = scale(r, -14, -9), scale(r, -9, -5)
    weights = r.integers(-127, 128, (o, i)).astype(np.int8)
    bias = r.integers(-900000, 900000, o).astype(np.int64)
    s_out = np.float32(float(s_in) * float(s_w) * r.uniform(60, 300) * np.sqrt(i))
    more = [(weights, {"scale": s_w}), (bias, {"scale": s_in * s_w})]
    act = int(r.integers(2))
    return single(
        "FULLY_CONNECTED",
        codes(r, 2, i),
        "FullyConnectedOptions",
        (2, o),
        (s_in, s_out),
        more,
        version=7,
        FusedActivationFunction=act,
    )


def transpose_conv(r: Generator) -> Case:
    h, w, c, o = (int(v) for v in r.integers((2, 2, 1, 1), (5, 5, 4, 5)))
    x, weights = codes(r, 1, h, w, c), r.integers(-127, 128, (o, 3, 3, c)).astype(np.int8)
    s_in, s_w = scale(r, -14, -9), np.float32(2.0 ** r.uniform(-9, -5, o))
    net = Network()
    shape = net.constant(np.array([1, 2 * h, 2 * w, o], np.int32))
    a = net.tensor(x.shape, "INT16", scale=s_in)
    b = net.constant(weights, scale=s_w, axis=0)
    bias = net.constant(r.integers(-900000, 900000, o).astype(np.int64), scale=s_in * s_w)
    y = net.tensor((1, 2 * h, 2 * w, o), "INT16", scale=np.float32(float(s_in) * s_w.mean() * 200))
    net.operator(
        "TRANSPOSE_CONV", [shape, b, a, bias], [y], "TransposeConvOptions", version=3, StrideH=2, StrideW=2
    )
    return net.finish([a], [y]), [x[None]]


def two(r: Generator, name: str, options: str, **fields: Any) -> Case:
    x, y = codes(r, 1, 4, 8, 32), codes(r, 1, 4, 8, 32)
    s = scale(r, -13, -9), scale(r, -13, -9)
    s_out = np.float32(float(s[0]) * float(s[1]) * 20000 if name == "MUL" else r.uniform(0.7, 2) * max(s))
    if r.integers(2):
        s_out = np.float32(2.0 ** round(np.log2(s_out)))
    net = Network()
    a, b, c = (net.tensor(x.shape, "INT16", scale=v) for v in (*s, s_out))
    net.operator(name, [a, b], [c], options, version=4, FusedActivationFunction=int(r.integers(2)), **fields)
    return net.finish([a, b], [c]), [x[None], y[None]]


def extreme(r: Generator) -> Case:
    x, y = codes(r, 1, 6, 9), codes(r, 1, 1, 9)
    s = scale(r, -13, -9)
    net = Network()
    a, b, c = (net.tensor(v.shape, "INT16", scale=s) for v in (x, y, x))
    net.operator(("MAXIMUM", "MINIMUM")[r.integers(2)], [a, b], [c], "MaximumMinimumOptions", version=4)
    return net.finish([a, b], [c]), [x[None], y[None]]


def batch_matmul(r: Generator) -> Case:
    a, b = codes(r, 2, 3, 5), codes(r, 2, 5, 4)
    s = scale(r, -14, -9), scale(r, -14, -9)
    net = Network()
    x, y = (net.tensor(v.shape, "INT16", scale=n) for v, n in zip((a, b), s, strict=True))
    z = net.tensor((2, 3, 4), "INT16", scale=np.float32(float(s[0]) * float(s[1]) * r.uniform(2e4, 9e4)))
    net.operator("BATCH_MATMUL", [x, y], [z], "BatchMatMulOptions", version=4)
    return net.finish([x, y], [z]), [a[None], b[None]]


def pool(r: Generator, name: str) -> Case:
    x, s = codes(r, 1, 5, 6, 3), scale(r, -14, -9)
    more = {"StrideH": 2, "StrideW": 1, "FilterHeight": 2, "FilterWidth": 3}
    act = int(r.integers(2))
    return single(
        name, x, "Pool2DOptions", (1, 3, 6, 3), (s, s), version=3, FusedActivationFunction=act, **more
    )


def mean(r: Generator, name: str) -> Case:
    x, s = codes(r, 1, 3, 5, 4), scale(r, -14, -9)
    s_out = np.float32(s * (r.uniform(0.3, 1.2) if name == "MEAN" else r.uniform(2, 9)))
    more = [(np.array([1, 2], np.int32), {})]
    return single(name, x, "ReducerOptions", (1, 4), (s, s_out), more, version=2, KeepDims=False)


def softmax(r: Generator) -> Case:
    x, s = codes(r, 20, int(r.integers(2, 40))), scale(r, -16, -9)
    x = (x, x >> 6, np.full_like(x, 77))[r.integers(3)].astype(np.int16)
    beta = (1.0, 0.5)[r.integers(2)]
    return single("SOFTMAX", x, "SoftmaxOptions", x.shape, (s, 1 / 32768), version=3, Beta=beta)


def every_code(
    r: Generator, name: str, options: str | None = None, out: Any = None, version: int = 3, **fields: Any
) -> Case:
    x, s = np.arange(-32768, 32768).astype(np.int16)[None], scale(r, -15, -6)
    s_out = np.float32(s * r.uniform(0.3, 2)) if out is None else out
    return single(name, x, options, x.shape, (s, s_out), version=version, **fields)


def relu6(r: Generator) -> Case:
    x, s = np.arange(-32768, 32768).astype(np.int16)[None], scale(r, -13, -3)
    return single("RELU6", x, None, x.shape, (s, s), version=2)


def quantize(r: Generator, kinds: tuple[str, str]) -> Case:
    span = np.arange(-32768, 32768, 7) if kinds[0] == "INT16" else np.arange(-128, 128)
    x, s = span.astype(kinds[0].lower())[None], scale(r, -14, -9)
    ratio = {("INT16", "INT8"): 150.0, ("INT8", "INT16"): 1 / 150}.get(kinds, 0.9)
    zero = int(r.integers(-128, 128)) if kinds[1] == "INT8" else 0
    more = {"kinds": kinds, "zero": zero, "version": 2}
    return single("QUANTIZE", x, "QuantizeOptions", x.shape, (s, np.float32(s * ratio)), **more)


def pad(r: Generator) -> Case:
    x, s = codes(r, 1, 4, 5, 3), scale(r, -14, -9)
    pads = np.array([[0, 0], [1, 2], [0, 1], [0, 0]], np.int32)
    return single("PAD", x, None, (1, 7, 6, 3), (s, s), [(pads, {})], version=4)


def concatenation(r: Generator) -> Case:
    s, x, y = scale(r, -14, -9), codes(r, 1, 3, 2), codes(r, 1, 3, 5)
    net = Network()
    a, b, c = (net.tensor(v, "INT16", scale=s) for v in (x.shape, y.shape, (1, 3, 7)))
    net.operator("CONCATENATION", [a, b], [c], "ConcatenationOptions", version=3, Axis=2)
    return net.finish([a, b], [c]), [x[None], y[None]]


CASES: dict[str, Callable[[Generator], Case]] = {
    "conv_2d": lambda r: convolution(r, False),
    "conv_2d_bias_of_32_bits": lambda r: convolution(r, False, np.int32),
    "depthwise_conv_2d": lambda r: convolution(r, True),
    "fully_connected": fully_connected,
    "transpose_conv": transpose_conv,
    "add": lambda r: two(r, "ADD", "AddOptions", PotScaleInt16=bool(r.integers(2))),
    "sub": lambda r: two(r, "SUB", "SubOptions", PotScaleInt16=bool(r.integers(2))),
    "mul": lambda r: two(r, "MUL", "MulOptions"),
    "extreme": extreme,
    "batch_matmul": batch_matmul,
    "average_pool_2d": lambda r: pool(r, "AVERAGE_POOL_2D"),
    "max_pool_2d": lambda r: pool(r, "MAX_POOL_2D"),
    "mean": lambda r: mean(r, "MEAN"),
    "sum": lambda r: mean(r, "SUM"),
    "softmax": softmax,
    "logistic": lambda r: every_code(r, "LOGISTIC", out=1 / 32768),
    "tanh": lambda r: every_code(r, "TANH", out=1 / 32768),
    "leaky_relu": lambda r: every_code(
        r, "LEAKY_RELU", "LeakyReluOptions", version=2, Alpha=float(np.float32(r.uniform(0.01, 0.5)))
    ),
    "relu": lambda r: every_code(r, "RELU", version=2),
    "abs": lambda r: every_code(r, "ABS", version=2),
    "relu6": relu6,
    "quantize_16_to_8": lambda r: quantize(r, ("INT16", "INT8")),
    "quantize_8_to_16": lambda r: quantize(r, ("INT8", "INT16")),
    "quantize_16_to_16": lambda r: quantize(r, ("INT16", "INT16")),
    "pad": pad,
    "concatenation": concatenation,
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", CASES)
def test_codes_are_those_of_tflm(name: str, seed: int) -> None:
    data, inputs = CASES[name](np.random.default_rng(1000 * seed + sum(map(ord, name))))
    wanted, found = run_micro(data, *inputs), run_golden(data, *inputs)
    for want, have in zip(wanted, found, strict=True):
        assert have[0].dtype == want[0].dtype
        np.testing.assert_array_equal(have[0], want[0].reshape(have[0].shape))
