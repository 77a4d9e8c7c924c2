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
    # Quant is defined in float32, where these sums are rounded.
    assert not q.report.is_exact
    assert "hq: Quant is defined in float32" in str(q.report)
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


MODES = {
    "ROUND": np.round,
    "HALF_EVEN": np.round,
    "floor": np.floor,
    "CEIL": np.ceil,
    "UP": lambda x: np.sign(x) * np.ceil(np.abs(x)),
    "DOWN": np.trunc,
    "ROUND_TO_ZERO": np.trunc,
    "HALF_UP": lambda x: np.sign(x) * np.floor(np.abs(x) + F(0.5)),
    "HALF_DOWN": lambda x: np.sign(x) * np.ceil(np.abs(x) - F(0.5)),
}


@pytest.mark.parametrize("kind", ["Quant", "IntQuant"])
@pytest.mark.parametrize("mode", MODES)
def test_rounding_modes(tmp_path: Path, mode: str, kind: str) -> None:
    """Steps that are powers of two, so that every number is exact and many are ties."""
    values = {
        **{"sx": np.array(0.5, F), "sw": np.array(0.25, F), "sh": np.array(2, F), "so": np.array(4, F)},
        **{"zero": np.array(0, F), "two": np.array(2, F), "eight": np.array(8, F), "four": np.array(4, F)},
        "w": RNG.integers(-9, 9, (12, 6)).astype(F) / 4,
        "b": RNG.integers(-99, 99, 6).astype(F) / 8,
    }
    options = {"signed": 1, "narrow": 0, "rounding_mode": mode}
    nodes = [
        node(kind, ["x", "sx", "zero", "eight"], "xq", **options),
        node(kind, ["w", "sw", "zero", "eight"], "wq", **options),
        node("MatMul", ["xq", "wq"], "p"),
        node("Add", ["p", "b"], "m"),
        node(kind, ["m", "sh", "zero", "eight"], "h", **options),
        node(kind, ["h", "so", "two", "four"], "y", **options),
    ]
    nodes = [n if n.op_type != "IntQuant" else _in_domain(n) for n in nodes]
    path = write(tmp_path / "q.onnx", nodes, [("x", F, (4, 12))], [("y", F, (4, 6))], values, OPSETS)
    x = RNG.integers(-99, 99, (4, 12)).astype(F) / 8
    limits, rounding = (-128, 127), MODES[mode]
    inner = quant(x, 0.5, 0, *limits, rounding) @ quant(values["w"], 0.25, 0, *limits, rounding)
    inner += values["b"]
    want = quant(quant(inner, 2, 0, *limits, rounding), 4, 2, -8, 7, rounding)
    accelerator = tg2hdl.compile(path, x, multipliers=4)
    np.testing.assert_array_equal(accelerator.golden(x), want)
    if kind == "Quant" and mode in ("floor", "HALF_UP"):
        np.testing.assert_array_equal(accelerator.simulate(x).output, want)
    assert accelerator.outputs[0].code_dtype.bit_width == 8
    if rounding is np.round:
        assert accelerator.in_float == ()
    else:
        named = {"ROUND_TO_ZERO": "DOWN", "HALF_UP": "HALF_AWAY"}.get(mode, mode.upper())
        assert f"xq (its codes are rounded by {named})" in accelerator.in_float
        assert not any(name.startswith("wq") for name in accelerator.in_float), "weights are codes already"
        if named in ("FLOOR", "CEIL"):
            assert len(accelerator.in_float) == 1, "sums of products are rounded in integers"


@pytest.mark.parametrize("mode", MODES)
def test_steps_are_divided_and_rounded_once(tmp_path: Path, mode: str) -> None:
    """Multiples and halves of a step of any size: a product with the reciprocal falls on the other side of some."""
    scale = F(RNG.uniform(0.01, 0.3))
    zero = 0 if MODES[mode] is np.round else 2
    values = {"s": np.array(scale), "z": np.array(zero, F), "eight": np.array(8, F)}
    nodes = [node("Quant", ["x", "s", "z", "eight"], "y", signed=1, narrow=0, rounding_mode=mode)]
    path = write(tmp_path / "q.onnx", nodes, [("x", F, (400,))], [("y", F, (400,))], values, OPSETS)
    x = (np.arange(-200, 200).astype(F) / 2 * scale).astype(F)
    np.testing.assert_array_equal(
        tg2hdl.compile(path, x).golden(x), quant(x, scale, zero, -128, 127, MODES[mode])
    )


def _in_domain(proto: onnx.NodeProto) -> onnx.NodeProto:
    proto.domain = DOMAIN
    return proto


