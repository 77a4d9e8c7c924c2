"""Small ONNX files that benchmarks/fuzz/files.py once found: results of `tg2hdl.compile(path)` are ONNX Runtime's."""

from __future__ import annotations

import numpy as np
import pytest

import tg2hdl

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

HEAD = '<ir_version: 10, opset_import: ["": 21]> '
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
    "an integer of 64 bits is quantized": """g (float[8] x) => (uint8[8] y)
        <float s = {0.4}, uint8 z = {5}> {
        i = Cast <to = 7> (x)
        f = Cast <to = 1> (i)
        y = QuantizeLinear (f, s, z)
    }""",
}


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
    x = np.float32([1.2569063901901245, 1.04244, -2.7, 0.0, 3.3, -0.1, 5.1, 31.7])
    for got, want in results(tmp_path, FILES[name], x):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-6)
