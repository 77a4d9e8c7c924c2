"""Float constants between quantizers: the codes of ONNX Runtime, which computes between them in float32."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tg2hdl_backend.onnx_runtime import runtime_session

onnx = pytest.importorskip("onnx", reason="the onnx package builds the files")
ort = pytest.importorskip("onnxruntime", reason="ONNX Runtime is the reference")

import tg2hdl  # noqa: E402
from tg2hdl_backend import OnnxModel  # noqa: E402

KINDS = (
    "Add",
    "Sub",
    "RSub",
    "Mul",
    "Div",
    "Concat",
    "HardSigmoid",
    "HardSwish",
    "AddRelu",
    "AddClip",
    "Gather",
)
MOVES = ("none", "Reshape", "Transpose", "Tile")
F = np.float32


def random_file(rng: np.random.Generator, kind: str, path: Path) -> tuple[tuple[int, ...], np.ndarray]:
    """Write quantizer, operator with a float constant, movement, quantizer; the input's shape and all its steps."""
    dtype = rng.choice([np.int8, np.uint8])
    info = np.iinfo(dtype)
    shape = tuple(int(n) for n in rng.choice([1, 2, 3, 5, 8], rng.integers(1, 4)))
    zeros = rng.integers(info.min // 2, info.max // 2 + 1, 2)
    values = {
        "s": F(rng.choice([0.05, 0.0371, 0.125, 0.0113])),
        "z": dtype(zeros[0]),
        "so": F(rng.choice([0.06, 0.0402, 0.125, 0.021])),
        "zo": dtype(zeros[1]),
    }
    spread = rng.choice([0, 1, 2])
    own = {0: (), 1: shape, 2: tuple(n if rng.random() < 0.5 else 1 for n in shape)}[int(spread)]
    c = (rng.normal(size=own) * rng.choice([0.3, 1, 3])).astype(F)
    node, nodes, before = onnx.helper.make_node, [], ["d", "c"]
    match kind:
        case "Concat":
            c = rng.normal(size=shape).astype(F)
            before = before[:: rng.choice([-1, 1])]
            nodes.append(node("Concat", before, ["m"], axis=int(rng.integers(0, len(shape)))))
        case "HardSigmoid":
            nodes.append(node(kind, ["d"], ["m"], alpha=0.25, beta=0.5))
        case "HardSwish":
            nodes.append(node(kind, ["d"], ["m"]))
        case "Gather":  # Of a constant that is computed from codes.
            values |= {
                "q1": rng.integers(info.min, info.max + 1, 5).astype(dtype),
                "s1": F(0.03),
                "z1": dtype(3),
            }
            values["at"] = np.array([4], np.int64)
            nodes += [
                node("DequantizeLinear", ["q1", "s1", "z1"], ["d1"]),
                node("Gather", ["d1", "at"], ["g"]),
            ]
            nodes.append(node("Add", ["d", "g"], ["m"]))
        case "AddRelu" | "AddClip":
            values |= {"low": F(-0.7), "high": F(1.3)}
            nodes.append(node("Add", before, ["a"]))
            relu = kind == "AddRelu"
            nodes.append(node("Relu", ["a"], ["m"]) if relu else node("Clip", ["a", "low", "high"], ["m"]))
        case _:
            c = np.where(np.abs(c) < 0.1, F(1), c) if kind == "Div" else c
            nodes.append(node(kind[-3:], before[::-1] if kind == "RSub" else before, ["m"]))
    move, last = rng.choice(MOVES), "m"
    if move != "none":
        values |= {
            "flat": np.array([-1], np.int64),
            "twice": np.array([2] + [1] * (len(shape) - 1), np.int64),
        }
        more = {"Reshape": ["flat"], "Transpose": [], "Tile": ["twice"]}[str(move)]
        nodes.append(node(str(move), ["m", *more], [last := "v"]))
    ends = [node("QuantizeLinear", ["x", "s", "z"], ["q"]), node("DequantizeLinear", ["q", "s", "z"], ["d"])]
    nodes = [*ends, *nodes, node("QuantizeLinear", [last, "so", "zo"], ["y"])]
    used = {name for n in nodes for name in n.input}
    arrays = {name: np.asarray(a) for name, a in (values | {"c": np.asarray(c, F)}).items() if name in used}
    graph = onnx.helper.make_graph(
        nodes,
        "g",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)],
        [
            onnx.helper.make_tensor_value_info(
                "y", onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), None
            )
        ],
        [onnx.numpy_helper.from_array(a, name) for name, a in arrays.items()],
    )
    opset = int(rng.choice([14, 17, 19, 21]))
    onnx.save(
        onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=8), path
    )
    return shape, ((np.arange(info.min, info.max + 1) - zeros[0]) * np.float64(values["s"])).astype(F)


