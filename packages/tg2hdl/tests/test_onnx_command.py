"""ONNX files on the command line."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import tg2hdl
from tg2hdl.cli import cli
from tg2hdl.model_file import load_model_file
from tg2hdl_ir import InputError

onnx = pytest.importorskip("onnx", reason="the onnx package builds the files")


@pytest.fixture
def net(tmp_path) -> Path:
    """Integer product of inputs of shape (N, K) with a constant matrix."""
    helper, types = onnx.helper, onnx.TensorProto
    weights = onnx.numpy_helper.from_array(np.arange(12, dtype=np.uint8).reshape(6, 2), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["x", "w"], ["y"])],
        "graph",
        [helper.make_tensor_value_info("x", types.UINT8, ("N", "K"))],
        [helper.make_tensor_value_info("y", types.INT32, ("N", 2))],
        [weights],
    )
    path = tmp_path / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), str(path))
    return path


def test_compile_writes_the_design(net, tmp_path):
    arguments = ["compile", str(net), "--batch", "3", "--dim", "K=6", "-o", str(tmp_path / "out")]
    result = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    assert {f.name for f in (tmp_path / "out").iterdir()} == {"net.v", "net.il", "net.plan", "net.json"}


@pytest.mark.parametrize("kind", [str, Path])
def test_python_takes_the_path_and_sizes_from_the_example(net, kind):
    x = np.arange(18, dtype=np.uint8).reshape(3, 6)
    accelerator = tg2hdl.compile(kind(net), x, multipliers=1)
    want = x.astype(np.int32) @ np.arange(12).reshape(6, 2)
    np.testing.assert_array_equal(accelerator.golden(x), want)
    with pytest.raises(InputError, match=r"dimension 0 of input 'x' is symbolic: N"):
        tg2hdl.compile(kind(net))


def test_examples_that_disagree_are_refused(tmp_path):
    helper, types = onnx.helper, onnx.TensorProto
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "y"], ["z"])],
        "graph",
        [helper.make_tensor_value_info(name, types.FLOAT, ("N",)) for name in "xy"],
        [helper.make_tensor_value_info("z", types.FLOAT, ("N",))],
    )
    path = tmp_path / "add.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), str(path))
    one, four = np.zeros(1, np.float32), np.zeros(4, np.float32)
    with pytest.raises(InputError, match=r"dimension N of add.onnx has size 4 in one example and 1 in"):
        tg2hdl.compile(path, four, one)


def test_quantize_takes_the_path(tmp_path):
    helper, types = onnx.helper, onnx.TensorProto
    weights = onnx.numpy_helper.from_array(np.linspace(-1, 1, 8, dtype=np.float32).reshape(4, 2), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "graph",
        [helper.make_tensor_value_info("x", types.FLOAT, ("N", 4))],
        [helper.make_tensor_value_info("y", types.FLOAT, ("N", 2))],
        [weights],
    )
    path = tmp_path / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), str(path))
    samples = np.random.default_rng(0).uniform(-1, 1, (32, 4)).astype(np.float32)
    quantized = tg2hdl.quantize(str(path), samples)
    want = samples @ np.linspace(-1, 1, 8, dtype=np.float32).reshape(4, 2)
    np.testing.assert_allclose(quantized.evaluate(samples).reshape(want.shape), want, atol=0.03)


def test_labels_are_in_the_json(tmp_path):
    helper, types = onnx.helper, onnx.TensorProto
    graph = helper.make_graph(
        [helper.make_node("Gather", ["words", "x"], ["y"])],
        "graph",
        [helper.make_tensor_value_info("x", types.INT64, (3,))],
        [helper.make_tensor_value_info("y", types.STRING, (3,))],
        [helper.make_tensor("words", types.STRING, [2], ["no", "yes"])],
    )
    path = tmp_path / "words.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), str(path))
    result = CliRunner().invoke(cli, ["compile", str(path), "-o", str(tmp_path)], catch_exceptions=False)
    assert result.exit_code == 0
    assert json.loads((tmp_path / "words.json").read_text())["outputs"][0]["labels"] == ["no", "yes"]


def test_simulation_equals_the_golden_model(net):
    arguments = ["simulate", str(net), "--batch", "2", "--dim", "K=6", "--engine", "amaranth"]
    result = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"batch": 2},
            "bad input: dimension 1 of input 'x' is symbolic: K\n  at: {path}\n"
            "  hint: give dims={{'K': size}}",
        ),
        (
            {"dims": {"K": 6}},
            "bad input: dimension 0 of input 'x' is symbolic: N\n  at: {path}\n"
            "  hint: give batch=1, or dims={{'N': size}}",
        ),
    ],
)
def test_symbolic_sizes_are_needed(net, options, text):
    with pytest.raises(InputError) as error:
        load_model_file(str(net), **options)
    assert str(error.value) == text.format(path=net)


def test_sizes_are_for_onnx_files(tmp_path):
    path = tmp_path / "model.py"
    path.write_text("def model(x): return x")
    with pytest.raises(InputError) as error:
        load_model_file(str(path), batch=2)
    assert str(error.value) == (
        f"bad input: model.py: Python files have no option 'batch'\n  at: {path}\n"
        "  note: it is for ONNX files\n  hint: leave it out; they have none"
    )


def test_a_size_has_a_name_and_a_number(net):
    with pytest.raises(InputError) as error:
        CliRunner().invoke(
            cli, ["compile", str(net), "--dim", "6"], catch_exceptions=False, standalone_mode=False
        )
    assert str(error.value) == "bad input: --dim '6' is not of the form NAME=SIZE\n  hint: e.g. --dim N=4"


@pytest.fixture
def reduction(tmp_path) -> Path:
    """Maximum of an input of shape (2, 3) over axes that are an input too."""
    helper, types = onnx.helper, onnx.TensorProto
    graph = helper.make_graph(
        [helper.make_node("ReduceMax", ["x", "axes"], ["y"], keepdims=0)],
        "graph",
        [
            helper.make_tensor_value_info("x", types.INT8, (2, 3)),
            helper.make_tensor_value_info("axes", types.INT64, (1,)),
        ],
        [helper.make_tensor_value_info("y", types.INT8, None)],
    )
    path = tmp_path / "max.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), str(path))
    return path


@pytest.mark.parametrize("axis", [0, 1])
def test_an_input_is_fixed(reduction, tmp_path, axis):
    arguments = ["compile", str(reduction), "--fix", f"axes=[{axis}]", "-o", str(tmp_path / "out")]
    result = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    summary = json.loads((tmp_path / "out" / "max.json").read_text())
    assert [s["name"] for s in summary["inputs"]] == ["x"]
    assert [(s["name"], s["shape"]) for s in summary["outputs"]] == [("y", [(3, 2)[axis]])]


def test_a_fixed_value_may_be_a_file(reduction, tmp_path):
    np.save(tmp_path / "axes.npy", np.array([1]))
    arguments = ["simulate", str(reduction), "--fix", f"axes={tmp_path / 'axes.npy'}", "--engine", "amaranth"]
    result = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output


def test_a_fixed_value_is_a_number_or_a_list(reduction):
    with pytest.raises(InputError) as error:
        CliRunner().invoke(
            cli,
            ["compile", str(reduction), "--fix", "axes=one"],
            catch_exceptions=False,
            standalone_mode=False,
        )
    assert str(error.value) == (
        "bad input: --fix 'axes=one' is not of the form NAME=VALUE\n"
        "  hint: e.g. --fix axes=[0,1], --fix k=3 or --fix pads=pads.npy"
    )
