"""Small ONNX files that benchmarks/fuzz/files.py once found: results of `tg2hdl.compile(path)` are ONNX Runtime's."""

from __future__ import annotations

import numpy as np
import pytest

import tg2hdl

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

HEAD = '<ir_version: 10, opset_import: ["": 21, "qonnx.custom_op.general": 1]> '
X = np.float32([1.2569063901901245, 1.04244, -2.7, 0.0, 3.3, -0.1, 5.1, 31.7])
FILES = {
    "a float is rounded to half and becomes float again": """g (float[8] x) => (float[8] y) {
        h = Cast <to = 10> (x)
        y = Cast <to = 1> (h)
    }""",
    "a quantized value is rounded to half": """g (float[8] x) => (int8[8] y)
        <float s = {0.37}, int8 z = {3}, float t = {0.0101}> {
        q = QuantizeLinear (x, s, z)
        d = DequantizeLinear (q, s, z)
        h = Cast <to = 10> (d)
        f = Cast <to = 1> (h)
        y = QuantizeLinear (f, t, z)
    }""",
    "a repeated tensor is summed": """g (float[8] x) => (float[1] y, float[1] z)
        <int64[2] shape = {2, 4}, int64[2] twice = {2, 1}> {
        r = Reshape (x, shape)
        c = Concat <axis = 0> (r, r)
        y0 = ReduceL1 <keepdims = 0> (c)
        t = Tile (r, twice)
        z0 = ReduceSum <keepdims = 0> (t)
        one = Constant <value_ints = [1]> ()
        y = Reshape (y0, one)
        z = Reshape (z0, one)
    }""",
    "a row of codes is chosen by one remainder": """g (float[8] x) => (float[1] y)
        <int8[3, 1] codes = {36, -127, 127}, float[3] s = {0.0078125, 0.0157, 0.0036}, int8[3] z = {-128, 0, 0},
         int64[2] shape = {1, 8}, int64 three = {3}, int64[1] one = {1}> {
        table = DequantizeLinear <axis = 0> (codes, s, z)
        r = Reshape (x, shape)
        a = ArgMax <axis = 1, keepdims = 0> (r)
        i = Mod (a, three)
        row = Gather (table, i)
        y = Reshape (row, one)
    }""",
    "an integer of 64 bits is quantized": """g (float[8] x) => (uint8[8] y)
        <float s = {0.4}, uint8 z = {5}> {
        i = Cast <to = 7> (x)
        f = Cast <to = 1> (i)
        y = QuantizeLinear (f, s, z)
    }""",
}


def quant(x, scale, zero, low, high, rounding=np.rint):
    """QONNX's formula, in float32."""
    codes = rounding(np.clip(x / np.float32(scale) + np.float32(zero), low, high))
    return (codes - np.float32(zero)) * np.float32(scale)


def joined(x):
    constant = np.float32([-1.8, 0.7, 5.0, -2.6, 0.1, -7])
    parts = quant(constant, 2, 0, -2, 1, np.trunc), quant(x, 0.78740156, 0, -127, 127)
    found = np.concatenate([p.reshape(1, 2, -1, 1) for p in parts], 2)
    return quant(found, 4, 0, -32, 31)


QONNX = {
    "a rounded constant is joined to codes": (
        """g (float[1, 2, 4, 1] x) => (float[1, 2, 7, 1] y)
        <float[1, 2, 3, 1] c = {-1.8, 0.7, 5.0, -2.6, 0.1, -7}, float a = {2},
         float b = {0.78740156}, float s = {4}, float zero = {0}, float two = {2}, float eight = {8}, float six = {6}> {
        k = qonnx.custom_op.general.Quant <narrow = 0, rounding_mode = "ROUND_TO_ZERO", signed = 1> (c, a, zero, two)
        q = qonnx.custom_op.general.Quant <narrow = 1, rounding_mode = "ROUND", signed = 1> (x, b, zero, eight)
        j = Concat <axis = 2> (k, q)
        y = qonnx.custom_op.general.Quant <narrow = 0, rounding_mode = "ROUND", signed = 1> (j, s, zero, six)
    }""",
        joined,
    ),
    "codes that cannot occur have no entry": (
        """g (float[8] x) => (float[8] y)
        <float a = {0.5476591}, float b = {0.125}, float c = {0.124648325}, float k = {0.75}, float zero = {0},
         float four = {4}, float two = {2}, float five = {5}> {
        q = qonnx.custom_op.general.Quant <narrow = 0, rounding_mode = "ROUND", signed = 0> (x, a, zero, two)
        t = Add (q, k)
        f = qonnx.custom_op.general.Quant <narrow = 0, rounding_mode = "FLOOR", signed = 0> (t, b, zero, five)
        y = qonnx.custom_op.general.Quant <narrow = 1, rounding_mode = "ROUND_TO_ZERO", signed = 1> (f, c, four, four)
    }""",
        lambda x: quant(
            quant(quant(x, 0.5476591, 0, 0, 3) + np.float32(0.75), 0.125, 0, 0, 31, np.floor),
            0.124648325,
            4,
            -7,
            7,
            np.trunc,
        ),
    ),
    "codes that are quantized again, in the same way": (
        """g (float[8] x) => (float[8] y) <float s = {1.5}, float zero = {0}, float two = {2}> {
        q = qonnx.custom_op.general.Quant <narrow = 0, rounding_mode = "ROUND", signed = 1> (x, s, zero, two)
        y = qonnx.custom_op.general.Quant <narrow = 0, rounding_mode = "ROUND", signed = 1> (q, s, zero, two)
    }""",
        lambda x: quant(quant(x, 1.5, 0, -2, 1), 1.5, 0, -2, 1),
    ),
    "codes that are all the zero point": (
        """g (float[8] x) => (float[8] y)
        <float a = {0.2}, float s = {1.82}, float k = {4.1}, float zero = {0}, float three = {3}, float four = {4}> {
        q = qonnx.custom_op.general.Quant <narrow = 1, rounding_mode = "ROUND", signed = 1> (x, a, zero, four)
        t = Add (q, k)
        c = qonnx.custom_op.general.Quant <narrow = 1, rounding_mode = "ROUND", signed = 1> (t, s, three, three)
        y = Div (c, x)
    }""",
        lambda x: quant(quant(x, 0.2, 0, -7, 7) + np.float32(4.1), 1.82, 3, -3, 3) / x,
    ),
}


@pytest.mark.parametrize("name", QONNX)
def test_result_is_that_of_the_formula(tmp_path, name):
    text, formula = QONNX[name]
    path = tmp_path / "file.onnx"
    onnx.save(onnx.parser.parse_model(HEAD + text), str(path))
    accelerator = tg2hdl.compile(path)
    x = X.reshape(accelerator.inputs[0].shape) + np.float32(0.01)
    np.testing.assert_allclose(accelerator.golden(x), formula(x), rtol=1e-6)


def results(tmp_path, text: str, *arrays: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Pairs of our results and ONNX Runtime's."""
    from tg2hdl_backend.testing.onnx_files import runtime

    path = tmp_path / "file.onnx"
    model = onnx.parser.parse_model(HEAD + text)
    onnx.save(model, str(path))
    found = tg2hdl.compile(path).golden(*arrays)
    names = [i.name for i in model.graph.input]
    want = runtime(path, **dict(zip(names, arrays, strict=True)))
    return list(zip(found.values() if isinstance(found, dict) else (found,), want, strict=True))


@pytest.mark.parametrize("name", FILES)
def test_result_is_onnx_runtimes(tmp_path, name):
    for got, want in results(tmp_path, FILES[name], X):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-6)