@pytest.mark.parametrize("kind", KINDS)
def test_float_constants_between_quantizers(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    for seed in range(6):
        rng = np.random.default_rng([KINDS.index(kind), seed])
        shape, steps = random_file(rng, kind, path)
        session = runtime_session(path, options)
        accelerator = tg2hdl.compile(path, np.zeros(shape, F))
        for x in (np.full(shape, steps[-1]), *(rng.choice(steps, shape) for _ in range(6))):
            (wanted,) = session.run(None, {"x": x})
            np.testing.assert_array_equal(accelerator.golden(x), wanted, err_msg=f"{kind}, seed {seed}")


def test_a_constant_beside_an_input_is_a_product_and_a_shift(tmp_path: Path) -> None:
    """No float unit: one multiplier for each lane, and simulated codes are ONNX Runtime's."""
    path = tmp_path / "m.onnx"
    shape, steps = random_file(np.random.default_rng([0, 3]), "Add", path)
    accelerator = tg2hdl.compile(path, np.zeros(shape, F))
    assert accelerator.in_float == ()
    x = np.random.default_rng(5).choice(steps, shape)
    session = runtime_session(path)
    np.testing.assert_array_equal(accelerator.simulate(x).output, session.run(None, {"x": x})[0])


@pytest.mark.parametrize(
    ("bias", "step", "exact"),
    [
        ("whole", F(2.0**-6), True),
        ("whole", F(0.01), False),
        ("one number", F(0.01), False),
        ("of a channel", F(0.01), False),
    ],
)
def test_a_float_bias_is_exact_where_float32_holds_all_sums(
    bias: str, step: np.float32, exact: bool, tmp_path: Path
) -> None:
    """ONNX Runtime may add such a bias to a sum of float32 products, whose order is its own."""
    rng = np.random.default_rng(2)
    scale = F(2.0**-5 if exact else 0.05)
    values = {
        "s": scale,
        "z": np.uint8(128),
        "w": rng.integers(-127, 128, (64, 10)).astype(np.int8),
        "sw": step,
        "none": np.int8(0),
        "so": F(0.25 if exact else 0.2),
        "b": {"whole": 40 * scale * step, "one number": F(0.0123), "of a channel": rng.normal(size=10)}[bias],
    }
    node = onnx.helper.make_node
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        node("DequantizeLinear", ["w", "sw", "none"], ["dw"]),
        node("MatMul", ["d", "dw"], ["m"]),
        node("Add", ["m", "b"], ["a"]),
        node("QuantizeLinear", ["a", "so", "z"], ["y"]),
    ]
    arrays = {n: np.asarray(v, np.float32) if n in ("s", "sw", "so", "b") else v for n, v in values.items()}
    graph = onnx.helper.make_graph(
        nodes,
        "g",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 64])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.UINT8, [1, 10])],
        [onnx.numpy_helper.from_array(np.asarray(a), n) for n, a in arrays.items()],
    )
    path = tmp_path / "m.onnx"
    onnx.save(
        onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), path
    )
    model = tg2hdl.integer_model(OnnxModel(path))
    assert model.report.is_exact is exact
    assert model.report.in_float == ()


def test_a_weighted_sum_of_codes_has_all_bits_of_its_weights(tmp_path: Path) -> None:
    """Sums that are interpolated were rounded with an error of 1/16 of a code."""
    node, arrays = onnx.helper.make_node, {"s": F(0.00949015), "z": np.uint8(108)}
    arrays |= {"so": F(0.015625), "zo": np.uint8(107), "size": np.array([1, 1, 1, 5])}
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        node(
            "Resize", ["d", "", "", "size"], ["r"], mode="linear", coordinate_transformation_mode="asymmetric"
        ),
        node("QuantizeLinear", ["r", "so", "zo"], ["y"]),
    ]
    graph = onnx.helper.make_graph(
        nodes,
        "g",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 1, 1, 4])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.UINT8, [1, 1, 1, 5])],
        [onnx.numpy_helper.from_array(np.asarray(a), n) for n, a in arrays.items()],
    )
    path = tmp_path / "m.onnx"
    onnx.save(
        onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), path
    )
    x = np.random.default_rng(3).normal(size=(500, 1, 1, 1, 4)).astype(np.float32)
    accelerator = tg2hdl.compile(path, x[0])
    session = runtime_session(path)
    for sample in x:
        np.testing.assert_array_equal(accelerator.golden(sample), session.run(None, {"x": sample})[0])