def test_codes_of_another_rounding_feed_integer_layers(tmp_path: Path) -> None:
    path, w = two_layers(tmp_path / "q.onnx", 8, rounding="FLOOR")
    x = RNG.normal(size=(1, 12)).astype(F)
    w1, w2 = (quant(w[n], w[s], 0, -127, 127) for n, s in (("w1", "s1"), ("w2", "s2")))
    hidden = quant(np.maximum(quant(x, 0.04, 0, -128, 127, np.floor) @ w1.T, 0), 0.11, 0, 0, 15)
    accelerator = tg2hdl.compile(path, x)
    np.testing.assert_allclose(accelerator.golden(x), hidden @ w2.T, rtol=1e-5, atol=1e-5)
    assert accelerator.in_float == ("xq (its codes are rounded by FLOOR)",)
    weights = [b for b in accelerator.design.buffers if b.name.startswith("w")]
    assert weights
    assert not any(b.dtype.is_float for b in weights)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("version", [1, 2])
def test_trunc(tmp_path: Path, mode: str, version: int) -> None:
    """The codes of a sum without their last three bits."""
    names = {"sx": 0.5, "one": 1, "zero": 0, "z": 8, "eight": 8, "five": 5, "so": 4}
    values = {n: np.array(v, F) for n, v in names.items()}
    values["w"] = RNG.integers(-2, 3, (12, 6)).astype(F)
    nodes = [
        node("Quant", ["x", "sx", "zero", "eight"], "xq", signed=1, narrow=0),
        node("Quant", ["w", "one", "zero", "eight"], "wq", signed=1, narrow=0),
        node("MatMul", ["xq", "wq"], "m"),
        _in_domain(
            node("Trunc", ["m", "sx", "z", "eight", "five"], "y", rounding_mode=mode)
            if version == 1
            else node("Trunc", ["m", "sx", "z", "eight", "so", "five"], "y", rounding_mode=mode)
        ),
    ]
    opsets = {"": 17, DOMAIN: version}
    path = write(tmp_path / "t.onnx", nodes, [("x", F, (4, 12))], [("y", F, (4, 6))], values, opsets)
    x = RNG.integers(-9, 9, (4, 12)).astype(F) / 2
    steps = (np.round((x @ values["w"]) / F(0.5) + F(8)) / F(8)).astype(F)
    rounded = MODES[mode](np.clip(steps, -16, 15) if version == 2 else steps)
    want = (rounded - F(8)) * F(0.5) if version == 1 else (rounded - F(1)) * F(4)
    accelerator = tg2hdl.compile(path, x, multipliers=4)
    np.testing.assert_array_equal(accelerator.golden(x), want)
    if mode in ("ROUND", "UP"):
        np.testing.assert_array_equal(accelerator.simulate(x).output, want)
    assert accelerator.in_float == ()
    assert not accelerator.outputs[0].code_dtype.is_float


def test_bipolar_layers_are_integers(tmp_path: Path) -> None:
    values = {"s": np.array(0.5, F), "sw": RNG.uniform(0.1, 1, (1, 6)).astype(F)}
    values["w"] = RNG.normal(size=(12, 6)).astype(F)
    nodes = [
        node("BipolarQuant", ["x", "s"], "xq"),
        node("BipolarQuant", ["w", "sw"], "wq"),
        node("MatMul", ["xq", "wq"], "m"),
        node("BipolarQuant", ["m", "s"], "y"),
    ]
    path = write(tmp_path / "b.onnx", nodes, [("x", F, (3, 12))], [("y", F, (3, 6))], values, OPSETS)
    x = RNG.integers(-2, 3, (3, 12)).astype(F)
    sums = np.where(x >= 0, 1, -1) @ np.where(values["w"] >= 0, 1, -1)
    accelerator = tg2hdl.compile(path, x, multipliers=2)
    np.testing.assert_array_equal(accelerator.golden(x), np.where(sums >= 0, F(0.5), F(-0.5)))
    assert accelerator.outputs[0].code_dtype.bit_width == 8


