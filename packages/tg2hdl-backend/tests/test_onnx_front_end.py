"""What an ONNX file may bring: external data, sizes, names, operator sets, constants, refusals."""

from __future__ import annotations

import numpy as np
import pytest

from tg2hdl_backend import capture
from tg2hdl_ir import InputError, OnnxOperatorDef, UnsupportedError, hookimpl, registry

onnx = pytest.importorskip("onnx", reason="the onnx package builds the files")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is the reference")
from tg2hdl_backend import OnnxModel  # noqa: E402
from tg2hdl_backend.onnx import DependsOnData  # noqa: E402
from tg2hdl_backend.testing.onnx_files import golden, runtime, write  # noqa: E402

node = onnx.helper.make_node
RNG = np.random.default_rng(3)
F = np.float32


def net(path, opset=17, **options):
    weights = {
        "fc1.weight": RNG.normal(size=(5, 8)).astype(F),
        "fc1.bias": RNG.normal(size=8).astype(F),
        "onnx::MatMul_7": RNG.normal(size=(8, 3)).astype(F),
    }
    nodes = [
        node("Gemm", ["input.1", "fc1.weight", "fc1.bias"], ["/fc1/Gemm_output_0"], name="/fc1/Gemm"),
        node("Relu", ["/fc1/Gemm_output_0"], ["/act/Relu_output_0"]),
        node("MatMul", ["/act/Relu_output_0", "onnx::MatMul_7"], ["8"]),
    ]
    return write(
        path, nodes, [("input.1", F, ("N", 5))], [("8", F, ("N", 3))], weights, {"": opset}, **options
    )


@pytest.mark.parametrize("opset", [9, 11, 13, 17, 21])
def test_opsets(tmp_path, opset):
    path = net(tmp_path / "net.onnx", opset)
    x = RNG.normal(size=(2, 5)).astype(F)
    expected = runtime(path, **{"input.1": x})[0]
    np.testing.assert_allclose(golden(OnnxModel(path, batch=2), x)[0], expected, rtol=1e-5, atol=1e-6)


def test_types_that_onnx_cannot_infer_are_reported(tmp_path, caplog):
    """An initializer that contradicts its own declaration ends ONNX's inference for the whole file."""
    path = net(tmp_path / "net.onnx")
    file = onnx.load(path)
    file.graph.value_info.append(onnx.helper.make_tensor_value_info("fc1.bias", onnx.TensorProto.INT32, [8]))
    onnx.save(file, path)
    OnnxModel(path, batch=2)
    assert [record.getMessage() for record in caplog.records] == [
        "net.onnx: ONNX infers no types and shapes, so that results are not compared with them: "
        "[TypeInferenceError] Inferred elem type differs from existing elem type: (1) vs (6)"
    ]


def test_a_failure_inside_of_type_inference_is_not_hidden(tmp_path, monkeypatch):
    path = net(tmp_path / "net.onnx")

    def fail(*arguments, **options):
        raise RuntimeError("a bug")

    monkeypatch.setattr(onnx.shape_inference, "infer_shapes", fail)
    with pytest.raises(RuntimeError, match="a bug"):
        OnnxModel(path, batch=2)


def test_external_data(tmp_path):
    path = net(tmp_path / "net.onnx", save_as_external_data=True, location="net.onnx.data", size_threshold=0)
    assert (tmp_path / "net.onnx.data").stat().st_size > 200
    x = RNG.normal(size=(2, 5)).astype(F)
    result = golden(OnnxModel(path, batch=2), x)[0]
    assert np.abs(result).min() > 0
    np.testing.assert_allclose(result, runtime(path, **{"input.1": x})[0], rtol=1e-5, atol=1e-6)


def test_missing_external_data(tmp_path):
    path = net(tmp_path / "net.onnx", save_as_external_data=True, location="net.onnx.data", size_threshold=0)
    (tmp_path / "net.onnx.data").unlink()
    with pytest.raises(InputError, match=r"^bad input: external data of net\.onnx cannot be read: ") as error:
        OnnxModel(path, batch=1)
    assert error.value.hint == "put the file that the exporter wrote beside it in the same folder"


