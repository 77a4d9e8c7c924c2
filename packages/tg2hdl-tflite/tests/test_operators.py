"""Operators of int8 codes against TensorFlow Lite Micro, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tg2hdl_tflite.testing import Network, run_golden, run_micro

pytest.importorskip("tflite_micro", reason="tflite-micro, the reference, is not installed")

ACTIVATIONS = ("NONE", "RELU", "RELU_N1_TO_1", "RELU6")
Case = tuple[bytes, list[np.ndarray]]


class Random:
    """Networks of one seed; a third of the scales are powers of two, so that there are ties."""

    def __init__(self, seed: int) -> None:
        self.g = np.random.default_rng(seed)

    def codes(self, *shape: int) -> np.ndarray:
        return self.g.integers(-128, 128, shape).astype(np.int8)

    def scale(self, low: float = -8, high: float = 0) -> np.float32:
        power = self.g.uniform(low, high)
        return np.float32(2.0 ** (round(power) if self.g.integers(3) == 0 else power))

    def zero(self) -> int:
        return int(self.g.choice([-128, 0, 127, self.g.integers(-128, 128)]))

    def pick(self, *values: Any) -> Any:
        return values[self.g.integers(len(values))]


def single(
    name: str,
    x: np.ndarray,
    options: str | None,
    shape: tuple[int, ...],
    scales: tuple[Any, int, Any, int],
    more: Any = (),
    **fields: Any,
) -> Case:
    """A network of one operator with one input and constants."""
    s_in, z_in, s_out, z_out = scales
    net = Network()
    a = net.tensor(x.shape, "INT8", scale=s_in, zero_point=z_in)
    constants = [net.constant(value, **how) for value, how in more]
    y = net.tensor(shape, "INT8", scale=s_out, zero_point=z_out)
    net.operator(name, [a, *constants], [y], options, **fields)
    return net.finish([a], [y]), [x[None]]


def same_as_micro(data: bytes, inputs: list[np.ndarray], outputs: int = 1) -> None:
    wanted, found = run_micro(data, *inputs, outputs=outputs), run_golden(data, *inputs)
    for call, (want, have) in enumerate(zip(wanted, found, strict=True)):
        for one, other in zip(want, have, strict=True):
            assert one.shape == other.shape
            assert one.dtype == other.dtype
            assert int((one != other).sum()) == 0, f"call {call}"


def _image_size(size: int, kernel: int, stride: int, dilation: int, same: bool) -> int:
    return -(-size // stride) if same else (size - (kernel - 1) * dilation - 1) // stride + 1


def convolution(r: Random, depthwise: bool) -> Case:
    h, w, c, o = (int(v) for v in r.g.integers((5, 5, 1, 1), (9, 9, 6, 9)))
    kernel, stride = r.g.integers(1, 4, 2), r.g.integers(1, 3, 2)
    dilation = r.g.integers(1, 3, 2) if (stride == 1).all() else np.array([1, 1])
    times = int(r.g.integers(1, 4)) if depthwise else 1
    o = c * times if depthwise else o
    same = bool(r.g.integers(2))
    weights = r.codes(*((1, *kernel, o) if depthwise else (o, *kernel, c)))
    weights = np.maximum(weights, -127)
    s_in, s_w = r.scale(), np.float32(2.0 ** r.g.uniform(-9, -5, o))
    if r.g.integers(3) == 0:
        s_w = np.float32(2.0 ** r.g.integers(-9, -5, o))
    bias = r.g.integers(-9000, 9000, o).astype(np.int32)
    s_out = np.float32(float(s_in) * s_w.mean() * r.g.uniform(60, 300) * np.sqrt(kernel.prod()))
    size = (
        _image_size(n, int(k), int(s), int(d), same)
        for n, k, s, d in zip((h, w), kernel, stride, dilation, strict=True)
    )
    return single(
        "DEPTHWISE_CONV_2D" if depthwise else "CONV_2D",
        r.codes(1, h, w, c),
        "DepthwiseConv2DOptions" if depthwise else "Conv2DOptions",
        (1, *size, o),
        (s_in, r.zero(), s_out, r.zero()),
        [
            (weights, {"scale": s_w, "axis": 3 if depthwise else 0}),
            (bias, {"scale": s_in * s_w}),
        ],
        version=3,
        Padding=0 if same else 1,
        StrideH=int(stride[0]),
        StrideW=int(stride[1]),
        DilationHFactor=int(dilation[0]),
        DilationWFactor=int(dilation[1]),
        FusedActivationFunction=int(r.g.integers(4)),
        **({"DepthMultiplier": times} if depthwise else {}),
    )


def fully_connected(r: Random) -> Case:
    n, i, o = (int(v) for v in r.g.integers((1, 1, 1), (4, 60, 40)))
    weights = np.maximum(r.codes(o, i), -127)
    s_in = r.scale()
    s_w = np.float32(2.0 ** r.g.uniform(-9, -5, o)) if r.g.integers(2) else r.scale(-9, -5)
    # One scale for all may have a zero point; converters write 0.
    zero = r.pick(0, 3, -77) if np.ndim(s_w) == 0 else 0
    bias = r.g.integers(-9000, 9000, o).astype(np.int32)
    s_out = np.float32(float(s_in) * np.mean(s_w) * r.g.uniform(60, 300) * np.sqrt(i))
    return single(
        "FULLY_CONNECTED",
        r.codes(n, i),
        "FullyConnectedOptions",
        (n, o),
        (s_in, r.zero(), s_out, r.zero()),
        [(weights, {"scale": s_w, "zero_point": zero}), (bias, {"scale": s_in * s_w})],
        version=4,
        FusedActivationFunction=int(r.g.integers(4)),
    )


def near_ties(r: Random) -> Case:
    """Sums next to halves of a code, forced by biases where all weights are 0."""
    o = 512
    s_in, s_w = r.scale(), np.float32(2.0 ** r.g.uniform(-9, -5, o))
    if r.g.integers(3) == 0:
        s_w = np.float32(2.0 ** r.g.integers(-9, -5, o))
    s_out = np.float32(float(s_in) * float(s_w.mean()) * r.pick(64, 100, 1000))
    real = float(s_in) * s_w.astype(np.float64) / float(s_out)
    bias = np.rint((r.g.integers(-128, 128, o) + 0.5) / real).astype(np.int64) + r.g.integers(-1, 2, o)
    return single(
        "CONV_2D",
        r.codes(1, 1, 1, 1),
        "Conv2DOptions",
        (1, 1, 1, o),
        (s_in, r.zero(), s_out, r.pick(0, -3, 5)),
        [
            (np.zeros((o, 1, 1, 1), np.int8), {"scale": s_w, "axis": 0}),
            (bias.astype(np.int32), {"scale": s_in * s_w}),
        ],
        version=3,
        StrideH=1,
        StrideW=1,
        DilationHFactor=1,
        DilationWFactor=1,
    )


def near_ties_of_sums(r: Random) -> Case:
    """The same at run time: the input moves each sum around its half."""
    o = 256
    s_in, s_w = r.scale(), np.float32(2.0 ** r.g.uniform(-9, -5, o))
    s_out = np.float32(float(s_in) * float(s_w.mean()) * r.pick(64, 100, 1000))
    real = float(s_in) * s_w.astype(np.float64) / float(s_out)
    bias = np.rint((r.g.integers(-100, 100, o) + 0.5) / real).astype(np.int64)
    weights = np.ones((o, 1, 1, 1), np.int8)
    return single(
        "CONV_2D",
        np.arange(-2, 3).astype(np.int8).reshape(1, 5, 1, 1),
        "Conv2DOptions",
        (1, 5, 1, o),
        (s_in, 0, s_out, r.pick(0, -3, 5)),
        [
            (weights, {"scale": s_w, "axis": 0}),
            (bias.astype(np.int32), {"scale": s_in * s_w}),
        ],
        version=3,
        StrideH=1,
        StrideW=1,
        DilationHFactor=1,
        DilationWFactor=1,
    )


def two(r: Random, name: str, options: str | None) -> Case:
    """Every pair of codes."""
    x, y = (v.astype(np.int8) for v in np.mgrid[-128:128, -128:128].reshape(2, 1, 256, 256))
    sx, sy = r.scale(), r.scale()
    biggest = max(float(sx), float(sy))
    size = {"MUL": float(sx) * float(sy) * 64, "SQUARED_DIFFERENCE": 128 * biggest**2}.get(name, biggest)
    s_out = np.float32(size * r.pick(1, 0.5, 2, r.g.uniform(0.3, 2)))
    net = Network()
    a = net.tensor(x.shape, "INT8", scale=sx, zero_point=r.zero())
    b = net.tensor(y.shape, "INT8", scale=sy, zero_point=r.zero())
    c = net.tensor(x.shape, "INT8", scale=s_out, zero_point=r.zero())
    net.operator(name, [a, b], [c], options, version=2, FusedActivationFunction=int(r.g.integers(4)))
    return net.finish([a, b], [c]), [x[None], y[None]]


def extreme(r: Random) -> Case:
    x, y = r.codes(1, 6, 9), r.codes(1, 1, 9)
    s, z = r.scale(), r.zero()
    net = Network()
    a, b = (net.tensor(v.shape, "INT8", scale=s, zero_point=z) for v in (x, y))
    c = net.tensor(x.shape, "INT8", scale=s, zero_point=z)
    net.operator(r.pick("MAXIMUM", "MINIMUM"), [a, b], [c], "MaximumMinimumOptions", version=2)
    return net.finish([a, b], [c]), [x[None], y[None]]


def pool(r: Random, name: str) -> Case:
    x = r.codes(1, 9, 8, 3)
    kernel, stride = r.g.integers(1, 6, 2), r.g.integers(1, 4, 2)
    same, s, z = bool(r.g.integers(2)), r.scale(), r.zero()
    size = (_image_size(n, int(k), int(t), 1, same) for n, k, t in zip((9, 8), kernel, stride, strict=True))
    return single(
        name,
        x,
        "Pool2DOptions",
        (1, *size, 3),
        (s, z, s, z),
        version=2,
        Padding=0 if same else 1,
        StrideH=int(stride[0]),
        StrideW=int(stride[1]),
        FilterHeight=int(kernel[0]),
        FilterWidth=int(kernel[1]),
        FusedActivationFunction=r.pick(0, 1, 3),
    )


def mean(r: Random) -> Case:
    x = r.codes(1, *(int(v) for v in r.g.integers(1, 8, 2)), 12)
    axes, keep = r.pick((1, 2), (3,)), bool(r.g.integers(2))
    s = r.scale()
    s_out = np.float32(s * r.pick(1, 0.5, 0.25, r.g.uniform(0.1, 1.2)))
    shape = x.mean(axes, keepdims=keep).shape
    more = [(np.array(axes, np.int32), {})]
    return single(
        "MEAN", x, "ReducerOptions", shape, (s, r.zero(), s_out, r.zero()), more, version=2, KeepDims=keep
    )


def softmax(r: Random) -> Case:
    x, s, beta = r.codes(20, int(r.g.integers(2, 30))), r.scale(-9, 1), r.pick(1.0, 1.0, 0.5)
    x = r.pick(x, (x // 16).astype(np.int8), np.full_like(x, x[0, 0]))
    return single("SOFTMAX", x, "SoftmaxOptions", x.shape, (s, r.zero(), 1 / 256, -128), version=2, Beta=beta)


def every_code(
    r: Random, name: str, options: str | None = None, out: tuple[Any, int] | None = None, **fields: Any
) -> Case:
    x, s = np.arange(-128, 128).astype(np.int8)[None], r.scale()
    s_out = np.float32(s * r.pick(1, 0.5, 2, r.g.uniform(0.2, 1.5)))
    given = (s_out, r.zero()) if out is None else out
    return single(name, x, options, x.shape, (s, r.zero(), *given), **{"version": 1, **fields})


def relu6(r: Random) -> Case:
    s, z = r.scale(), r.zero()
    x = np.arange(-128, 128).astype(np.int8)[None]
    return single("RELU6", x, None, x.shape, (s, z, s, z), version=2)


def prelu(r: Random) -> Case:
    x, alpha = r.codes(1, 5, 5, 6), r.codes(1, 1, 6)
    s = r.scale()
    s_out = np.float32(s * r.pick(1, 0.5, r.g.uniform(0.2, 1.5)))
    more = [(alpha, {"scale": r.scale(-9, -5), "zero_point": r.zero()})]
    return single("PRELU", x, None, x.shape, (s, r.zero(), s_out, r.zero()), more)


def pad(r: Random) -> Case:
    x, s, z = r.codes(1, 4, 5, 3), r.scale(), r.zero()
    pads = np.array([[0, 0], [1, 2], [0, 1], [0, 0]], np.int32)
    shape = tuple(int(n) for n in np.array(x.shape) + pads.sum(1))
    more: list[Any] = [(pads, {})]
    name = r.pick("PAD", "PADV2")
    if name == "PADV2":
        more.append((r.codes(1), {"scale": s, "zero_point": z}))
    return single(name, x, None, shape, (s, z, s, z), more)


def concatenation(r: Random) -> Case:
    s, z = r.scale(), r.zero()
    x, y = r.codes(1, 3, 4, 2), r.codes(1, 3, 4, 5)
    net = Network()
    a, b = (net.tensor(v.shape, "INT8", scale=s, zero_point=z) for v in (x, y))
    c = net.tensor((1, 3, 4, 7), "INT8", scale=s, zero_point=z)
    net.operator("CONCATENATION", [a, b], [c], "ConcatenationOptions", version=2, Axis=3)
    return net.finish([a, b], [c]), [x[None], y[None]]


def strided_slice(r: Random) -> Case:
    x, s, z = r.codes(1, 6, 7, 3), r.scale(), r.zero()
    begin, end, step = [0, 1, 5, 0], [1, 6, 0, 3], [1, 2, -2, 1]
    more = [(np.array(v, np.int32), {}) for v in (begin, end, step)]
    masks = int(r.g.integers(2)) << 1
    shape = x[:, (None if masks else 1) : 6 : 2, 5:0:-2].shape
    return single(
        "STRIDED_SLICE",
        x,
        "StridedSliceOptions",
        shape,
        (s, z, s, z),
        more,
        version=2,
        BeginMask=masks,
    )


def transpose(r: Random) -> Case:
    x, s, z = r.codes(1, 3, 4, 2), r.scale(), r.zero()
    order = np.array([0, 3, 1, 2], np.int32)
    return single("TRANSPOSE", x, "TransposeOptions", (1, 2, 3, 4), (s, z, s, z), [(order, {})])


def resize(r: Random, name: str, options: str) -> Case:
    x, s, z = r.codes(1, 3, 4, 2), r.scale(), r.zero()
    size = r.g.integers(1, 9, 2).astype(np.int32)
    how = r.pick((False, False), (True, False), (False, True))
    return single(
        name,
        x,
        options,
        (1, *(int(n) for n in size), 2),
        (s, z, s, z),
        [(size, {})],
        version=3,
        AlignCorners=how[0],
        HalfPixelCenters=how[1],
    )


def batch_matmul(r: Random) -> Case:
    a, b = r.codes(2, 3, 5), r.codes(2, 5, 4)
    sx, sy = r.scale(), r.scale()
    net = Network()
    x = net.tensor(a.shape, "INT8", scale=sx, zero_point=r.zero())
    y = net.tensor(b.shape, "INT8", scale=sy, zero_point=r.zero())
    s_out = np.float32(float(sx) * float(sy) * r.g.uniform(50, 400))
    z = net.tensor((2, 3, 4), "INT8", scale=s_out, zero_point=r.zero())
    net.operator("BATCH_MATMUL", [x, y], [z], "BatchMatMulOptions", version=2)
    return net.finish([x, y], [z]), [a[None], b[None]]


def transpose_conv(r: Random) -> Case:
    h, w, c, o = (int(v) for v in r.g.integers((2, 2, 1, 1), (5, 5, 4, 5)))
    kernel, stride = r.g.integers(1, 4, 2), r.g.integers(1, 3, 2)
    same = bool(r.g.integers(2))
    size = [
        int(n * s) if same else int((n - 1) * s + k) for n, k, s in zip((h, w), kernel, stride, strict=True)
    ]
    x, weights = r.codes(1, h, w, c), np.maximum(r.codes(o, *kernel, c), -127)
    s_in, s_w = r.scale(), np.float32(2.0 ** r.g.uniform(-9, -5, o))
    s_out = np.float32(float(s_in) * s_w.mean() * r.g.uniform(60, 300) * np.sqrt(kernel.prod()))
    net = Network()
    shape = net.constant(np.array([1, *size, o], np.int32))
    a = net.tensor(x.shape, "INT8", scale=s_in, zero_point=r.zero())
    b = net.constant(weights, scale=s_w, axis=0)
    bias = net.constant(r.g.integers(-9000, 9000, o).astype(np.int32), scale=s_in * s_w)
    y = net.tensor((1, *size, o), "INT8", scale=s_out, zero_point=r.zero())
    net.operator(
        "TRANSPOSE_CONV",
        [shape, b, a, bias],
        [y],
        "TransposeConvOptions",
        version=3,
        Padding=0 if same else 1,
        StrideH=int(stride[0]),
        StrideW=int(stride[1]),
    )
    return net.finish([a], [y]), [x[None]]


CASES: dict[str, Callable[[Random], Case]] = {
    "conv_2d": lambda r: convolution(r, False),
    "depthwise_conv_2d": lambda r: convolution(r, True),
    "transpose_conv": transpose_conv,
    "fully_connected": fully_connected,
    "near_ties": near_ties,
    "near_ties_of_sums": near_ties_of_sums,
    "add": lambda r: two(r, "ADD", "AddOptions"),
    "sub": lambda r: two(r, "SUB", "SubOptions"),
    "mul": lambda r: two(r, "MUL", "MulOptions"),
    "squared_difference": lambda r: two(r, "SQUARED_DIFFERENCE", None),
    "extreme": extreme,
    "average_pool_2d": lambda r: pool(r, "AVERAGE_POOL_2D"),
    "max_pool_2d": lambda r: pool(r, "MAX_POOL_2D"),
    "mean": mean,
    "softmax": softmax,
    "logistic": lambda r: every_code(r, "LOGISTIC", out=(1 / 256, -128)),
    "tanh": lambda r: every_code(r, "TANH", out=(1 / 128, 0)),
    "relu": lambda r: every_code(r, "RELU", version=2),
    "relu6": relu6,
    "leaky_relu": lambda r: every_code(
        r, "LEAKY_RELU", "LeakyReluOptions", version=2, Alpha=float(np.float32(r.g.uniform(0.01, 0.5)))
    ),
    "prelu": prelu,
    "hard_swish": lambda r: every_code(r, "HARD_SWISH"),
    "quantize": lambda r: every_code(r, "QUANTIZE", "QuantizeOptions"),
    "pad": pad,
    "concatenation": concatenation,
    "strided_slice": strided_slice,
    "transpose": transpose,
    "resize_nearest": lambda r: resize(r, "RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighborOptions"),
    "resize_bilinear": lambda r: resize(r, "RESIZE_BILINEAR", "ResizeBilinearOptions"),
    "batch_matmul": batch_matmul,
}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", CASES)
def test_codes_are_those_of_tflm(name: str, seed: int) -> None:
    same_as_micro(*CASES[name](Random(1000 * seed + sum(map(ord, name)))))
