"""``tg2hdl quantize MODEL.onnx -o NAME.onnx``: ONNX Runtime gives what the hardware gives."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from tg2hdl_backend.onnx_runtime import runtime_session

onnx = pytest.importorskip("onnx", reason="the onnx package builds the files")
ort = pytest.importorskip("onnxruntime", reason="ONNX Runtime is the reference")

import tg2hdl  # noqa: E402
from tg2hdl.cli import cli  # noqa: E402
from tg2hdl.quantized_onnx import write_quantized_onnx  # noqa: E402
from tg2hdl_backend import OnnxModel  # noqa: E402
from tg2hdl_ir.errors import InputError  # noqa: E402
from tg2hdl_quant.graph import QuantizeOptions  # noqa: E402

RNG = np.random.default_rng(0)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    node, value = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    shapes = {"w1": (4, 1, 3, 3), "b1": (4,), "w2": (64, 5), "b2": (5,)}
    weights = {n: (RNG.normal(size=s) * 0.3).astype(np.float32) for n, s in shapes.items()}
    graph = onnx.helper.make_graph(
        [
            node("Conv", ["x", "w1", "b1"], ["c"], name="conv", pads=[1] * 4),
            node("Relu", ["c"], ["r"]),
            node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
            node("Flatten", ["p"], ["f"]),
            node("Gemm", ["f", "w2", "b2"], ["y"], name="fc"),
        ],
        "net",
        [value("x", 1, ["N", 1, 8, 8])],
        [value("y", 1, ["N", 5])],
        [onnx.numpy_helper.from_array(a, n) for n, a in weights.items()],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "net.onnx")
    np.savez(tmp_path / "x.npz", x=RNG.normal(size=(120, 1, 8, 8)).astype(np.float32))
    np.save(tmp_path / "y.npy", RNG.integers(0, 5, 120))
    return tmp_path


def samples(folder: Path) -> np.ndarray:
    return np.load(folder / "x.npz")["x"]


def runtime(path: Path, x: np.ndarray) -> np.ndarray:
    return runtime_session(path).run(None, {"x": x})[0]


@pytest.mark.parametrize("requantization", ["multiplier", "shift"])
def test_the_file_gives_the_same_bits_in_onnx_runtime_and_in_integers(
    folder: Path, requantization: str
) -> None:
    x, target = samples(folder), folder / "net.q.onnx"
    written = write_quantized_onnx("net.onnx", [x], target, QuantizeOptions(requantization=requantization))
    assert written.differs == 0
    assert written.model.report.in_float == ()
    assert written.output_sqnr > (35 if requantization == "multiplier" else 30)
    assert written.agreement > 0.95
    fresh = np.random.default_rng(5).normal(size=(200, 1, 8, 8)).astype(np.float32)
    q = tg2hdl.integer_model(OnnxModel(target, batch=1))
    np.testing.assert_array_equal(q.evaluate(fresh[:, None]).reshape(200, 5), runtime(target, fresh))
    kinds = {r.kind for r in q.report.layers}
    assert kinds <= ({"shift", "same"} if requantization == "shift" else {"multiplier", "float32", "same"})


def test_weights_of_four_bits_have_fifteen_codes(folder: Path) -> None:
    x, target = samples(folder), folder / "net.q.onnx"
    options = QuantizeOptions(weight_bits=4, layers={"fc": 3})
    assert write_quantized_onnx("net.onnx", [x], target, options).differs == 0
    arrays = {i.name: onnx.numpy_helper.to_array(i) for i in onnx.load(target).graph.initializer}
    assert np.abs(arrays["w1_quantized"]).max() == 7
    assert np.abs(arrays["w2_quantized"]).max() == 3


def test_command_writes_a_file_that_compile_reads(folder: Path) -> None:
    arguments = ["quantize", "net.onnx", "--samples", "x.npz", "--labels", "y.npy", "-o", "out/net.q.onnx"]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0, result.output
    for part in ("differ from ONNX Runtime's: 0.0000%", "accuracy:", "left in float: nothing", "net.q.json"):
        assert part in result.output
    assert json.loads((folder / "out/net.q.json").read_text())["differs"] == 0
    compiled = CliRunner().invoke(cli, ["compile", "out/net.q.onnx", "--batch", "1", "--multipliers", "4"])
    assert compiled.exit_code == 0, compiled.output
    assert "fp32" not in compiled.output


REFUSED = [
    (
        {"samples": np.zeros((3, 1, 7, 8), np.float32)},
        "bad input: samples of input 'x' have shape (3, 1, 7, 8)\n  at: input 'x'\n"
        "  hint: expected (samples, 1, 1, 8, 8) or (samples, 1, 8, 8)",
    ),
    (
        {"labels": np.zeros(3)},
        "bad input: labels of shape (3,) for 120 samples\n  hint: expected one label a sample: (120,)",
    ),
    (
        {"options": QuantizeOptions(bits=6)},
        "bad input: bits=6: codes of activations in ONNX files have 8 bits\n"
        "  hint: give weight_bits for narrower weights, or write a .npz file",
    ),
    (
        {"options": QuantizeOptions(calibration="none")},
        "bad input: no calibration method 'none'\n  note: registered: entropy, minmax, mse, percentile\n"
        "  hint: install the plugin that registers it, or name another",
    ),
]


@pytest.mark.parametrize(("arguments", "text"), REFUSED)
def test_refusals(folder: Path, arguments: dict, text: str) -> None:
    given = {"samples": samples(folder), "options": None, "labels": None} | arguments
    with pytest.raises(InputError) as caught:
        write_quantized_onnx(
            "net.onnx", [given["samples"]], folder / "n.q.onnx", given["options"], given["labels"]
        )
    assert str(caught.value) == text


def test_weights_in_a_file_of_their_own(folder: Path) -> None:
    model = onnx.load(folder / "net.onnx")
    onnx.save(
        model, folder / "apart.onnx", save_as_external_data=True, location="apart.data", size_threshold=0
    )
    written = write_quantized_onnx(folder / "apart.onnx", [samples(folder)], folder / "apart.q.onnx")
    assert written.differs == 0
    write_quantized_onnx(folder / "net.onnx", [samples(folder)], folder / "net.q.onnx")
    same = [runtime(folder / f"{n}.q.onnx", samples(folder)) for n in ("apart", "net")]
    assert np.array_equal(*same)


def test_a_constant_tensor_is_a_warning_with_its_name(folder: Path) -> None:
    written = write_quantized_onnx("net.onnx", [np.zeros((4, 1, 8, 8), np.float32)], folder / "n.q.onnx")
    assert any(w.startswith("x is constant (0)") for w in written.warnings)


def test_rounding_of_an_onnx_file_is_its_own(folder: Path) -> None:
    arguments = ["quantize", "net.onnx", "--samples", "x.npz", "-o", "n.q.onnx", "--rounding", "half_up"]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code != 0
    assert "which rounds half to even" in str(result.exception or result.output)


def test_samples_are_held_against_what_the_file_declares(folder: Path) -> None:
    model = OnnxModel(folder / "net.onnx", batch=1)
    with pytest.raises(InputError, match=r"samples of input 'x' have shape \(3, 8, 8\)"):
        tg2hdl.quantize(model, np.zeros((3, 8, 8), np.float32))
    whole = RNG.integers(-3, 4, (20, 1, 8, 8))
    found = tg2hdl.quantize(model, whole).evaluate(whole.astype(np.float32)).reshape(20, 5)
    expected = runtime(folder / "net.onnx", whole.astype(np.float32))
    assert np.abs(found - expected).max() < 0.05 * np.abs(expected).max()
