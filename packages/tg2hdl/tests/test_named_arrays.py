"""Arrays of .npz files and dicts go to the inputs of their names, in commands and in Python."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import tg2hdl
from tg2hdl.cli import cli
from tg2hdl.quantized_file import load_quantized
from tg2hdl_ir import InputError

MODEL = """
import numpy as np
def model(a, b):
    return a * 2 - b
example_inputs = (np.zeros((1, 4), np.{dtype}), np.zeros((1, 4), np.{dtype}))
"""
RNG = np.random.default_rng(3)
A, B = (RNG.uniform(-bound, bound, (20, 4)).astype(np.float32) for bound in (1, 30))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, dtype in (("net", "float32"), ("ints", "int32")):
        (tmp_path / f"{name}.py").write_text(MODEL.format(dtype=dtype))
    return tmp_path


def run(*arguments: str) -> str:
    result = CliRunner().invoke(cli, arguments)
    if result.exception is not None:
        raise result.exception
    return result.output


def test_quantize_calibrates_each_input_with_its_samples(folder: Path) -> None:
    np.savez("x.npz", b=B, a=A)
    run("quantize", "net.py", "--samples", "x.npz")
    by_name = tg2hdl.quantize(_model(), {"b": B, "a": A})
    in_order = tg2hdl.quantize(_model(), (A, B))
    for q in (load_quantized(folder / "net.q.npz"), by_name):
        for found, expected in zip(q.quantized.inputs, in_order.quantized.inputs, strict=True):
            assert found.scale == expected.scale
    assert by_name.quantized.inputs[1].scale > 20 * by_name.quantized.inputs[0].scale


def _model():
    def model(a, b):
        return a * 2 - b

    return model


def test_quantize_refuses_other_names(folder: Path) -> None:
    np.savez("x.npz", b=B, A=A)
    with pytest.raises(InputError) as error:
        run("quantize", "net.py", "--samples", "x.npz")
    assert str(error.value) == (
        "bad input: x.npz: 'A' is not an input of the model\n  at: x.npz\n  note: it has b, A\n"
        "  hint: name the arrays as the inputs: a, b"
    )
    with pytest.raises(InputError, match=r"the dict of samples: no array for input 'a'"):
        tg2hdl.quantize(_model(), {"b": B})
    np.save("x.npy", A)
    with pytest.raises(InputError) as error:
        run("quantize", "net.py", "--samples", "x.npy")
    assert str(error.value) == (
        "bad input: x.npy has one array, the model has 2 inputs\n  at: x.npy\n"
        "  hint: write all with numpy.savez(FILE, a=..., b=...)"
    )


@pytest.mark.parametrize("keys", [("b", "a"), ("arr_1", "arr_0")])
def test_simulate_takes_inputs_by_name(folder: Path, keys: tuple[str, str]) -> None:
    a, b = (RNG.integers(-99, 99, (3, 1, 4), dtype=np.int32) for _ in range(2))
    np.savez("set.npz", **dict(zip(keys, (b, a), strict=True)))
    np.savez("one.npz", **dict(zip(keys, (b[0], a[0]), strict=True)))
    run("simulate", "ints.py", "--set", "set.npz", "-o", "out.npz")
    np.testing.assert_array_equal(np.load("out.npz")["output"], 2 * a - b)
    run("simulate", "ints.py", "--data", "one.npz", "-o", "out.npz")
    np.testing.assert_array_equal(np.load("out.npz")["output"], 2 * a[0] - b[0])
    run("report", "ints.py", "--data", "one.npz", "-o", "ints.html", "--no-simulate")


def test_simulate_refuses_a_misspelt_name(folder: Path) -> None:
    a = np.zeros((3, 1, 4), np.int32)
    np.savez("set.npz", a=a, bb=a)
    for option in ("--set", "--data"):
        with pytest.raises(InputError, match=r"set\.npz: 'bb' is not an input of the model"):
            run("simulate", "ints.py", option, "set.npz")
    np.save("a.npy", a[0])
    with pytest.raises(InputError, match=r"set\.npz has arrays by name, and another file is given"):
        run("simulate", "ints.py", "--data", "a.npy", "--data", "set.npz")


def test_files_that_are_not_arrays(folder: Path) -> None:
    np.savez("set.npz", a=np.array([{}, []], object), b=np.zeros(2))
    for command in (("simulate", "ints.py", "--set"), ("quantize", "net.py", "--samples")):
        with pytest.raises(InputError, match=r"set\.npz is not a numpy file: Object arrays cannot be loaded"):
            run(*command, "set.npz")


@pytest.mark.parametrize(
    ("x", "h", "options"),
    [
        ((1, 4), (2, 1, 4), ()),
        ((4,), (2, 1, 4), ()),
        ((1, 4), (2, 1, 4), ("--no-batch",)),
    ],
)
def test_quantize_takes_states_without_a_batch_axis(
    folder: Path, x: tuple[int, ...], h: tuple[int, ...], options: tuple[str, ...]
) -> None:
    onnx = pytest.importorskip("onnx", reason="the onnx package builds the files")
    helper, types = onnx.helper, onnx.TensorProto
    weights = RNG.standard_normal((4, 4)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Add", ["m", "h"], ["y"])],
        "g",
        [
            helper.make_tensor_value_info("x", types.FLOAT, ["?", 4]),
            helper.make_tensor_value_info("h", types.FLOAT, [2, 1, 4]),
        ],
        [helper.make_tensor_value_info("y", types.FLOAT, None)],
        [onnx.numpy_helper.from_array(weights, "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), "s.onnx")
    samples = {n: RNG.uniform(-1, 1, (24, *s)).astype(np.float32) for n, s in (("x", x), ("h", h))}
    np.savez("s.npz", **samples)
    run("quantize", "s.onnx", "--samples", "s.npz", "-o", "s.q.npz", *options)
    q = load_quantized(folder / "s.q.npz")
    want = samples["x"].reshape(24, 1, 1, 4) @ weights + samples["h"]
    np.testing.assert_allclose(q.evaluate(samples["x"], samples["h"]).reshape(want.shape), want, atol=0.06)
    pytest.importorskip("onnxruntime", reason="the quantizer of files is its own")
    run("quantize", "s.onnx", "--samples", "s.npz", "-o", "s.q.onnx", *options)
    accelerator = tg2hdl.compile("s.q.onnx", np.zeros((1, 4), np.float32), np.zeros((2, 1, 4), np.float32))
    one = {n: a[5].reshape(s) for (n, a), s in zip(samples.items(), ((1, 4), (2, 1, 4)), strict=True)}
    # Each operand of the sum may be off by one step of the output's codes.
    np.testing.assert_allclose(accelerator.golden(one), want[5], atol=2 * float(accelerator.outputs[0].scale))


def test_quantize_says_what_does_not_fit(folder: Path) -> None:
    onnx = pytest.importorskip("onnx", reason="the onnx package builds the files")
    helper, types = onnx.helper, onnx.TensorProto
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", types.FLOAT, ["N", "T", "?"])],
        [helper.make_tensor_value_info("y", types.FLOAT, None)],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), "r.onnx")
    np.save("x.npy", np.zeros((8, 3), np.float32))
    with pytest.raises(InputError) as error:
        run("quantize", "r.onnx", "--samples", "x.npy")
    assert str(error.value) == (
        "bad input: dimension 0 of input 'x' is symbolic: N; dimension 1 of input 'x' is symbolic: T; "
        "dimension 2 of input 'x' is symbolic: ?\n  at: r.onnx\n"
        "  hint: give --batch 1 --dim T=SIZE --dim x.2=SIZE or, in place of --batch, --dim N=SIZE"
    )
    with pytest.raises(InputError) as error:
        run("quantize", "r.onnx", "--samples", "x.npy", "--batch", "1", "--dim", "T=5", "--dim", "x.2=3")
    assert str(error.value) == (
        "bad input: samples of input 'x' have shape (8, 3)\n  at: input 'x'\n"
        "  hint: expected (samples, 1, 5, 3) or (samples, 5, 3)"
    )
    with pytest.raises(InputError, match=r"  hint: give --dim T=SIZE$"):
        run("compile", "r.onnx", "--batch", "1", "--dim", "x.2=3")
    with pytest.raises(InputError, match=r"  hint: give --batch 1 or --dim N=SIZE$"):
        run("compile", "r.onnx", "--dim", "T=5", "--dim", "x.2=3")
