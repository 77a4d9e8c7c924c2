"""Errors of ONNX files by their full texts; those of single operators are tested beside them."""

import subprocess
import sys

import numpy as np
import pytest
from tinygrad import Tensor

onnx = pytest.importorskip("onnx", reason="the onnx package builds the files")

from onnx import TensorProto, helper  # noqa: E402

from tg2hdl_backend import OnnxModel, capture  # noqa: E402
from tg2hdl_backend.onnx.state import FileState  # noqa: E402
from tg2hdl_backend.onnx.tensors import array_of, element_type  # noqa: E402
from tg2hdl_backend.testing.onnx_files import write  # noqa: E402
from tg2hdl_ir.errors import Tg2hdlError  # noqa: E402

F = np.float32
NEG = [helper.make_node("Neg", ["x"], ["y"], "neg")]
X, Y = ("x", F, [1, 4]), ("y", F, [1, 4])


def load(folder, nodes=NEG, inputs=(X,), outputs=(Y,), weights=None, opsets=None, change=None, **options):
    """A model of a file, after `change` of its protocol buffer."""
    path = write(folder / "net.onnx", nodes, inputs, outputs, weights, opsets)
    if change is not None:
        proto = onnx.load(str(path))
        change(proto)
        path.write_bytes(proto.SerializeToString())
    return OnnxModel(path, **options)


def run(folder, *nodes, weights=None, **options):
    """Capture a model of a file."""
    model = load(folder, [helper.make_node(*n[:4], **n[4]) for n in nodes], weights=weights, **options)
    capture(model, np.zeros((1, 4), F))


def of_bytes(folder, data):
    (folder / "net.onnx").write_bytes(data)
    OnnxModel(folder / "net.onnx")


