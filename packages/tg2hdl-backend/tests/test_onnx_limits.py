"""Small files that ask for very much are refused before the work is done."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the onnx package builds the files")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from tg2hdl_backend import OnnxModel  # noqa: E402
from tg2hdl_backend.testing.onnx_files import golden  # noqa: E402
from tg2hdl_ir.errors import Tg2hdlError  # noqa: E402

BIG = 2**40
X = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 4, 4])
Y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def loop(trips: int, nested: int | None = None) -> onnx.NodeProto:
    body_nodes = [helper.make_node("Identity", ["c"], ["c2"]), helper.make_node("Neg", ["v"], ["w"])]
    if nested is not None:
        count = numpy_helper.from_array(np.array(nested, np.int64), "inner_trips")
        body_nodes[0:0] = [helper.make_node("Constant", [], ["n"], value=count)]
        inner = loop(0)
        inner.input[:] = ["n", "", "v"]
        inner.output[:] = ["w"]
        inner.name = "inner"
        body_nodes[-1] = inner
    body = helper.make_graph(
        body_nodes,
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("c", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v", TensorProto.FLOAT, None),
        ],
        [
            helper.make_tensor_value_info("c2", TensorProto.BOOL, []),
            helper.make_tensor_value_info("w", TensorProto.FLOAT, None),
        ],
    )
    return helper.make_node("Loop", ["a", "", "x"], ["y"], "hostile", body=body)


@contextmanager
def within_seconds() -> Iterator[None]:
    """A refusal takes no more than two seconds of CPU time."""
    started = time.process_time()
    yield
    assert time.process_time() - started < 2


def while_loop(trips: str, body: str, *inputs: str) -> onnx.NodeProto:
    """A loop whose condition is computed in its body."""
    node = loop(0)
    node.input[:] = [trips, "t", "x"]
    node.attribute[0].g.node[0].CopyFrom(helper.make_node(body, inputs, ["c2"]))
    return node


ONE = np.ones((1, 1, 1, 1), np.float32)
COL, ROW = np.ones((2**15, 1), np.float32), np.ones((1, 2**15), np.float32)


def op(kind: str, *inputs: str, **attributes: object) -> onnx.NodeProto:
    return helper.make_node(kind, list(inputs), ["y"], "hostile", **attributes)


CASES: dict[str, tuple[onnx.NodeProto, dict[str, np.ndarray]]] = {
    "expand": (op("Expand", "x", "a"), {"a": ints(BIG, 1, 4, 4)}),
    "expand_constant": (op("Expand", "o", "a"), {"o": ONE, "a": ints(BIG)}),
    "expand_overflow": (op("Expand", "x", "a"), {"a": ints(BIG, BIG, 4, 4)}),
    "tile": (op("Tile", "x", "a"), {"a": ints(BIG, 1, 1, 1)}),
    "tile_constant": (op("Tile", "o", "a"), {"o": ONE, "a": ints(BIG, 1, 1, 1)}),
    "constant_of_shape": (op("ConstantOfShape", "a"), {"a": ints(BIG)}),
    "constant_of_shape_2": (op("ConstantOfShape", "a"), {"a": ints(2**20, 2**20)}),
    "range": (
        op("Range", "a", "b", "c"),
        {n: np.array(v, np.int64) for n, v in zip("abc", (0, BIG, 1), strict=True)},
    ),
    "pad": (op("Pad", "x", "a"), {"a": ints(0, 0, 0, BIG, 0, 0, 0, 0)}),
    "pad_constant": (op("Pad", "o", "a"), {"o": ONE, "a": ints(0, 0, 0, BIG, 0, 0, 0, 0)}),
    "resize": (op("Resize", "x", "", "", "a"), {"a": ints(1, 1, 2**20, 2**20)}),
    "resize_scales": (op("Resize", "x", "", "a"), {"a": np.array([1, 1, 1e6, 1e6], np.float32)}),
    "one_hot": (
        op("OneHot", "i", "a", "v"),
        {"i": ints(0, 1), "a": np.array(BIG, np.int64), "v": np.array([0, 1], np.float32)},
    ),
    "matmul": (op("MatMul", "p", "q"), {"p": COL, "q": ROW}),
    "add": (op("Add", "p", "q"), {"p": COL, "q": ROW}),
    "mul": (op("Mul", "p", "q"), {"p": COL, "q": ROW}),
    "where": (op("Where", "b", "p", "q"), {"b": np.array(True), "p": COL, "q": ROW}),
    "gather": (op("Gather", "p", "i", axis=1), {"p": COL, "i": np.zeros(2**15, np.int64)}),
    "sub": (op("Sub", "p", "q"), {"p": COL, "q": ROW}),
    "div": (op("Div", "p", "q"), {"p": COL, "q": ROW}),
    "less": (op("Less", "p", "q"), {"p": COL, "q": ROW}),
    "max": (op("Max", "p", "q"), {"p": COL, "q": ROW}),
    "gemm": (op("Gemm", "p", "q"), {"p": COL, "q": ROW}),
    "einsum": (op("Einsum", "p", "q", equation="ij,kl->il"), {"p": COL, "q": ROW}),
    "concat": (op("Concat", *["p"] * 2**14, axis=0), {"p": COL}),
    "conv_pads": (op("Conv", "x", "o", pads=[2**20] * 4), {"o": ONE}),
    "max_pool_pads": (op("MaxPool", "x", kernel_shape=[2**20] * 2, pads=[2**20 - 1] * 4), {}),
    "average_pool_pads": (op("AveragePool", "x", kernel_shape=[2**20] * 2, pads=[2**20 - 1] * 4), {}),
    "conv_transpose": (op("ConvTranspose", "x", "o", strides=[2**20] * 2), {"o": ONE}),
    "upsample": (op("Upsample", "x", "a"), {"a": np.array([1, 1, 1e6, 1e6], np.float32)}),
    "split": (op("SplitToSequence", "v", axis=0), {"v": np.zeros(2**20, np.float32)}),
    "hann_window": (op("HannWindow", "a"), {"a": np.array(BIG, np.int64)}),
    "dilations": (op("MaxPool", "x", kernel_shape=[2**20] * 2, dilations=[2**20] * 2, pads=[2**10] * 4), {}),
    "average_pool_ceil": (
        op("AveragePool", "x", kernel_shape=[2**30] * 2, pads=[2**29] * 4, ceil_mode=1),
        {},
    ),
    "pool_dilations": (op("MaxPool", "x", kernel_shape=[2, 2], dilations=[BIG] * 2, pads=[BIG // 2] * 4), {}),
    "max_pool_same": (op("MaxPool", "x", kernel_shape=[2**14] * 2, auto_pad="SAME_UPPER"), {}),
    "average_pool_same": (op("AveragePool", "x", kernel_shape=[2**14] * 2, auto_pad="SAME_UPPER"), {}),
    "lp_pool": (op("LpPool", "x", kernel_shape=[2**14] * 2, pads=[2**13] * 4, strides=[2**13] * 2), {}),
    "conv_dilations": (
        op("Conv", "x", "w", dilations=[2**20] * 2, auto_pad="SAME_UPPER"),
        {"w": np.ones((1, 1, 3, 3), np.float32)},
    ),
    "dft": (op("DFT", "v"), {"v": np.zeros((1, 2**17, 1), np.float32)}),
    "stft": (
        op("STFT", "v", "s", "", "a"),
        {"v": np.zeros((1, 8, 1), np.float32), "s": np.array(1, np.int64), "a": np.array(BIG, np.int64)},
    ),
    "roi_align": (
        op("RoiAlign", "x", "r", "i", output_height=2, output_width=2, sampling_ratio=2**20),
        {"r": np.float32([[0, 0, 1, 1]]), "i": ints(0)},
    ),
    "loop_of_few_trips": (loop(0), {"a": np.array(2**15, np.int64)}),
    "loop": (loop(0), {"a": np.array(BIG, np.int64)}),
    "nested_loop": (loop(0, 2**12), {"a": np.array(2**10, np.int64)}),
}


def write(path: Path, node: onnx.NodeProto, arrays: dict[str, np.ndarray]) -> Path:
    return write_nodes(path, [node], arrays)


def write_nodes(path: Path, nodes: list[onnx.NodeProto], arrays: dict[str, np.ndarray]) -> Path:
    initializers = [numpy_helper.from_array(a, n) for n, a in arrays.items()]
    graph = helper.make_graph(nodes, "g", [X], [Y], initializers)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.parametrize("case", CASES)
def test_a_file_that_asks_for_too_much_is_refused(case: str, tmp_path: Path) -> None:
    path = write(tmp_path / "m.onnx", *CASES[case])
    with within_seconds(), pytest.raises(Tg2hdlError, match="beyond the limit of 268435456") as caught:
        OnnxModel(path)
    assert "inner" in str(caught.value) if case == "nested_loop" else "hostile" in str(caught.value)


def test_the_limit_can_be_lowered_and_raised(tmp_path: Path) -> None:
    path = write(tmp_path / "m.onnx", op("Tile", "x", "a"), {"a": ints(1, 1, 1, 100)})
    OnnxModel(path)
    with pytest.raises(Tg2hdlError, match="1600 elements, beyond the limit of 1000"):
        OnnxModel(path, limit=1000)
    OnnxModel(path, limit=1600)


def test_functions_in_functions_are_counted(tmp_path: Path) -> None:
    functions = [
        helper.make_function(
            "f",
            f"F{n}",
            ["a"],
            ["c"],
            [
                helper.make_node(f"F{n + 1}" if n < 39 else "Neg", [i], [o], domain="f" if n < 39 else "")
                for i, o in (("a", "b"), ("b", "c"))
            ],
            [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)],
        )
        for n in range(40)
    ]
    graph = helper.make_graph([helper.make_node("F0", ["x"], ["y"], "hostile", domain="f")], "g", [X], [Y])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
    onnx.save(
        helper.make_model(graph, opset_imports=opsets, functions=functions, ir_version=8), tmp_path / "m.onnx"
    )
    with pytest.raises(Tg2hdlError, match="its functions are 1099511627776 nodes"):
        OnnxModel(tmp_path / "m.onnx")


def test_a_symbolic_dimension_of_an_input_is_counted(tmp_path: Path) -> None:
    info = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", [info], [Y])
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "m.onnx")
    with pytest.raises(Tg2hdlError, match=f"the input has {2**30} elements, beyond the limit"):
        OnnxModel(tmp_path / "m.onnx", dims={"n": 2**30})


def test_a_chain_of_concats_is_refused_where_it_grows_too_large(tmp_path: Path) -> None:
    nodes = [helper.make_node("Concat", [f"v{n}"] * 2, [f"v{n + 1}"], f"c{n}", axis=0) for n in range(40)]
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["v0"]), *nodes, helper.make_node("Identity", ["v40"], ["y"])],
        "g",
        [X],
        [Y],
    )
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "m.onnx")
    with pytest.raises(Tg2hdlError, match="536870912 elements, beyond the limit") as caught:
        OnnxModel(tmp_path / "m.onnx")
    assert "c24" in str(caught.value)


LONG_SUMS: dict[str, tuple[type, dict[str, np.ndarray], list[onnx.NodeProto]]] = {
    "floats": (np.float32, {"a": ints(BIG)}, []),
    "integers": (np.int64, {"a": ints(BIG)}, []),
    "a_computed_size": (np.int64, {"b": ints(2**20)}, [helper.make_node("Mul", ["b", "b"], ["a"])]),
}


@pytest.mark.parametrize("kind", ["Add", "Mul", "Sub"])
@pytest.mark.parametrize("case", LONG_SUMS)
def test_the_inference_does_not_follow_long_sums(case: str, kind: str, tmp_path: Path) -> None:
    dtype, given, nodes = LONG_SUMS[case]
    weights = {**given, "one": np.ones(1, dtype)}
    value = numpy_helper.from_array(np.ones(1, dtype))
    long = [
        helper.make_node("ConstantOfShape", ["a"], ["c"], "hostile", value=value),
        helper.make_node(kind, ["one", "c"], ["s"]),
        helper.make_node("Cast", ["s"], ["y"], to=TensorProto.FLOAT),
    ]
    path = write_nodes(tmp_path / "m.onnx", [*nodes, *long], weights)
    with within_seconds(), pytest.raises(Tg2hdlError, match="beyond the limit of 268435456") as caught:
        OnnxModel(path)
    assert "hostile" in str(caught.value)


@pytest.mark.parametrize("kind", ["Expand", "Tile", "ConstantOfShape"])
def test_a_negative_size_is_refused(kind: str, tmp_path: Path) -> None:
    inputs = ["a"] if kind == "ConstantOfShape" else ["x", "a"]
    path = write(tmp_path / "m.onnx", op(kind, *inputs), {"a": ints(-5, 1, 4, 4)})
    with pytest.raises(Tg2hdlError, match=f"{kind} is given the size -5") as caught:
        OnnxModel(path)
    assert "hostile" in str(caught.value)


LARGEST = np.array(2**63 - 1, np.int64)
TRUE = np.array(True)


@pytest.mark.parametrize("trips", ["", "a"])
def test_a_loop_whose_condition_ends_it_too_late(trips: str, tmp_path: Path) -> None:
    weights = {"t": TRUE, "n": np.array(BIG, np.int64), "a": LARGEST}
    path = write(tmp_path / "m.onnx", while_loop(trips, "Less", "i", "n"), weights)
    # The trips before it are computed: the error says how many.
    with pytest.raises(Tg2hdlError, match="2049 times or more with 2 nodes, beyond"):
        OnnxModel(path)


@pytest.mark.parametrize("trips", ["", "a"])
def test_a_condition_may_end_a_loop_of_any_trips(trips: str, tmp_path: Path) -> None:
    weights = {"t": TRUE, "n": np.array(4, np.int64), "a": LARGEST}
    model = OnnxModel(write(tmp_path / "m.onnx", while_loop(trips, "Less", "i", "n"), weights))
    x = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    # The trips are 0 to 4, each changes the sign.
    np.testing.assert_array_equal(golden(model, x)[0], -x)


@pytest.mark.parametrize("known", [True, False])
def test_a_loop_without_an_end(known: bool, tmp_path: Path) -> None:
    node = loop(0)
    node.input[:] = ["", "t" if known else "", "x"]
    path = write(tmp_path / "m.onnx", node, {"t": TRUE})
    with within_seconds(), pytest.raises(Tg2hdlError, match="no end that is known at compile time") as caught:
        OnnxModel(path)
    assert "hostile" in str(caught.value)


def test_a_loop_that_does_not_begin(tmp_path: Path) -> None:
    node = loop(0)
    node.input[:] = ["a", "t", "x"]
    model = OnnxModel(write(tmp_path / "m.onnx", node, {"t": np.array(False), "a": LARGEST}))
    x = np.ones((1, 1, 4, 4), np.float32)
    np.testing.assert_array_equal(golden(model, x)[0], x)


def test_a_loop_in_branches_in_a_loop(tmp_path: Path) -> None:
    inner = loop(0, 2**10).attribute[0].g
    info = [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)]
    other = helper.make_graph([helper.make_node("Identity", ["v"], ["z"])], "else", [], info)
    inner.node[-1].output[:] = ["z"]
    then = helper.make_graph([inner.node[0], inner.node[-1]], "then", [], info)
    node = loop(0)
    branch = helper.make_node("If", ["c"], ["w"], "branch", then_branch=then, else_branch=other)
    node.attribute[0].g.node[-1].CopyFrom(branch)
    path = write(tmp_path / "m.onnx", node, {"a": np.array(2**11, np.int64)})
    with within_seconds(), pytest.raises(Tg2hdlError, match="beyond the limit of 268435456"):
        OnnxModel(path)
    path = write(tmp_path / "m.onnx", node, {"a": np.array(2**8, np.int64)})
    with (
        within_seconds(),
        pytest.raises(Tg2hdlError, match=r"runs 262144 times .*beyond the limit") as caught,
    ):
        OnnxModel(path)
    assert "inner" in str(caught.value)


@pytest.mark.parametrize(
    ("node", "given", "count"),
    [
        (op("Unsqueeze", "x", "a"), np.arange(5000), 5004),
        (op("Reshape", "x", "a"), np.array([-1, *[1] * 4999]), 5000),
        (op("Expand", "x", "a"), np.ones(5000, np.int64), 5000),
        (op("ConstantOfShape", "a"), np.ones(5000, np.int64), 5000),
    ],
)
def test_a_result_of_thousands_of_axes(
    node: onnx.NodeProto, given: np.ndarray, count: int, tmp_path: Path
) -> None:
    path = write(tmp_path / "m.onnx", node, {"a": given})
    with within_seconds(), pytest.raises(Tg2hdlError, match=f"a result has {count} axes") as caught:
        OnnxModel(path)
    assert "hostile" in str(caught.value)


def test_sparse_tensors_are_refused(tmp_path: Path) -> None:
    values = numpy_helper.from_array(np.ones(1, np.float32), "s")
    sparse = helper.make_sparse_tensor(values, numpy_helper.from_array(ints(0), "i"), [BIG, BIG])
    add = helper.make_node("Add", ["x", "s"], ["y"], "hostile")
    graph = helper.make_graph([add], "g", [X], [Y], sparse_initializer=[sparse])
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "m.onnx")
    with within_seconds(), pytest.raises(Tg2hdlError, match="sparse initializers"):
        OnnxModel(tmp_path / "m.onnx")
    constant = helper.make_node("Constant", [], ["s"], "sparse", sparse_value=sparse)
    graph = helper.make_graph([constant, add], "g", [X], [Y])
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "m.onnx")
    with within_seconds(), pytest.raises(Tg2hdlError, match="sparse_value"):
        OnnxModel(tmp_path / "m.onnx")


@pytest.mark.parametrize(
    ("location", "entries", "match"),
    [
        ("../secret.bin", {}, "external data of m.onnx cannot be read"),
        ("/etc/hostname", {}, "external data of m.onnx cannot be read"),
        ("missing.bin", {}, "external data of m.onnx cannot be read"),
        ("data.bin", {"length": "15"}, "do not fit its shape|cannot be read"),
        ("data.bin", {"length": "17"}, "do not fit its shape|cannot be read"),
        ("data.bin", {"offset": str(BIG)}, "do not fit its shape|cannot be read"),
        ("data.bin", {"offset": "-4"}, "do not fit its shape|cannot be read"),
        ("data.bin", {"length": str(BIG)}, "do not fit its shape|cannot be read"),
        ("data.bin", {"length": "many"}, "do not fit its shape|cannot be read"),
    ],
)
def test_external_data_of_strangers(
    location: str, entries: dict[str, str], match: str, tmp_path: Path
) -> None:
    (tmp_path / "secret.bin").write_bytes(bytes(16))
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "data.bin").write_bytes(bytes(16))
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=value)
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"], "hostile")], "g", [X], [Y], [tensor]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    with within_seconds(), pytest.raises(Tg2hdlError, match=match):
        OnnxModel(folder / "m.onnx")