@pytest.mark.parametrize("length", [None, 64, 50])
def test_external_data_of_another_size(tmp_path, length):
    path = net(tmp_path / "net.onnx", save_as_external_data=True, location="net.onnx.data", size_threshold=0)
    model = onnx.load(path, load_external_data=False)
    for entry in list(model.graph.initializer[0].external_data):
        if entry.key == "length":
            if length is None:
                model.graph.initializer[0].external_data.remove(entry)
            else:
                entry.value = str(length)
    path.write_bytes(model.SerializeToString())
    with pytest.raises(
        InputError, match=r"the contents of tensor 'fc1\.weight' do not fit its shape \(5, 8\)"
    ):
        OnnxModel(path, batch=1)


def test_links(tmp_path):
    """A link to a model has its data at the model; data that is a link itself is refused."""
    (tmp_path / "real").mkdir()
    options = {"save_as_external_data": True, "location": "net.data", "size_threshold": 0}
    path = net(tmp_path / "real" / "net.onnx", **options)
    (tmp_path / "link.onnx").symlink_to(path)
    x = RNG.normal(size=(1, 5)).astype(F)
    expected = golden(OnnxModel(path, batch=1), x)[0]
    np.testing.assert_array_equal(golden(OnnxModel(tmp_path / "link.onnx", batch=1), x)[0], expected)
    (tmp_path / "net.data").symlink_to(tmp_path / "real" / "net.data")
    (tmp_path / "copy.onnx").write_bytes(path.read_bytes())
    with pytest.raises(InputError) as error:
        OnnxModel(tmp_path / "copy.onnx", batch=1)
    assert error.value.hint == "copy the data itself next to the model: onnx reads no links (cp -L)"


def test_names_are_the_files_own(tmp_path):
    model = OnnxModel(net(tmp_path / "net.onnx"), batch=1)
    captured = capture(model, *model.example_inputs())
    assert [s.name for s in captured.inputs] == ["input.1"]
    assert [s.name for s in captured.outputs] == ["8"]
    names = {b.name for b in captured.program.buffers}
    assert {"input.1", "8", "fc1.weight", "fc1.bias", "onnx::MatMul_7"} <= names


def test_dimensions_without_a_name(tmp_path):
    path = write(
        tmp_path / "add.onnx", [node("Add", ["x", "x"], ["y"])], [("x", F, (None, None))], [("y", F, None)]
    )
    with pytest.raises(InputError) as error:
        OnnxModel(path)
    assert str(error.value) == (
        "bad input: dimension 0 of input 'x' has no size and no name; "
        "dimension 1 of input 'x' has no size and no name\n"
        f"  at: {path}\n  hint: give batch=1 and dims={{'x.1': size}}, or dims={{'x.0': size, 'x.1': size}}"
    )
    assert OnnxModel(path, batch=2, dims={"x.1": 3}).inputs[0].shape == (2, 3)
    assert OnnxModel(path, dims={"x.0": 2, "x.1": 3}).inputs[0].shape == (2, 3)
    with pytest.raises(InputError) as error:
        OnnxModel(path, batch=2, dims={"x.1": 3, "T": 4})
    assert str(error.value) == (
        f"bad input: no dimension of add.onnx is named 'T'\n  at: {path}\n"
        "  hint: dimensions that need a size: x.0, x.1"
    )


def test_batch_sizes_every_dimension_of_that_name(tmp_path):
    path = write(
        tmp_path / "m.onnx",
        [node("MatMul", ["a", "b"], ["y"])],
        [("a", F, ("N", 3)), ("b", F, (3, "N"))],
        [("y", F, ("N", "N"))],
    )
    assert [s.shape for s in OnnxModel(path, batch=4).inputs] == [(4, 3), (3, 4)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch": 0}, "batch has the size 0"),
        ({"batch": -1}, "batch has the size -1"),
        ({"batch": True}, "batch has the size True"),
        ({"batch": 2.5}, "batch has the size 2.5"),
        ({"dims": {"N": "a"}}, "N has the size 'a'"),
        ({"dims": {"N": 1 << 70}}, f"N has the size {1 << 70}"),
        ({"dims": [("N", 3)]}, "dims is of type list"),
        ({"fixed": [1]}, "fixed is of type list"),
    ],
)
def test_sizes_that_are_none(tmp_path, options, message):
    with pytest.raises(InputError) as error:
        OnnxModel(net(tmp_path / "net.onnx"), **options)
    assert error.value.message == message
    assert error.value.hint


