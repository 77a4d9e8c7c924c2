"""Graphs that bring their own scales: every code against the formula of ONNX, written here in numpy."""

import numpy as np
import pytest

from tg2hdl_ir import DType, InputError, UnsupportedError
from tg2hdl_ir.tensors import GraphBuilder, Quantizer, TensorGraph
from tg2hdl_quant.graph import import_graph

RNG = np.random.default_rng(3)


def quantizer(scale, zero=0, low=0, high=255):
    return Quantizer(np.asarray(scale, np.float32), np.asarray(zero, np.int64), low, high)


class Net:
    """A graph of quantizers and float operations, built as an importer does."""

    def __init__(self, *shapes):
        self.build = GraphBuilder()
        self.inputs = [self.build.add("input", (), s, DType.FP32, n, f"x{n}") for n, s in enumerate(shapes)]

    def quantized(self, number, q, label, dtype=DType.UINT8):
        codes = self.build.add("quantize", (number,), self.build.nodes[number].shape, dtype, q, label)
        return self.build.add("dequantize", (codes,), self.build.nodes[codes].shape, DType.FP32, q)

    def weights(self, codes, scale):
        number = self.build.const(codes, DType.INT8, "w")
        return self.build.add(
            "dequantize", (number,), codes.shape, DType.FP32, quantizer(scale, 0, -128, 127)
        )

    def matmul(self, x, w):
        rows, _ = self.build.nodes[w].shape
        left = self.build.add("reshape", (x,), (rows, 1), DType.FP32)
        product = self.build.elementwise("MUL", left, w, dtype=DType.FP32)
        return self.build.reduce("sum", product, (0,), DType.FP32, "matmul")

    def graph(self, *outputs):
        names = tuple(f"x{n}" for n in range(len(self.inputs)))
        return TensorGraph("net", tuple(self.build.nodes), tuple(self.inputs), outputs, names)


def codes_of(x, scale, zero, low=0, high=255):
    return np.clip(np.rint(x.astype(np.float32) / np.float32(scale)) + zero, low, high).astype(np.int64)


@pytest.mark.parametrize(("scale", "zero"), [(0.11, 131), (0.125, 7), (0.004, 128)])
def test_a_layer_has_the_codes_of_the_float32_product(scale, zero):
    codes, w_scale = RNG.integers(-127, 128, (20, 6)), RNG.uniform(0.01, 0.03, (1, 6)).astype(np.float32)
    net = Net((20,))
    x = net.quantized(net.inputs[0], quantizer(0.03, 120), "x")
    y = net.quantized(net.matmul(x, net.weights(codes, w_scale)), quantizer(scale, zero), "y")
    q = import_graph(net.graph(y))
    assert q.report.is_exact
    assert not any(n.dtype.is_float for n in q.graph.nodes)
    samples = RNG.normal(size=(3000, 20)).astype(np.float32)
    integers = q.quantize_input(0, samples)
    np.testing.assert_array_equal(integers, codes_of(samples, 0.03, 120))
    total = (integers.astype(np.int64) - 120) @ codes
    multiplier = np.float32(0.03) * w_scale[0] / np.float32(scale)
    expected = np.clip(np.rint(total.astype(np.float32) * multiplier) + zero, 0, 255)
    found = q.reference(integers)[0]
    np.testing.assert_array_equal(found, expected)
    assert len(np.unique(found)) > 30
    np.testing.assert_array_equal(
        q.dequantize(0, found), (expected.astype(np.float32) - zero) * np.float32(scale)
    )


def test_a_sum_is_compared_for_all_pairs_of_codes():
    net = Net((65536,), (65536,))
    a = net.quantized(net.inputs[0], quantizer(0.021, 100), "a")
    b = net.quantized(net.inputs[1], quantizer(0.034, 17), "b")
    y = net.quantized(net.build.elementwise("ADD", a, b, dtype=DType.FP32), quantizer(0.043, 90), "y")
    q = import_graph(net.graph(y))
    (how,) = q.report.layers
    assert (how.kind, how.differs) == ("sum", 0.0)
    first, second = (v.reshape(1, -1) for v in np.mgrid[0:256, 0:256].astype(np.uint8))
    real = (first - 100.0) * np.float32(0.021) + (second - 17.0) * np.float32(0.034)
    exact = real.astype(np.float64) / np.float32(0.043)
    found = q.reference(first, second)[0]
    clear = np.abs(exact - np.floor(exact) - 0.5) > 1e-4
    np.testing.assert_array_equal(found[clear], np.clip(np.rint(exact) + 90, 0, 255)[clear])
    assert clear.mean() > 0.99


