"""Quantized files of both forms, against ONNX Runtime, with many results in the middle of two codes."""

from __future__ import annotations

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the onnx package builds the files")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is the reference")
from tg2hdl_backend import OnnxModel  # noqa: E402
from tg2hdl_backend.testing.hardware import compare_with_hardware  # noqa: E402
from tg2hdl_backend.testing.onnx_files import golden, runtime, write  # noqa: E402

node = onnx.helper.make_node
F, U8, I8 = np.float32, np.uint8, np.int8
RNG = np.random.default_rng(9)


def number(value, dtype=F):
    return np.array(value, dtype)


@pytest.mark.parametrize("dtype", [U8, I8])
def test_quantize_at_ties(tmp_path, dtype):
    scale = F(0.3)
    path = write(
        tmp_path / "q.onnx",
        [node("QuantizeLinear", ["x", "s", "z"], ["y"])],
        [("x", F, (600,))],
        [("y", dtype, (600,))],
        {"s": number(scale), "z": number(3, dtype)},
    )
    x = ((np.arange(-300, 300) + 0.5) * scale).astype(F)
    np.testing.assert_array_equal(golden(OnnxModel(path), x)[0], runtime(path, x=x)[0])


@pytest.mark.parametrize("per_channel", [False, True])
def test_quantized_convolution(tmp_path, per_channel):
    scales = RNG.uniform(0.01, 0.03, 3).astype(F) if per_channel else number(0.02)
    zeros = np.zeros(3, I8) if per_channel else number(0, I8)
    weights = {
        "xs": number(0.05),
        "xz": number(7, U8),
        "w": RNG.integers(-60, 60, (3, 2, 3, 3), dtype=I8),
        "ws": scales,
        "wz": zeros,
        "ys": number(0.6),
        "yz": number(60, U8),
        "b": RNG.integers(-500, 500, 3, dtype=np.int32),
    }
    path = write(
        tmp_path / "q.onnx",
        [node("QLinearConv", ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"], ["y"], pads=[1, 1, 1, 1])],
        [("x", U8, (1, 2, 9, 9))],
        [("y", U8, (1, 3, 9, 9))],
        weights,
    )
    x = RNG.integers(0, 256, (1, 2, 9, 9), dtype=U8)
    np.testing.assert_array_equal(golden(OnnxModel(path), x)[0], runtime(path, x=x)[0])


def test_quantized_convolution_of_one_dimension(tmp_path):
    weights = {
        "xs": number(0.05),
        "xz": number(120, U8),
        "w": RNG.integers(0, 256, (2, 1, 3), dtype=U8),
        "ws": number(0.02),
        "wz": number(128, U8),
        "ys": number(0.3),
        "yz": number(128, U8),
    }
    path = write(
        tmp_path / "q.onnx",
        [node("QLinearConv", ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"], ["y"], strides=[2])],
        [("x", U8, (1, 1, 33))],
        [("y", U8, (1, 2, 16))],
        weights,
    )
    x = RNG.integers(0, 256, (1, 1, 33), dtype=U8)
    np.testing.assert_array_equal(golden(OnnxModel(path), x)[0], runtime(path, x=x)[0])


def test_integer_convolution_with_a_zero_point_for_each_filter(tmp_path):
    """ONNX Runtime has one zero point only: numpy is the reference."""
    w, zeros = RNG.integers(0, 256, (3, 2, 1, 1), dtype=U8), np.array([3, 100, 200], U8)
    path = write(
        tmp_path / "q.onnx",
        [node("ConvInteger", ["x", "w", "xz", "wz"], ["y"])],
        [("x", U8, (1, 2, 4, 4))],
        [("y", np.int32, (1, 3, 4, 4))],
        {"w": w, "xz": number(9, U8), "wz": zeros},
    )
    x = RNG.integers(0, 256, (1, 2, 4, 4), dtype=U8)
    centered = w.astype(int)[:, :, 0, 0] - zeros[:, None].astype(int)
    expected = np.einsum("oc,nchw->nohw", centered, x.astype(int) - 9)
    np.testing.assert_array_equal(golden(OnnxModel(path), x)[0], expected)


def qdq_net(path):
    """Two layers as ONNX Runtime's quantizer writes them: codes between QuantizeLinear and DequantizeLinear."""
    weights = {
        "s0": number(0.04),
        "z0": number(128, U8),
        "w1": RNG.integers(-127, 128, (6, 5), dtype=I8),
        "sw1": RNG.uniform(0.005, 0.02, 5).astype(F),
        "zw1": np.zeros(5, I8),
        "b1": RNG.integers(-300, 300, 5, dtype=np.int32),
        "sb1": number(0.0004),
        "zb1": number(0, np.int32),
        "s1": number(0.07),
        "z1": number(0, U8),
    }
    nodes = [
        node("QuantizeLinear", ["x", "s0", "z0"], ["xq"]),
        node("DequantizeLinear", ["xq", "s0", "z0"], ["xd"]),
        node("DequantizeLinear", ["w1", "sw1", "zw1"], ["wd"], axis=1),
        node("DequantizeLinear", ["b1", "sb1", "zb1"], ["bd"]),
        node("Gemm", ["xd", "wd", "bd"], ["g"]),
        node("Relu", ["g"], ["r"]),
        node("QuantizeLinear", ["r", "s1", "z1"], ["rq"]),
        node("DequantizeLinear", ["rq", "s1", "z1"], ["y"]),
    ]
    return write(path, nodes, [("x", F, (4, 6))], [("y", F, (4, 5))], weights)


def test_quantize_dequantize_form(tmp_path):
    path = qdq_net(tmp_path / "q.onnx")
    x = RNG.normal(size=(4, 6)).astype(F) * 2
    result, expected = golden(OnnxModel(path), x)[0], runtime(path, x=x)[0]
    # Both sum floats in another order: a code may differ where the sum lies in the middle of two.
    assert np.abs(result - expected).max() <= 0.07001
    assert (result == expected).mean() > 0.9


def test_quantized_by_the_runtimes_own_quantizer(tmp_path):
    quantization = pytest.importorskip("onnxruntime.quantization", reason="it writes the file")
    weights = {"w": RNG.normal(size=(8, 4)).astype(F), "b": RNG.normal(size=4).astype(F)}
    source = write(
        tmp_path / "f.onnx",
        [node("MatMul", ["x", "w"], ["m"]), node("Add", ["m", "b"], ["y"])],
        [("x", F, (2, 8))],
        [("y", F, (2, 4))],
        weights,
    )
    path = tmp_path / "dynamic.onnx"
    quantization.quantize_dynamic(str(source), str(path))
    x = RNG.normal(size=(2, 8)).astype(F)
    np.testing.assert_allclose(golden(OnnxModel(path), x)[0], runtime(path, x=x)[0], rtol=1e-5, atol=1e-6)


def small_cnn(path):
    """Convolutions with a residual, both poolings joined, a gate, a global average, and a softmax."""
    rng = np.random.default_rng(2)
    shapes = {"w1": (2, 1, 3, 3), "w2": (2, 2, 3, 3), "w3": (3, 4, 1, 1), "w4": (3, 3)}
    weights = {n: (rng.normal(size=s) * 0.5).astype(F) for n, s in shapes.items()}
    halves = {"kernel_shape": [2, 2], "strides": [2, 2]}
    nodes = [
        node("Conv", ["x", "w1"], ["c1"], pads=[1] * 4),
        node("Relu", ["c1"], ["r1"]),
        node("Conv", ["r1", "w2"], ["c2"], pads=[1] * 4),
        node("Add", ["c2", "r1"], ["a"]),
        node("MaxPool", ["a"], ["m"], **halves),
        node("AveragePool", ["a"], ["p"], **halves),
        node("Concat", ["m", "p"], ["j"], axis=1),
        node("Conv", ["j", "w3"], ["c3"]),
        node("LeakyRelu", ["c3"], ["l"], alpha=0.1),
        node("Sigmoid", ["c3"], ["s"]),
        node("Mul", ["l", "s"], ["g"]),
        node("GlobalAveragePool", ["g"], ["ga"]),
        node("Flatten", ["ga"], ["f"]),
        node("Gemm", ["f", "w4"], ["ge"]),
        node("Softmax", ["ge"], ["y"]),
    ]
    return write(path, nodes, [("x", F, (1, 1, 4, 4))], [("y", F, (1, 3))], weights)


def test_a_network_in_operators_of_codes(tmp_path):
    """The form QOperator of ONNX Runtime's static quantization: every code as the runtime has it."""
    quantization = pytest.importorskip("onnxruntime.quantization", reason="it writes the file")
    rng = np.random.default_rng(6)

    class Samples(quantization.CalibrationDataReader):
        left = 8

        def get_next(self):
            self.left -= 1
            return {"x": rng.normal(size=(1, 1, 4, 4)).astype(F)} if self.left >= 0 else None

    path = tmp_path / "q.onnx"
    form = quantization.QuantFormat.QOperator
    quantization.quantize_static(str(small_cnn(tmp_path / "f.onnx")), str(path), Samples(), quant_format=form)
    model = OnnxModel(path)
    assert {"QLinearAveragePool", "QLinearSoftmax", "QLinearAdd", "QLinearConcat"} <= model.operators
    for _ in range(2):
        x = rng.normal(size=(1, 1, 4, 4)).astype(F)
        np.testing.assert_array_equal(golden(model, x)[0], runtime(path, x=x)[0])


CONTRIB = {
    "QLinearAdd": (("x", "xs", "xz", "c", "cs", "cz", "ys", "yz"), 1),
    "QLinearMul": (("x", "xs", "xz", "c", "cs", "cz", "ys", "yz"), 0),
    "QLinearSigmoid": (("x", "xs", "xz", "ys", "yz"), 0),
    "QLinearLeakyRelu": (("x", "xs", "xz", "ys", "yz"), 0),
    "QGemm": (("x", "xs", "xz", "g", "cs", "cz", "gb", "ys", "yz"), 0),
}


@pytest.mark.parametrize("operator", CONTRIB)
def test_operators_of_the_runtime(tmp_path, operator):
    inputs, codes = CONTRIB[operator]
    weights = {
        "xs": number(0.05),
        "xz": number(100, U8),
        "c": RNG.integers(0, 256, (16, 16), dtype=U8),
        "g": RNG.integers(0, 256, (16, 16), dtype=U8),
        "gb": RNG.integers(-500, 500, 16, dtype=np.int32),
        "cs": number(0.03),
        "cz": number(90, U8),
        "ys": number(0.011 if operator == "QLinearSigmoid" else 0.13),
        "yz": number(20, U8),
    }
    attributes = {"alpha": 1.0} if operator == "QGemm" else {}
    path = write(
        tmp_path / "q.onnx",
        [node(operator, inputs, ["y"], domain="com.microsoft", **attributes)],
        [("x", U8, (16, 16))],
        [("y", U8, (16, 16))],
        {n: a for n, a in weights.items() if n in inputs},
        {"": 17, "com.microsoft": 1},
    )
    x = np.arange(256, dtype=U8).reshape(16, 16)
    got, expected = golden(OnnxModel(path), x)[0].astype(int), runtime(path, x=x)[0].astype(int)
    # The runtime adds with fused products, so that a sum in the middle of two codes may go the other way.
    assert np.abs(got - expected).max() <= codes
    assert (got == expected).mean() > 0.98


POOL = {"kernel_shape": [2, 2], "strides": [2, 2]}
REDUCTIONS = {
    "average": ("QLinearAveragePool", POOL, U8, (2, 3, 8, 6), 0.02, (0.02, 7)),
    "average of uneven windows": (
        "QLinearAveragePool",
        {**POOL, "kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "ceil_mode": 1},
        I8,
        (2, 3, 8, 7),
        0.021,
        (0.013, 7),
    ),
    "average with padding": (
        "QLinearAveragePool",
        {**POOL, "pads": [1, 1, 1, 1], "count_include_pad": 1},
        U8,
        (1, 2, 7, 7),
        0.021,
        (0.013, 7),
    ),
    "average, channels last": (
        "QLinearAveragePool",
        {**POOL, "channels_last": 1},
        I8,
        (1, 6, 8, 3),
        0.02,
        (0.02, 7),
    ),
    "global average": ("QLinearGlobalAveragePool", {"channels_last": 0}, U8, (9, 40, 2, 2), 0.02, (0.02, 21)),
    "softmax": ("QLinearSoftmax", {"axis": 1, "opset": 13}, U8, (3, 9, 4), 0.05, (1 / 256, 0)),
    "softmax of all axes": ("QLinearSoftmax", {"axis": 1, "opset": 11}, I8, (3, 5, 4), 0.1, (1 / 256, -128)),
}


@pytest.mark.parametrize("row", REDUCTIONS.values(), ids=REDUCTIONS)
def test_averages_and_softmax_of_codes(tmp_path, row):
    """With equal scales a fourth of the averages of four lies in the middle of two codes."""
    operator, attributes, dtype, shape, scale, (y_scale, y_zero) = row
    limits = np.iinfo(dtype)
    weights = {"xs": number(scale), "xz": number(limits.min + 100, dtype)}
    weights |= {"ys": number(y_scale), "yz": number(y_zero, dtype)}
    the_node = node(operator, ["x", "xs", "xz", "ys", "yz"], ["y"], domain="com.microsoft", **attributes)
    opsets = {"": 17, "com.microsoft": 1}
    path = write(
        tmp_path / "q.onnx", [the_node], [("x", dtype, shape)], [("y", dtype, None)], weights, opsets
    )
    x = np.random.default_rng(4).integers(limits.min, limits.max + 1, shape, dtype=dtype)
    np.testing.assert_array_equal(golden(OnnxModel(path), x)[0], runtime(path, x=x)[0])


def test_quantization_in_hardware(tmp_path):
    path = qdq_net(tmp_path / "q.onnx")
    x = RNG.normal(size=(4, 6)).astype(F) * 2
    assert compare_with_hardware(OnnxModel(path), x).mismatches == ()