def test_a_batch_that_no_input_has_is_refused(tmp_path):
    path = write(tmp_path / "m.onnx", [node("Neg", ["x"], ["y"])], [("x", F, (3, 2))], [("y", F, None)])
    assert OnnxModel(path, batch=3).inputs[0].shape == (3, 2)
    with pytest.raises(InputError) as error:
        OnnxModel(path, batch=4)
    assert error.value.message == "no input of m.onnx has batch=4: the first dimension of 'x' has size 3"


def test_two_outputs_of_one_name_are_refused(tmp_path):
    path = write(tmp_path / "m.onnx", [node("Neg", ["x"], ["y"])], [("x", F, (2,))], [("y", F, (2,))] * 2)
    with pytest.raises(InputError, match="two outputs of the name 'y'"):
        OnnxModel(path)


def test_element_types_that_do_not_exist_are_refused(tmp_path):
    path = write(tmp_path / "m.onnx", [node("Neg", ["x"], ["y"])], [("x", F, (2,))], [("y", F, None)])
    model = onnx.load(path)
    model.graph.input[0].type.tensor_type.elem_type = 41
    path.write_bytes(model.SerializeToString())
    with pytest.raises(UnsupportedError, match="no hardware type for ONNX's element type 41"):
        OnnxModel(path)


def test_operator_sets_that_nothing_uses(tmp_path):
    others = ["ai.onnx.preview", "ai.onnx.ml", "com.microsoft.nchwc", "org.pytorch.aten", "com.example"]
    path = write(
        tmp_path / "m.onnx",
        [node("Neg", ["x"], ["y"])],
        [("x", F, (2,))],
        [("y", F, (2,))],
        opsets={"": 17, **dict.fromkeys(others, 1)},
    )
    x = np.array([1, -2], F)
    np.testing.assert_array_equal(golden(OnnxModel(path), x)[0], -x)


def reduction(path):
    return write(
        path,
        [node("ReduceMax", ["x", "axes"], ["y"], name="top", keepdims=0)],
        [("x", F, (2, 3)), ("axes", np.int64, (1,))],
        [("y", F, None)],
        opsets={"": 18},
    )


def test_axes_that_depend_on_an_input_are_refused(tmp_path):
    with pytest.raises(DependsOnData) as error:
        OnnxModel(reduction(tmp_path / "m.onnx"))
    assert str(error.value) == (
        "bad input: ONNX operator ReduceMax: 'axes' decides shapes or what is computed, but depends on the input "
        "'axes'\n  at: node 'top': ai.onnx ReduceMax, opset 18\n"
        "  hint: make it an initializer, or fix the input: OnnxModel(path, fixed={'axes': value}), or --fix NAME=VALUE"
    )
    assert error.value.inputs == ("axes",)


@pytest.mark.parametrize("axis", [0, 1])
def test_axes_that_are_fixed(tmp_path, axis):
    model = OnnxModel(reduction(tmp_path / "m.onnx"), fixed={"axes": [axis]})
    assert [s.name for s in model.inputs] == ["x"]
    x = RNG.normal(size=(2, 3)).astype(F)
    np.testing.assert_array_equal(golden(model, x)[0], x.max(axis))


@pytest.mark.parametrize(
    ("fixed", "text"),
    [
        (
            {"axis": [0]},
            "bad input: m.onnx has no input 'axis' to fix\n  at: {path}\n  hint: its inputs are x, axes",
        ),
        (
            {"axes": [[0]]},
            "bad input: input 'axes' has shape (1,), the value to fix it has (1, 1)\n  at: {path}\n"
            "  hint: give a value of this shape",
        ),
        (
            {"axes": [0.5]},
            "bad input: input 'axes' is int64, which does not hold [0.5]\n  at: {path}\n  hint: give values of int64",
        ),
    ],
)
def test_values_that_cannot_be_fixed(tmp_path, fixed, text):
    path = reduction(tmp_path / "m.onnx")
    with pytest.raises(InputError) as error:
        OnnxModel(path, fixed=fixed)
    assert str(error.value) == text.format(path=path)