def test_parts_of_a_concatenation_are_rounded_by_themselves():
    net = Net((4,), (4,))
    a = net.quantized(net.inputs[0], quantizer(0.02, 128), "a")
    b = net.quantized(net.inputs[1], quantizer(0.05, 128), "b")
    pads = [
        net.build.add("pad", (n,), (8,), DType.FP32, (around,)) for n, around in ((a, (0, 4)), (b, (4, 0)))
    ]
    joined = net.build.elementwise("ADD", *pads, dtype=DType.FP32)
    q = import_graph(net.graph(net.quantized(joined, quantizer(0.05, 128), "y")))
    assert [r.kind for r in q.report.layers] == ["multiplier", "same"]
    x = RNG.normal(size=(500, 8)).astype(np.float32) * 3
    integers = [q.quantize_input(n, part) for n, part in enumerate((x[:, :4], x[:, 4:]))]
    values = (integers[0].astype(np.float32) - 128) * np.float32(0.02)
    expected = np.concatenate([codes_of(values, 0.05, 128), integers[1]], 1)
    np.testing.assert_array_equal(q.reference(*integers)[0], expected)


def test_a_function_of_codes_is_a_table():
    net = Net((7,))
    x = net.quantized(net.inputs[0], quantizer(0.05, 128), "x")
    y = net.build.elementwise("EXP2", x, dtype=DType.FP32)
    q = import_graph(net.graph(net.quantized(y, quantizer(0.5), "y")))
    assert [r.kind for r in q.report.layers] == ["table"]
    codes = np.arange(256, dtype=np.uint8)[:, None].repeat(7, 1)
    expected = codes_of(np.exp2((codes - np.float32(128)) * np.float32(0.05)), 0.5, 0)
    np.testing.assert_array_equal(q.reference(codes)[0], expected)


def test_what_has_no_integer_form_stays_in_float_and_is_named():
    net = Net((6,))
    codes = RNG.integers(-127, 128, (6, 5))
    x = net.quantized(net.inputs[0], quantizer(0.03, 120), "x")
    z = net.build.elementwise("EXP2", net.matmul(x, net.weights(codes, 0.01)), dtype=DType.FP32, label="exp2")
    graph = net.graph(net.quantized(z, quantizer(0.01, 3), "y"))
    q = import_graph(graph)
    assert q.report.in_float == ("y", "exp2")
    assert not q.report.is_exact
    assert "left in float: y, exp2" in str(q.report)
    samples = RNG.normal(size=(400, 6)).astype(np.float32)
    integers = q.quantize_input(0, samples)
    total = (integers.astype(np.int64) - 120) @ codes * (np.float32(0.03) * np.float64(np.float32(0.01)))
    expected = codes_of(np.exp2(total.astype(np.float32)), 0.01, 3)
    assert (q.reference(integers)[0] != expected).mean() < 0.01
    with pytest.raises(UnsupportedError, match="no integer form for y, exp2"):
        import_graph(graph, allow_float=False)


def test_a_graph_without_quantizers_is_refused():
    net = Net((3,))
    y = net.build.elementwise("EXP2", net.inputs[0], dtype=DType.FP32)
    with pytest.raises(InputError) as caught:
        import_graph(net.graph(y))
    assert str(caught.value) == (
        "bad input: model net has no quantizers with known scales\n"
        "  hint: quantize it with tg2hdl.quantize(model, samples)"
    )


def test_a_product_of_constants_is_a_constant():
    net = Net((4,))
    x = net.quantized(net.inputs[0], quantizer(0.05, 128), "x")
    moved = net.build.elementwise("SUB", x, net.build.const([0.5, 1, -1, 2], DType.FP32), dtype=DType.FP32)
    q = import_graph(net.graph(net.quantized(moved, quantizer(0.05, 128), "y")))
    codes = np.arange(256, dtype=np.uint8)[:, None].repeat(4, 1)
    expected = np.clip(codes - np.array([10, 20, -20, 40]), 0, 255)
    np.testing.assert_array_equal(q.reference(codes)[0], expected)