def unreadable(folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(onnx, "load", fails(ValueError("no message")))
        of_bytes(folder, b"text")


def cannot_fold(folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tg2hdl_backend.onnx.fold.ReferenceEvaluator", fails(ValueError("no definition")))
        run(
            folder,
            ("Det", ["w"], ["v"], "det", {}),
            ("Add", ["x", "v"], ["y"], "sum", {}),
            weights={"w": np.eye(3, dtype=F)},
        )


def fails(error):
    """A function that raises an error."""

    def call(*arguments, **options):
        raise error

    return call


def two(items):
    def change(proto):
        found = items(proto.graph)
        found.append(found[0])

    return change


def sequence(proto):
    proto.graph.input[0].type.Clear()
    proto.graph.input[0].type.sequence_type.elem_type.tensor_type.elem_type = TensorProto.FLOAT


def without_shape(proto):
    proto.graph.input[0].type.tensor_type.ClearField("shape")


def sparse(proto):
    proto.graph.sparse_initializer.add().values.name = "w"


def of_opset(version):
    def change(proto):
        proto.opset_import[0].version = version

    return change


def without_operator_set(proto):
    proto.opset_import[0].domain = "other"


def recursive(proto):
    function = proto.functions.add()
    function.name, function.domain = "again", "mine"
    function.input.append("a")
    function.output.append("b")
    function.node.append(helper.make_node("again", ["a"], ["b"], domain="mine"))
    function.opset_import.append(helper.make_opsetid("mine", 1))
    proto.opset_import.append(helper.make_opsetid("mine", 1))
    del proto.graph.node[:]
    proto.graph.node.append(helper.make_node("again", ["x"], ["y"], "first", domain="mine"))


def computed_twice(proto):
    proto.graph.node.append(helper.make_node("Neg", ["x"], ["y"], "second"))


def other_state():
    state = object.__new__(FileState)
    state.pairs, state._file = {"stateN": "state"}, "net.onnx"
    state.tensors = {"state": Tensor.zeros(1, 4)}
    state.check({"stateN": Tensor.zeros(1, 3)})


def short_tensor():
    array_of(
        TensorProto(name="w", dims=[4], data_type=TensorProto.FLOAT, raw_data=b"1234567"), "initializer 'w'"
    )


KNOWN = onnx.defs.onnx_opset_version()
STATE = {"inputs": [X, ("s", F, [1, 4])], "outputs": [Y]}

CASES = {
    "index": (
        lambda folder: run(
            folder, ("Gather", ["x", "i"], ["y"], "pick", {"axis": 1}), weights={"i": np.array([7])}
        ),
        "bad input: ONNX operator Gather: index 7 at (0,) is outside an axis of size 4\n"
        "  at: node 'pick': ai.onnx Gather, opset 17\n"
        "  hint: indices count from 0, negative ones from the end",
    ),
    "types": (
        lambda folder: run(folder, ("Add", ["x", "w"], ["y"], "sum", {}), weights={"w": np.array([7])}),
        "bad input: types that do not fit: [ShapeInferenceError] (op_type:Add, node name: sum): B has "
        "inconsistent type tensor(int64)\n"
        "  at: net.onnx\n"
        "  hint: insert a Cast, or check the exporter with onnx.checker.check_model(model, "
        "full_check=True)",
    ),
    "batch of a fixed dimension": (
        lambda folder: load(folder, batch=3),
        "bad input: no input of net.onnx has batch=3: the first dimension of 'x' has size 1\n"
        "  at: ~/net.onnx\n"
        "  hint: leave batch out, or export the model with a symbolic first dimension",
    ),
    "dims": (
        lambda folder: load(folder, dims=[3]),
        "bad input: dims is of type list\n  hint: give a dict by name: dims={'N': 4}",
    ),
    "fixed": (
        lambda folder: load(folder, fixed=[3]),
        "bad input: fixed is of type list\n  hint: give a dict by name: fixed={'axes': [1]}",
    ),
    "size of a dimension": (
        lambda folder: load(folder, dims={"N": 0}),
        "bad input: N has the size 0\n  hint: give an integer from 1 on",
    ),
    "sequence": (
        lambda folder: load(folder, change=sequence),
        "unsupported: input 'x' is a sequence\n"
        "  at: input 'x' of net.onnx\n"
        "  hint: export the model with tensors as inputs",
    ),
    "no shape": (
        lambda folder: load(folder, change=without_shape),
        "bad input: input 'x' has no shape\n  at: ~/net.onnx\n  hint: export the model with shapes of inputs",
    ),
    "examples": (
        lambda folder: load(
            folder,
            [helper.make_node("Add", ["x", "z"], ["y"])],
            [("x", F, ["N", 4]), ("z", F, ["N", 4])],
            [("y", F, ["N", 4])],
            examples=(np.zeros((2, 4), F), np.zeros((3, 4), F)),
        ),
        "bad input: dimension N of net.onnx has size 2 in one example and 3 in another\n"
        "  at: input 'z' of net.onnx\n"
        "  hint: give example inputs whose shapes agree",
    ),
    "no model": (
        unreadable,
        "bad input: net.onnx is not an ONNX model: ValueError: no message\n"
        "  at: ~/net.onnx\n"
        "  hint: check it with onnx.checker.check_model",
    ),
    "no graph": (
        lambda folder: of_bytes(folder, b""),
        "bad input: net.onnx is not an ONNX model: it has no graph\n"
        "  at: ~/net.onnx\n"
        "  hint: check it with onnx.checker.check_model",
    ),
    "sparse": (
        lambda folder: load(folder, change=sparse),
        "bad input: net.onnx has sparse initializers\n  at: w\n  hint: store them as dense initializers",
    ),
    "constant": (
        cannot_fold,
        "unsupported: constant of ONNX operator Det cannot be computed: ValueError: no definition\n"
        "  at: node 'det': ai.onnx Det, opset 17\n"
        "  hint: store the constant in the file as an initializer, e.g. with onnxsim",
    ),
    "value that nothing computes": (
        lambda folder: run(folder, ("Add", ["x", "lost"], ["y"], "sum", {})),
        "unsupported: no node computes 'lost'\n"
        "  at: value 'lost'\n"
        "  hint: check the file with onnx.checker.check_model",
    ),
    "computed twice": (
        lambda folder: capture(load(folder, change=computed_twice), np.zeros((1, 4), F)),
        "unsupported: 'y' is computed twice\n"
        "  at: node 'second': Neg\n"
        "  hint: check the file with onnx.checker.check_model",
    ),
    "sequence as output": (
        lambda folder: run(folder, ("SequenceConstruct", ["x"], ["y"], "pair", {})),
        "unsupported: output 'y' is a sequence\n"
        "  at: output 'y'\n"
        "  hint: make its elements outputs of the graph",
    ),
    "operator set": (
        lambda folder: load(folder, change=without_operator_set),
        "unsupported: the file imports no version of the operator set 'ai.onnx'\n"
        "  at: node 'neg': Neg\n"
        "  hint: check the file with onnx.checker.check_model",
    ),
    "axes": (
        lambda folder: run(
            folder, ("Unsqueeze", ["x", "a"], ["y"], "wide", {}), weights={"a": np.arange(40)}
        ),
        "unsupported: a result has 42 axes\n"
        "  at: node 'wide': ai.onnx Unsqueeze, opset 17\n"
        "  hint: use at most 32",
    ),
    "sizes": (
        lambda folder: run(folder, ("Tile", ["x", "a"], ["y"], "rows", {}), weights={"a": np.array([1, -1])}),
        "bad input: Tile is given the size -1\n"
        "  at: node 'rows': ai.onnx Tile, opset 17\n"
        "  hint: give sizes of 0 or more",
    ),
    "function that calls itself": (
        lambda folder: load(folder, change=recursive),
        "bad input: function 'again' calls itself\n"
        "  at: node '': again\n"
        "  hint: check the file with onnx.checker.check_model",
    ),
    "path": (
        lambda folder: OnnxModel(3),
        "bad input: 3 is not a path of an ONNX file\n  hint: give e.g. 'model.onnx'",
    ),
    "no output": (
        lambda folder: load(folder, outputs=()),
        "bad input: net.onnx has no output\n"
        "  at: ~/net.onnx\n"
        "  hint: export the model with its results as outputs",
    ),
    "two outputs": (
        lambda folder: load(folder, change=two(lambda graph: graph.output)),
        "bad input: net.onnx has two outputs of the name 'y'\n"
        "  at: ~/net.onnx\n"
        "  hint: give each output a name of its own, with an Identity node",
    ),
    "opset": (
        lambda folder: load(folder, change=of_opset(999)),
        f"bad input: net.onnx is of opset 999; the installed onnx knows {KNOWN}\n  at: ~/net.onnx\n"
        f"  hint: install a newer onnx, or export the model with opset {KNOWN} or less",
    ),
    "two initializers": (
        lambda folder: load(
            folder, weights={"w": np.zeros(4, F)}, change=two(lambda graph: graph.initializer)
        ),
        "bad input: net.onnx has two initializers of the name 'w'\n"
        "  at: ~/net.onnx\n"
        "  hint: check the file with onnx.checker.check_model",
    ),
    "kind of state": (
        lambda folder: load(folder, state=["s"], **STATE),
        "bad input: state is of type list\n"
        "  hint: give a dict of outputs to inputs: state={'stateN': 'state'}",
    ),
    "state only": (
        lambda folder: load(folder, state={"y": "s"}, **STATE),
        "bad input: all outputs of net.onnx are state\n"
        "  at: ~/net.onnx\n"
        "  hint: leave one output, which the host reads",
    ),
    "shape of state": (
        lambda folder: other_state(),
        "bad input: output 'stateN' of net.onnx has shape (1, 3) and type dtypes.float, its state "
        "'state' (1, 4) and dtypes.float\n"
        "  at: net.onnx\n"
        "  hint: state is an output of the shape and type of its input",
    ),
    "element type": (
        lambda folder: element_type(TensorProto.COMPLEX64, "input 'x'"),
        "unsupported: no hardware type for ONNX's COMPLEX64\n"
        "  at: input 'x'\n"
        "  hint: cast to one of BOOL, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, "
        "FLOAT8E4M3FN, FLOAT8E5M2, FLOAT16, BFLOAT16, FLOAT, DOUBLE",
    ),
    "contents": (
        lambda folder: short_tensor(),
        "bad input: the contents of tensor 'w' do not fit its shape (4,): buffer size must be a multiple "
        "of element size\n"
        "  at: initializer 'w'\n"
        "  hint: the file or its external data is damaged or of another model: export it again",
    ),
}


@pytest.mark.parametrize(("make", "text"), CASES.values(), ids=CASES)
def test_text_of_an_error(tmp_path, make, text):
    with pytest.raises(Tg2hdlError) as caught:
        make(tmp_path)
    assert str(caught.value).replace(str(tmp_path), "~") == text


def test_a_missing_package_is_named():
    code = "import sys; sys.modules['onnx'] = None; import tg2hdl_backend.onnx"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert found.stderr.splitlines()[-2:] == [
        "tg2hdl_ir.errors.ToolMissingError: missing tool: ONNX files are read by the package onnx, which is not "
        "installed",
        '  hint: pip install "tg2hdl[onnx]"',
    ]