def test_shapes_computed_in_the_graph(tmp_path):
    """As PyTorch's older exporter writes ``x.view(x.shape[0], -1)``."""
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "zero"], ["n"], axis=0),
        node("Unsqueeze", ["n", "axis"], ["n1"]),
        node("Concat", ["n1", "rest"], ["shape"], axis=0),
        node("Reshape", ["x", "shape"], ["y"]),
    ]
    weights = {"zero": np.array(0), "axis": np.array([0]), "rest": np.array([-1])}
    path = write(tmp_path / "m.onnx", nodes, [("x", F, ("N", 2, 3))], [("y", F, None)], weights)
    x = RNG.normal(size=(4, 2, 3)).astype(F)
    np.testing.assert_array_equal(golden(OnnxModel(path, batch=4), x)[0], x.reshape(4, 6))


def test_functions_of_the_file(tmp_path):
    double = onnx.helper.make_function(
        "local", "Double", ["a"], ["b"], [node("Add", ["a", "a"], ["b"])], [onnx.helper.make_opsetid("", 17)]
    )
    path = write(
        tmp_path / "m.onnx",
        [node("Double", ["x"], ["y"], domain="local")],
        [("x", F, (2,))],
        [("y", F, (2,))],
        opsets={"": 17, "local": 1},
    )
    model = onnx.load(str(path))
    model.functions.append(double)
    onnx.save(model, str(path))
    np.testing.assert_array_equal(golden(OnnxModel(path), np.array([1, 2], F))[0], [2, 4])


def test_operator_without_a_definition(tmp_path):
    path = write(
        tmp_path / "m.onnx",
        [node("Warp", ["x"], ["y"], domain="com.example", name="w0")],
        [("x", F, (2,))],
        [("y", F, (2,))],
        opsets={"": 17, "com.example": 3},
    )
    with pytest.raises(UnsupportedError) as error:
        OnnxModel(path)
    assert str(error.value) == (
        "unsupported: ONNX operator Warp: there is no definition of it\n"
        "  at: node 'w0': com.example Warp, opset 3\n"
        "  hint: export the model without it, or register it with the hook tg2hdl_onnx_operators"
    )


class Plugin:
    @staticmethod
    @hookimpl
    def tg2hdl_onnx_operators():
        return [OnnxOperatorDef("Warp", lambda node, x: x * node.attribute("by", 2), "com.example", 2)]


def test_operator_of_a_plugin(tmp_path):
    path = write(
        tmp_path / "m.onnx",
        [node("Warp", ["x"], ["y"], domain="com.example", by=3)],
        [("x", F, (2,))],
        [("y", F, (2,))],
        opsets={"": 17, "com.example": 3},
    )
    with registry().extended(Plugin()):
        np.testing.assert_array_equal(golden(OnnxModel(path), np.array([1, 2], F))[0], [3, 6])


def test_string_inputs_are_refused(tmp_path):
    path = write(tmp_path / "m.onnx", [node("Identity", ["x"], ["y"])], [("x", F, (2,))], [("y", F, (2,))])
    model = onnx.load(str(path))
    model.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.STRING
    onnx.save(model, str(path))
    with pytest.raises(UnsupportedError, match=r"^unsupported: no hardware type for ONNX's STRING\n"):
        OnnxModel(path)


def test_a_shape_other_than_the_one_onnx_infers_is_refused(tmp_path):
    class Wrong:
        @staticmethod
        @hookimpl
        def tg2hdl_onnx_operators():
            return [OnnxOperatorDef("Neg", lambda node, x: x.reshape(1, 2), priority=1)]

    path = write(tmp_path / "m.onnx", [node("Neg", ["x"], ["y"])], [("x", F, (2,))], [("y", F, (2,))])
    with registry().extended(Wrong()), pytest.raises(UnsupportedError) as error:
        OnnxModel(path)
    assert error.value.message == "ONNX operator Neg: the result 'y' has shape (1, 2) where ONNX says (2,)"


def test_types_that_do_not_fit_are_refused(tmp_path):
    path = write(
        tmp_path / "m.onnx",
        [node("Add", ["a", "b"], ["y"])],
        [("a", F, (2,)), ("b", np.int32, (2,))],
        [("y", F, (2,))],
    )
    with pytest.raises(
        InputError, match=r"^bad input: types that do not fit: .*\(op_type:Add\): B has inconsistent type"
    ):
        OnnxModel(path)