def test_one_bit_and_wide_codes(tmp_path: Path) -> None:
    for bits, limits in ((1, None), (17, (-(1 << 16), (1 << 16) - 1)), (32, (-(1 << 31), (1 << 31) - 1))):
        values = {"s": np.array(0.25, F), "z": np.array(0, F), "b": np.array(bits, F)}
        nodes = [node("Quant", ["x", "s", "z", "b"], "y", signed=1, narrow=0)]
        path = write(tmp_path / "w.onnx", nodes, [("x", F, (6,))], [("y", F, (6,))], values, OPSETS)
        x = np.array([-1e5, -0.3, 0, 0.125, 0.375, 7e8], F)
        want = np.where(x >= 0, F(0.25), F(-0.25)) if limits is None else quant(x, 0.25, 0, *limits)
        accelerator = tg2hdl.compile(path, x)
        np.testing.assert_array_equal(accelerator.golden(x), want)
        if bits > 1:
            assert accelerator.in_float[0] == f"y (Quant: codes of {bits} bits)"


@pytest.mark.parametrize("given", ["scale", "zero"])
def test_scales_that_are_inputs(tmp_path: Path, given: str) -> None:
    values = {"scale": np.array(0.5, F), "zero": np.array(1, F), "b": np.array(4, F)}
    nodes = [node("Quant", ["x", "scale", "zero", "b"], "y", signed=1, narrow=0)]
    rest = {n: v for n, v in values.items() if n != given}
    inputs = [("x", F, (6,)), (given, F, ())]
    path = write(tmp_path / "q.onnx", nodes, inputs, [("y", F, (6,))], rest, OPSETS)
    x = RNG.normal(size=6).astype(F) * 3
    accelerator = tg2hdl.compile(path, x, values[given])
    for value in (values[given], F(2) * values[given]):
        want = quant(x, *({**values, given: value}[n] for n in ("scale", "zero")), -8, 7)
        np.testing.assert_array_equal(accelerator.golden({"x": x, given: value}), want)
    name = "scale" if given == "scale" else "zero point"
    assert accelerator.in_float == (f"y (Quant: its {name} is computed from inputs)",)


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
        (65.0, {}, "codes of 65 bits"),
        (8.0, {"rounding_mode": "STOCHASTIC"}, "rounding mode STOCHASTIC"),
    ],
)
def test_refusals(tmp_path: Path, bits: float, attributes: dict, text: str) -> None:
    weights = {"s": np.array(0.5, F), "z": np.array(0, F), "b": np.array(bits, F)}
    nodes = [node("Quant", ["x", "s", "z", "b"], "y", **attributes)]
    path = write(tmp_path / "q.onnx", nodes, [("x", F, (5,))], [("y", F, (5,))], weights, OPSETS)
    with pytest.raises(UnsupportedError, match=text):
        OnnxModel(path)


@pytest.mark.parametrize("zero", [1, -3, 2])
def test_a_zero_point_is_added_before_the_rounding(zero: int, tmp_path: Path) -> None:
    """A tie with an odd zero point is rounded to an even code, which is an odd number of steps."""
    values = {"s": np.array(0.5, F), "z": np.array(zero, F), "b": np.array(8, F), "two": np.array(2, F)}
    quantize = node("Quant", ["x", "s", "z", "b"], "y", signed=1, narrow=0)
    x = (np.arange(-8, 8) * 0.25).astype(F)
    path = write(tmp_path / "m.onnx", [quantize], [("x", F, (16,))], [("y", F, (16,))], values, OPSETS)
    np.testing.assert_array_equal(tg2hdl.compile(path, x).golden(x), quant(x, 0.5, zero, -128, 127))


@pytest.mark.parametrize("kind", ["Quant", "BipolarQuant"])
def test_constants_of_quantizers_are_computed(kind: str, tmp_path: Path) -> None:
    """A gather of quantized weights by constants."""
    w = RNG.normal(size=(4, 6)).astype(F)
    values = {"w": w, "s": np.array(0.1, F), "z": np.array(1, F), "b": np.array(4, F), "i": np.array([3, 1])}
    inputs = ["w", "s", "z", "b"] if kind == "Quant" else ["w", "s"]
    nodes = [
        node(kind, inputs, "q"),
        node("Gather", ["q", "i"], "g", axis=1),
        node("MatMul", ["x", "g"], "y"),
    ]
    used = {name for n in nodes for name in n.input}
    path = tmp_path / "m.onnx"
    write(
        path,
        nodes,
        [("x", F, (2, 4))],
        [("y", F, (2, 2))],
        {k: v for k, v in values.items() if k in used},
        OPSETS,
    )
    x = RNG.normal(size=(2, 4)).astype(F)
    weights = quant(w, 0.1, 1, -8, 7) if kind == "Quant" else np.where(w >= 0, F(0.1), F(-0.1))
    np.testing.assert_allclose(
        tg2hdl.compile(path, x).golden(x), x @ weights[:, [3, 1]], rtol=1e-5, atol=1e-6
    )
