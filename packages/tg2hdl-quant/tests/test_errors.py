"""Errors of quantization by their full texts; those of layers and plugins are tested beside their features."""

from types import SimpleNamespace

import numpy as np
import pytest

from tg2hdl_ir import DType, QuantizerDef, Tg2hdlError, hookimpl, registry
from tg2hdl_ir.tensors import GraphBuilder, Quantizer, TensorGraph
from tg2hdl_quant.graph import QuantizeOptions, import_graph, quantize_graph
from tg2hdl_quant.graph.builder import IntegerBuilder
from tg2hdl_quant.graph.products import by_float32_product
from tg2hdl_quant.graph.sum_builder import SumBuilder
from tg2hdl_quant.graph.values import IntegerSum, IntegerValue
from tg2hdl_quant.graph.weight_codes import WeightRounding

FLOAT = DType.FP32
SAMPLES = np.linspace(-1, 1, 20).reshape(5, 4).astype(np.float32)


def graph(inputs=1, dtype=FLOAT, cast=None):
    """Products of the first input with weights, and a sum with the others."""
    build = GraphBuilder()
    numbers = [build.add("input", (), (4,), dtype, n, f"x{n}") for n in range(inputs)]
    weights = build.const(np.arange(12).reshape(4, 3).astype(np.float32) - 5, FLOAT, "w")
    x = numbers[0] if dtype is FLOAT else build.cast(numbers[0], FLOAT)
    for other in numbers[1:]:
        x = build.elementwise("ADD", x, other, dtype=FLOAT)
    row = build.add("reshape", (x,), (4, 1), FLOAT)
    product = build.elementwise("MUL", row, weights, dtype=FLOAT)
    y = build.reduce("sum", product, (0,), FLOAT, "fc")
    if cast:
        y = build.cast(y, cast)
    names = tuple(f"x{n}" for n in range(inputs))
    return TensorGraph("net", tuple(build.nodes), tuple(numbers), (y,), names)


def unrounded():
    rounding = WeightRounding("compensated", graph(), [SAMPLES])
    rounding._method = QuantizerDef("own", "", round_weights=lambda weights, scale, limit, x: weights * 0.3)
    weights = np.arange(12.0).reshape(4, 3)
    row = next(n for n, node in enumerate(graph().nodes) if node.op == "reshape")
    rounding.codes(weights, np.ones((1, 3)), 7, row, np.ones(()), (4, 3), (0,), "layer fc")


def infinite():
    quantize_graph(graph(), [SAMPLES]).quantize_input(0, np.full((1, 4), np.nan, np.float32))


def wide_product():
    builder = IntegerBuilder()
    source = builder.add("input", (), (), DType.INT32, 0)
    total = IntegerSum((IntegerValue(source, np.asarray(0.5), -(1 << 26), 1 << 26),), np.zeros(()), ())
    by_float32_product(builder, total, 1.0, 1 << 30, "layer x")


def several_scales():
    value = IntegerValue(0, np.array([0.5, 0.25]), -127, 127)
    sums = SimpleNamespace(_value=lambda number: value, _where=lambda number: "layer mul")
    SumBuilder.scalar(sums, 0)


def imported():
    build = GraphBuilder()
    scale = Quantizer(np.float32(0.1), np.int64(0), -128, 127)
    x = build.add("input", (), (4,), FLOAT, 0, "x")
    codes = build.add("quantize", (x,), (4,), DType.INT8, scale, "codes")
    y = build.add("dequantize", (codes,), (4,), FLOAT, scale)
    y = build.elementwise("EXP2", build.elementwise("MUL", y, y, dtype=FLOAT), dtype=FLOAT, label="exp2")
    import_graph(TensorGraph("net", tuple(build.nodes), (x,), (y,), ("x",)), allow_float=False)