def test_an_operator_newer_than_its_opset_is_refused(tmp_path):
    path = write(
        tmp_path / "m.onnx", [node("Gelu", ["x"], ["y"])], [("x", F, (2,))], [("y", F, (2,))], opsets={"": 17}
    )
    with pytest.raises(InputError) as error:
        OnnxModel(path)
    assert error.value.message == "ONNX operator Gelu is not in version 17 of the operator set"
    assert error.value.hint == "export the model with opset 20 or later, which has it"


def test_the_first_version_with_an_operator_is_named(tmp_path):
    """Not the one with its newest definition."""
    path = write(
        tmp_path / "m.onnx",
        [node("Where", ["c", "x", "x"], ["y"])],
        [("c", np.bool_, (2,)), ("x", F, (2,))],
        [("y", F, (2,))],
        opsets={"": 8},
    )
    with pytest.raises(InputError) as error:
        OnnxModel(path)
    assert error.value.hint == "export the model with opset 9 or later, which has it"


@pytest.mark.parametrize(
    ("operator", "indices", "wrong"),
    [
        ("Gather", [[0, 3]], "index 3 at (0, 1) is outside an axis of size 3"),
        ("Gather", [-4], "index -4 at (0,) is outside an axis of size 3"),
        ("GatherElements", [[0, 0], [5, 0]], "index 5 at (1, 0) is outside an axis of size 3"),
        ("GatherND", [[2, 2]], "index 2 at (0, 1) is outside an axis of size 2"),
    ],
)
def test_constant_indices_out_of_range_are_refused(tmp_path, operator, indices, wrong):
    path = write(
        tmp_path / "m.onnx",
        [node(operator, ["x", "i"], ["y"])],
        [("x", F, (3, 2))],
        [("y", F, None)],
        weights={"i": np.array(indices, np.int64)},
    )
    with pytest.raises(InputError) as error:
        OnnxModel(path)
    assert error.value.message == f"ONNX operator {operator}: {wrong}"


def test_two_initializers_of_one_name_are_refused(tmp_path):
    path = write(
        tmp_path / "m.onnx",
        [node("Add", ["x", "w"], ["y"])],
        [("x", F, (2,))],
        [("y", F, (2,))],
        weights={"w": np.array([1, 2], F)},
    )
    model = onnx.load(str(path))
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([3, 4], F), "w"))
    onnx.save(model, str(path))
    with pytest.raises(InputError, match="two initializers of the name 'w'"):
        OnnxModel(path)


def test_a_placeholder_stands_for_any_size(tmp_path):
    nodes = [node("Conv", ["x", "w"], ["y"])]
    weights = {"w": np.ones((1, 1, 3, 3), F)}
    path = write(tmp_path / "conv.onnx", nodes, [("x", F, (1, 1, "?", "?"))], [("y", F, None)], weights)
    with pytest.raises(InputError) as error:
        OnnxModel(path)
    assert str(error.value) == (
        "bad input: dimension 2 of input 'x' is symbolic: ?; dimension 3 of input 'x' is symbolic: ?\n"
        f"  at: {path}\n  hint: give dims={{'x.2': size, 'x.3': size}}"
    )
    assert OnnxModel(path, dims={"x.2": 8, "x.3": 20}).inputs[0].shape == (1, 1, 8, 20)
    assert OnnxModel(path, dims={"?": 9, "x.3": 20}).inputs[0].shape == (1, 1, 9, 20)
    assert OnnxModel(path, examples=[np.zeros((1, 1, 8, 20), F)]).inputs[0].shape == (1, 1, 8, 20)
    assert OnnxModel(path, examples={"x": np.zeros((1, 1, 8, 20), F)}).inputs[0].shape == (1, 1, 8, 20)


def test_a_size_by_axis_goes_before_one_by_name(tmp_path):
    path = write(
        tmp_path / "max.onnx",
        [node("ReduceMax", ["x"], ["y"], keepdims=0)],
        [("x", F, ("N", "N"))],
        [("y", F, None)],
    )
    assert OnnxModel(path, dims={"x.0": 3, "x.1": 5}).inputs[0].shape == (3, 5)
    assert OnnxModel(path, dims={"N": 4, "x.1": 5}).inputs[0].shape == (4, 5)
    assert OnnxModel(path, batch=2, dims={"x.1": 5}).inputs[0].shape == (2, 5)
    with pytest.raises(InputError) as error:
        OnnxModel(path)
    assert str(error.value).endswith("  hint: give batch=1, or dims={'N': size}")
