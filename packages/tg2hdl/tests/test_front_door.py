"""``tg2hdl.compile(path)`` of quantized files whose quantizers are not all integers; against ONNX Runtime."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

onnx = pytest.importorskip("onnx", reason="the onnx package builds the files")
onnxruntime = pytest.importorskip("onnxruntime", reason="it is the reference")

import tg2hdl  # noqa: E402
from tg2hdl.cli import cli  # noqa: E402
from tg2hdl_backend.onnx_runtime import runtime_session  # noqa: E402
from tg2hdl_backend.testing.onnx_cases import Opened, load_cases, run_case  # noqa: E402
from tg2hdl_backend.testing.onnx_files import write  # noqa: E402

F = np.float32
RNG = np.random.default_rng(11)
QUANTIZERS = ("QuantizeLinear", "DequantizeLinear", "QLinearConv", "QLinearMatMul")
NARROW = ("float4e2m1", "int2", "int4", "uint2", "uint4")


def node(kind: str, inputs: list[str], output: str, **attributes: object) -> onnx.NodeProto:
    return onnx.helper.make_node(kind, inputs, [output], name=output, **attributes)


def runtime(path: Path, **inputs: np.ndarray) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = runtime_session(str(path), options)
    return session.run(None, inputs)[0]


CASES = [c for c in load_cases() if any(n.op_type in QUANTIZERS for n in c.model.graph.node)]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_node_tests_with_quantizers(case) -> None:
    def door(path: Path, fixed: dict) -> Opened:
        accelerator = tg2hdl.compile(path, fixed=fixed)
        names = [[t.name for t in tensors] for tensors in (accelerator.inputs, accelerator.outputs)]
        return Opened(*names, lambda arrays: accelerator.captured.flat(accelerator.golden(arrays)), str)

    result = run_case(case, limit=60, door=door)
    narrow = case.name.endswith(NARROW) and "uint16" not in case.name
    assert result.status == ("refused" if narrow and "int16" not in case.name else "right"), result.reason
    if result.status == "refused":
        assert result.reason.startswith("no hardware type for ONNX's ")


@pytest.mark.parametrize("block", [3, 4])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_block_quantized_weights(tmp_path: Path, block: int, dtype: type) -> None:
    codes = RNG.integers(*((-8, 8) if dtype is np.int8 else (0, 16)), (12, 5)).astype(dtype)
    blocks = -(-12 // block)
    values = {
        **{"w": codes, "sw": RNG.uniform(0.1, 0.5, (blocks, 5)).astype(F)},
        "zw": RNG.integers(0, 4, (blocks, 5)).astype(dtype),
        **{"s": np.array(0.05, F), "z": np.array(3, np.int8), "so": np.array(0.2, F)},
    }
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], "q"),
        node("DequantizeLinear", ["q", "s", "z"], "d"),
        node("DequantizeLinear", ["w", "sw", "zw"], "wd", axis=0, block_size=block),
        node("MatMul", ["d", "wd"], "m"),
        node("QuantizeLinear", ["m", "so", "z"], "mq"),
        node("DequantizeLinear", ["mq", "so", "z"], "y"),
    ]
    path = write(tmp_path / "b.onnx", nodes, [("x", F, (4, 12))], [("y", F, (4, 5))], values, {"": 21})
    x = (RNG.standard_normal((4, 12)) * 2).astype(F)
    accelerator = tg2hdl.compile(path, x)
    found, want = accelerator.golden(x), runtime(path, x=x)
    # A float sum in another order may round to the code beside.
    assert np.abs(found - want).max() <= 0.2001
    assert (found != want).mean() <= 0.05
    np.testing.assert_array_equal(accelerator.simulate(x).output, found)
    assert accelerator.in_float[0] == "wd (DequantizeLinear: a scale for each block)"
    assert not accelerator.inputs[0].code_dtype.is_float, "the host still quantizes the input"


def test_a_scale_that_is_an_input_and_integers_beside_it(tmp_path: Path) -> None:
    # Powers of two: ONNX Runtime's float sums are exact.
    values = {
        **{"z": np.array(0, np.int8), "s": np.array(1 / 16, F), "so": np.array(1 / 4, F)},
        **{"w": RNG.integers(-99, 99, (12, 5)).astype(np.int8), "sw": np.array(1 / 128, F)},
    }
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], "q"),
        node("DequantizeLinear", ["q", "s", "z"], "d"),
        node("DequantizeLinear", ["w", "sw", "z"], "wd"),
        node("MatMul", ["d", "wd"], "m"),
        node("QuantizeLinear", ["m", "so", "z"], "mq"),
        node("DequantizeLinear", ["mq", "so", "z"], "md"),
        node("QuantizeLinear", ["md", "given", "z"], "yq"),
        node("DequantizeLinear", ["yq", "given", "z"], "y"),
    ]
    inputs = [("x", F, (4, 12)), ("given", F, ())]
    path = write(tmp_path / "s.onnx", nodes, inputs, [("y", F, (4, 5))], values, {"": 17})
    x, given = (RNG.standard_normal((4, 12)) * 2).astype(F), np.array(0.3, F)
    accelerator = tg2hdl.compile(path, x, given)
    for scale in (given, np.array(0.75, F)):
        arrays = {"x": x, "given": scale}
        np.testing.assert_array_equal(accelerator.golden(arrays), runtime(path, **arrays))
    assert "yq (QuantizeLinear: its scale is computed from inputs)" in accelerator.in_float
    largest = max((b for b in accelerator.design.buffers if b.role.is_weight), key=lambda b: b.depth)
    assert (str(largest.dtype), largest.depth) == ("int8", 60)


def test_the_command_says_what_is_float(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    nodes = [node("QuantizeLinear", ["x", "s", "z"], "q"), node("DequantizeLinear", ["q", "s", "z"], "y")]
    inputs = [("x", F, (8,)), ("s", F, ())]
    path = write(tmp_path / "q.onnx", nodes, inputs, [("y", F, (8,))], {"z": np.array(0, np.int8)}, {"": 17})
    x, s = RNG.standard_normal(8).astype(F), np.array(0.1, F)
    np.savez("in.npz", s=s, x=x)
    arguments = ["simulate", "q.onnx", "--data", "in.npz", "-o", "out.npz", "--json", "out.json"]
    result = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    line = "q (QuantizeLinear: its scale is computed from inputs)"
    assert f"computed in float: {line}\n" in result.output
    assert json.loads((tmp_path / "out.json").read_text())["in_float"][0] == line
    np.testing.assert_array_equal(np.load("out.npz")["y"], runtime(path, x=x, s=s))


def test_scales_of_each_run_are_float_and_named(tmp_path: Path) -> None:
    nodes = [
        onnx.helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"], name="q"),
        node("DequantizeLinear", ["q", "s", "z"], "y"),
    ]
    path = write(tmp_path / "d.onnx", nodes, [("x", F, (16,))], [("y", F, (16,))], {}, {"": 17})
    x = RNG.standard_normal(16).astype(F)
    accelerator = tg2hdl.compile(path)
    np.testing.assert_allclose(accelerator.golden(x), runtime(path, x=x), rtol=1e-6)
    assert accelerator.in_float == (
        "all of it: DynamicQuantizeLinear computes scales from the data of each run",
    )


@pytest.mark.parametrize("codes", [False, True])
def test_the_command_gives_values_or_codes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codes: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    nodes = [node("QuantizeLinear", ["x", "s", "z"], "q"), node("DequantizeLinear", ["q", "s", "z"], "y")]
    values = {"s": np.array(0.1, F), "z": np.array(-3, np.int8)}
    write(tmp_path / "q.onnx", nodes, [("x", F, (8,))], [("y", F, (8,))], values, {"": 17})
    x = RNG.standard_normal(8).astype(F)
    np.save("x.npy", x)
    np.savez("set.npz", x=x[None])
    steps = np.clip(np.rint(x / F(0.1)) - 3, -128, 127)
    want = steps.astype(np.int8) if codes else ((steps + 3).astype(F) * F(0.1))
    for given in (("--data", "x.npy"), ("--set", "set.npz")):
        arguments = ["simulate", "q.onnx", *given, "-o", "out.npz", *(["--codes"] if codes else [])]
        CliRunner().invoke(cli, arguments, catch_exceptions=False)
        found = np.load("out.npz")["y"].reshape(8)
        assert found.dtype == want.dtype
        np.testing.assert_array_equal(found, want)
    CliRunner().invoke(cli, ["compile", "q.onnx", "-o", "out"], catch_exceptions=False)
    (output,) = json.loads((tmp_path / "out" / "q.json").read_text())["outputs"]
    assert (output["dtype"], output["value"]["dtype"], output["value"]["zero_point"]) == ("int8", "fp32", -3)
    assert F(output["value"]["scale"]) == F(0.1)


def test_bytes_of_types_that_numpy_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    monkeypatch.chdir(tmp_path)
    x = np.array([0.5, -3, 448, 0.015625], ml_dtypes.bfloat16)
    graph = onnx.helper.make_graph(
        [node("Neg", ["x"], "y")],
        "g",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.BFLOAT16, [4])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.BFLOAT16, [4])],
    )
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)]), "n.onnx")
    np.savez("in.npz", x=x)
    CliRunner().invoke(
        cli, ["simulate", "n.onnx", "--data", "in.npz", "-o", "out.npz"], catch_exceptions=False
    )
    np.testing.assert_array_equal(np.load("out.npz")["y"].view(ml_dtypes.bfloat16), -x)