@pytest.mark.parametrize("kind", ["Add", "Concat"])
def test_constants_beside_codes_of_16_bits(tmp_path: Path, kind: str) -> None:
    """They were rounded to the steps of the input; 16 bits have too many codes to compare all."""
    rng, node = np.random.default_rng(4), onnx.helper.make_node
    arrays = {
        "s": F(0.00012207),
        "z": np.int16(0),
        "so": F(4.0546925e-05),
        "zo": np.int16(-17988),
        "c": rng.uniform(0, 1, (1, 40)).astype(np.float32),
    }
    beside = node("Concat", ["d", "c"], ["r"], axis=1) if kind == "Concat" else node("Add", ["d", "c"], ["r"])
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        beside,
        node("QuantizeLinear", ["r", "so", "zo"], ["y"]),
    ]
    graph = onnx.helper.make_graph(
        nodes,
        "g",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 40])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.INT16, None)],
        [onnx.numpy_helper.from_array(np.asarray(a), n) for n, a in arrays.items()],
    )
    path = tmp_path / "m.onnx"
    onnx.save(
        onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10), path
    )
    x = rng.uniform(-0.5, 1, (1, 40)).astype(np.float32)
    found = tg2hdl.compile(path, x).golden(x)
    expected = runtime_session(path).run(None, {"x": x})[0]
    np.testing.assert_array_equal(found, expected)


def test_a_computed_constant_has_the_float32_bits_of_the_file(tmp_path: Path) -> None:
    """255 steps of 1/255 times 3 are an exponent of 3, and not a little more: of a negative number that is NaN."""
    node = onnx.helper.make_node
    nodes = [
        node("DequantizeLinear", ["q", "s"], ["one"]),
        node("Mul", ["one", "three"], ["power"]),
        node("Pow", ["x", "power"], ["y"]),
    ]
    arrays = {"q": np.uint8(255), "s": F(1 / 255), "three": F(3)}
    graph = onnx.helper.make_graph(
        nodes,
        "g",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [5])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [5])],
        [onnx.numpy_helper.from_array(np.asarray(a), n) for n, a in arrays.items()],
    )
    path = tmp_path / "m.onnx"
    onnx.save(
        onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), path
    )
    x = np.array([-2.5, -1, 0.5, 1, 2], np.float32)
    expected = runtime_session(path).run(None, {"x": x})[0]
    np.testing.assert_allclose(tg2hdl.compile(path, x).golden(x), expected, rtol=4e-7)


@pytest.mark.parametrize("scale", [0.0019558726, 0.03, 3.0])
@pytest.mark.parametrize("codes", [(255,), (0, 7, 128, 200, 255)], ids=len)
def test_codes_of_a_constant_are_constant(codes: tuple[int, ...], scale: float, tmp_path: Path) -> None:
    """A file without inputs, as ``quantize_static`` makes of a constant output."""
    node = onnx.helper.make_node
    nodes = [
        node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        node("QuantizeLinear", ["d", "so", "z"], ["y"]),
    ]
    arrays = {"q": np.uint8(codes), "s": F(0.0019558726), "so": F(scale), "z": np.uint8(128)}
    graph = onnx.helper.make_graph(
        nodes,
        "g",
        [],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.UINT8, [len(codes)])],
        [onnx.numpy_helper.from_array(np.asarray(a), n) for n, a in arrays.items()],
    )
    path = tmp_path / "m.onnx"
    onnx.save(
        onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 19)], ir_version=9), path
    )
    found = tg2hdl.compile(path)
    np.testing.assert_array_equal(found.golden(), runtime_session(path).run(None, {})[0])
    assert found.captured.model.report.is_exact
