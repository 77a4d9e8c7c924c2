"""QONNX files as integer hardware, against the formula of its Quant operator written here in numpy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the onnx package builds the files")

import tg2hdl  # noqa: E402
from tg2hdl_backend import OnnxModel  # noqa: E402
from tg2hdl_backend.testing.onnx_files import write  # noqa: E402
from tg2hdl_ir.errors import UnsupportedError  # noqa: E402

F = np.float32
DOMAIN = "qonnx.custom_op.general"
OPSETS = {"": 17, DOMAIN: 1}
RNG = np.random.default_rng(0)


def quant(x, scale, zero, low, high, rounding=np.rint):
    return (rounding(np.clip(x / F(scale) + F(zero), low, high)) - F(zero)) * F(scale)


def node(kind: str, inputs: list[str], output: str, **attributes: object) -> onnx.NodeProto:
    domain = DOMAIN if "Quant" in kind else ""
    return onnx.helper.make_node(kind, inputs, [output], name=output, domain=domain, **attributes)


def two_layers(path: Path, weight_bits: int, rounding: str = "ROUND") -> tuple[Path, dict[str, np.ndarray]]:
    """As Brevitas exports them: weights quantized in the file, codes behind the rectifier."""
    weights = {
        "w1": RNG.normal(size=(6, 12)).astype(F),
        "w2": RNG.normal(size=(5, 6)).astype(F),
        "s1": RNG.uniform(0.2, 0.4, (6, 1)).astype(F),
        "s2": np.array(0.3, F),
        "sx": np.array(0.04, F),
        "sh": np.array(0.11, F),
        "zero": np.array(0, F),
        "wbits": np.array(weight_bits, F),
        "eight": np.array(8, F),
        "four": np.array(4, F),
    }
    nodes = [
        node("Quant", ["x", "sx", "zero", "eight"], "xq", signed=1, narrow=0, rounding_mode=rounding),
        node("Quant", ["w1", "s1", "zero", "wbits"], "w1q", signed=1, narrow=1, rounding_mode="ROUND"),
        node("Transpose", ["w1q"], "w1t", perm=[1, 0]),
        node("MatMul", ["xq", "w1t"], "m1"),
        node("Relu", ["m1"], "r1"),
        node("Quant", ["r1", "sh", "zero", "four"], "hq", signed=0, narrow=0, rounding_mode="ROUND"),
        node("Quant", ["w2", "s2", "zero", "wbits"], "w2q", signed=1, narrow=1, rounding_mode="ROUND"),
        node("Transpose", ["w2q"], "w2t", perm=[1, 0]),
        node("MatMul", ["hq", "w2t"], "y"),
    ]
    return write(path, nodes, [("x", F, (1, 12))], [("y", F, (1, 5))], weights, OPSETS), weights


@pytest.mark.parametrize("weight_bits", [8, 4, 2])
def test_layers_have_the_numbers_of_the_formula(tmp_path: Path, weight_bits: int) -> None:
    path, w = two_layers(tmp_path / "q.onnx", weight_bits)
    q = tg2hdl.integer_model(OnnxModel(path))
    assert q.report.is_exact
    assert not any(n.dtype.is_float for n in q.graph.nodes)
    x = RNG.normal(size=(500, 1, 12)).astype(F) * 2
    limit = (1 << (weight_bits - 1)) - 1
    w1, w2 = (quant(w[n], w[s], 0, -limit, limit) for n, s in (("w1", "s1"), ("w2", "s2")))
    hidden = quant(np.maximum(quant(x, 0.04, 0, -128, 127) @ w1.T, 0), 0.11, 0, 0, 15)
    np.testing.assert_allclose(q.evaluate(x), hidden @ w2.T, rtol=1e-5, atol=1e-5)
    accelerator = tg2hdl.compile(q, x[0], multipliers=2)
    result = accelerator.simulate(x[0], engine="amaranth")
    np.testing.assert_array_equal(result.output, q.reference(*q.quantize_input(x[0])))
    assert result.cycles.compute == accelerator.predicted_cycles
    memories = {m.name: m.dtype.bit_width for m in accelerator.design.buffers if m.name.startswith("w")}
    assert memories
    assert max(memories.values()) <= weight_bits


def test_another_rounding_mode_stays_in_float(tmp_path: Path) -> None:
    path, w = two_layers(tmp_path / "q.onnx", 8, rounding="FLOOR")
    x = RNG.normal(size=(1, 12)).astype(F)
    found = tg2hdl.compile(OnnxModel(path), x).golden(x)
    w1, w2 = (quant(w[n], w[s], 0, -127, 127) for n, s in (("w1", "s1"), ("w2", "s2")))
    hidden = quant(np.maximum(quant(x, 0.04, 0, -128, 127, np.floor) @ w1.T, 0), 0.11, 0, 0, 15)
    np.testing.assert_allclose(found, hidden @ w2.T, rtol=1e-4, atol=1e-4)


def test_bipolar(tmp_path: Path) -> None:
    weights = {"s": np.array(0.5, F)}
    nodes = [node("BipolarQuant", ["x", "s"], "y")]
    path = write(tmp_path / "b.onnx", nodes, [("x", F, (5,))], [("y", F, (5,))], weights, OPSETS)
    x = np.array([-2, -0.1, 0, 0.1, 3], F)
    assert tg2hdl.compile(OnnxModel(path), x).golden(x).tolist() == [-0.5, -0.5, 0.5, 0.5, 0.5]


@pytest.mark.parametrize(
    ("bits", "attributes", "text"),
    [
        (2.5, {}, "codes of 2.5 bits"),
        (17.0, {}, "codes of 17 bits"),
        (1.0, {"signed": 1}, "signed codes of one bit"),
        (8.0, {"rounding_mode": "HALF_UP"}, "rounding mode HALF_UP"),
    ],
)
def test_refusals(tmp_path: Path, bits: float, attributes: dict, text: str) -> None:
    weights = {"s": np.array(0.5, F), "z": np.array(0, F), "b": np.array(bits, F)}
    nodes = [node("Quant", ["x", "s", "z", "b"], "y", **attributes)]
    path = write(tmp_path / "q.onnx", nodes, [("x", F, (5,))], [("y", F, (5,))], weights, OPSETS)
    with pytest.raises(UnsupportedError, match=text):
        OnnxModel(path)