CASES = {
    "names of layers": (
        lambda: QuantizeOptions(float_layers=3),
        'bad input: float_layers=3 are not names\n  hint: give e.g. ("softmax", "fc1")',
    ),
    "width": (
        lambda: QuantizeOptions(bits=1),
        "bad input: bits=1 is not a width\n  hint: give 2 to 16 bits",
    ),
    "number of samples": (
        lambda: quantize_graph(graph(2), [SAMPLES]),
        "bad input: samples for 1 inputs, the model has 2\n  hint: pass one array per input: x0, x1",
    ),
    "lengths of samples": (
        lambda: quantize_graph(graph(2), [SAMPLES, SAMPLES[:3]]),
        "bad input: the inputs have different numbers of samples: 5, 3\n"
        "  hint: the first axis counts samples: give as many of each input",
    ),
    "infinite samples": (
        lambda: quantize_graph(graph(), [np.where(SAMPLES > 0.9, np.inf, SAMPLES)]),
        "bad input: samples of input 'x0' have an infinity at index (4, 3)\n"
        "  at: input 'x0'\n"
        "  note: 1 of 20 elements are not finite\n"
        "  hint: remove these samples, or clip them with numpy.nan_to_num",
    ),
    "labels": (
        lambda: quantize_graph(graph(), [SAMPLES], labels=[0.5] * 5),
        "bad input: labels of float64 that are not class numbers\n"
        "  hint: give the number of each sample's class, from 0",
    ),
    "label without a score": (
        lambda: quantize_graph(graph(), [SAMPLES], labels=[3] * 5),
        "bad input: label 3 for 3 scores\n  hint: give class numbers, from 0",
    ),
    "masked values": (
        lambda: quantize_graph(graph(), [np.full((5, 4), 1e9, np.float32)]),
        "bad input: all values of reshape on the samples are beyond 1e+08: they are taken for masks\n"
        "  at: layer reshape\n"
        "  hint: scale the inputs or the weights down",
    ),
    "method": (
        unrounded,
        "bad input: method 'compensated' gave no codes of shape (1, 3, 4) within +-7\n"
        "  at: layer fc\n"
        "  hint: correct the method: tg2hdl_quant.testing.check_quantizer tests it",
    ),
    "infinite input": (
        infinite,
        "bad input: input 'x0' has NaN or infinite elements\n"
        "  at: model net\n"
        "  hint: give finite values, e.g. with numpy.nan_to_num",
    ),
    "product in float32": (
        wide_product,
        "unsupported: a sum up to 67108864 times 0.5 cannot be rounded as ONNX Runtime does\n"
        "  at: layer x\n"
        "  note: sums have up to 24 bits, multipliers lie between 2^-38 and 2^23\n"
        "  hint: choose rounding='half_even', which differs in about one result of a million",
    ),
    "float in an imported graph": (
        imported,
        "unsupported: no integer form for exp2\n"
        "  at: model net\n"
        "  hint: allow_float=True computes them in float; or take them out of the model",
    ),
    "scales of an operand": (
        several_scales,
        "unsupported: an operand of a product of two activations has several scales\n"
        "  at: layer mul\n"
        "  hint: quantize with input_scales='one'",
    ),
    "no integer form": (
        lambda: quantize_graph(graph(cast=DType.INT32), [SAMPLES]),
        "unsupported: cast of int32[3] has no integer form\n"
        "  at: op cast\n"
        "  hint: allow_float=True computes it in float, or run it on the host",
    ),
    "sums of wide integers": (
        lambda: quantize_graph(graph(dtype=DType.INT64), [np.full((5, 4), 10_000_000, np.int64)]),
        "unsupported: sums of products with integers from -9,223,372,036,854,775,808 to "
        "9,223,372,036,854,775,807 need more than 64 bits\n"
        "  at: layer w\n"
        "  hint: give samples of a narrower type, such as int8 or float32",
    ),
}


@pytest.mark.parametrize(("make", "text"), CASES.values(), ids=CASES)
def test_text_of_an_error(make, text):
    with pytest.raises(Tg2hdlError) as caught:
        make()
    assert str(caught.value) == text


METHODS = {
    "NaN": (
        "calibrate",
        lambda values, bits: (np.nan, 1.0),
        "gave (nan, 1.0), not a finite range (low, high)",
    ),
    "the wrong way round": (
        "calibrate",
        lambda values, bits: (1.0, -1.0),
        "gave (1.0, -1.0), not a finite range (low, high)",
    ),
    "one number": ("calibrate", lambda values, bits: 1.0, "gave 1.0, not a finite range (low, high)"),
    "an exception": (
        "calibrate",
        lambda values, bits: 1 // 0,
        "raised ZeroDivisionError: integer division or modulo by zero",
    ),
    "weights": (
        "round_weights",
        lambda *given: 1 // 0,
        "raised ZeroDivisionError: integer division or modulo by zero",
    ),
}


@pytest.mark.parametrize("case", METHODS)
def test_a_faulty_method_of_a_plugin_is_named(case):
    field, function, text = METHODS[case]

    class Plugin:
        @hookimpl
        def tg2hdl_quantizers(self):
            return [QuantizerDef("acme", "", **{field: function})]

    option = {"calibrate": "calibration", "round_weights": "weight_rounding"}[field]
    with registry().extended(Plugin(), distribution="acme"), pytest.raises(Tg2hdlError) as caught:
        quantize_graph(graph(), [SAMPLES], options=QuantizeOptions(**{option: "acme"}))
    assert caught.value.message.startswith("quantizer 'acme' of plugin ")
    assert caught.value.message.endswith(f": {field} {text}")
    assert "--no-plugin" in caught.value.hint
