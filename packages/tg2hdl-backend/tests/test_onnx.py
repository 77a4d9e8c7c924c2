"""ONNX files, built here with the onnx package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tg2hdl_backend import capture
from tg2hdl_backend.testing import compare_with_interpreter
from tg2hdl_backend.testing.hardware import compare_with_hardware
from tg2hdl_ir import InputError, UnsupportedError

onnx = pytest.importorskip("onnx", reason="the onnx package builds the files")
from tg2hdl_backend import OnnxModel  # noqa: E402  (needs onnx)

TensorProto, helper, numpy_helper = onnx.TensorProto, onnx.helper, onnx.numpy_helper
RNG = np.random.default_rng(11)


def save(path: Path, nodes, inputs, outputs, weights) -> Path:
    initializers = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "graph", inputs, outputs, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    onnx.checker.check_model(model)
    onnx.save(model, str(path))
    return path


def floats(name: str, *shape) -> Any:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def conv_net(path: Path, batch: int | str = 1) -> Path:
    weights = {
        "w": RNG.standard_normal((2, 1, 3, 3)).astype(np.float32),
        "b": RNG.standard_normal(2).astype(np.float32),
        "fc": RNG.standard_normal((8, 3)).astype(np.float32),
        "fb": RNG.standard_normal(3).astype(np.float32),
        "shape": np.array([-1, 8], np.int64),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Reshape", ["p", "shape"], ["f"]),
        helper.make_node("Gemm", ["f", "fc", "fb"], ["g"]),
        helper.make_node("Softmax", ["g"], ["y"], axis=1),
    ]
    return save(path, nodes, [floats("x", batch, 1, 4, 4)], [floats("y", batch, 3)], weights)


def reference_conv_net(x: np.ndarray, path: Path) -> np.ndarray:
    from onnx.reference import ReferenceEvaluator

    return ReferenceEvaluator(str(path)).run(None, {"x": x})[0]


def test_convolutional_net(tmp_path):
    path = conv_net(tmp_path / "net.onnx")
    model = OnnxModel(path)
    assert [(s.name, s.shape) for s in model.inputs] == [("x", (1, 1, 4, 4))]
    x = RNG.standard_normal((1, 1, 4, 4)).astype(np.float32)
    captured = capture(model, *model.example_inputs())
    assert captured.program.name == "net"
    assert {b.name for b in captured.program.buffers if b.role == "weight"} >= {"w", "b", "fc", "fb"}
    result = compare_with_interpreter(captured, x, ulp=1)
    assert not result.mismatches
    np.testing.assert_allclose(result.outputs[0], reference_conv_net(x, path), rtol=1e-5)


def test_symbolic_batch_is_resolved(tmp_path):
    path = conv_net(tmp_path / "net.onnx", "N")
    for model in (OnnxModel(path, batch=2), OnnxModel(path, dims={"N": 2})):
        assert model.inputs[0].shape == (2, 1, 4, 4)
    x = RNG.standard_normal((2, 1, 4, 4)).astype(np.float32)
    result = compare_with_interpreter(model, x, ulp=1, fold=True)
    assert not result.mismatches
    np.testing.assert_allclose(result.outputs[0], reference_conv_net(x, path), rtol=1e-5)


def quantized_net(path: Path) -> Path:
    weights = {
        "s": np.array(0.05, np.float32),
        "z": np.array(3, np.uint8),
        "w": RNG.integers(0, 255, (6, 4), dtype=np.uint8),
        "wz": np.array(128, np.uint8),
    }
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("MatMulInteger", ["q", "w", "z", "wz"], ["y"]),
    ]
    output = helper.make_tensor_value_info("y", TensorProto.INT32, (2, 4))
    return save(path, nodes, [floats("x", 2, 6)], [output], weights)


def test_quantized_matmul_is_exact(tmp_path):
    from onnx.reference import ReferenceEvaluator

    path = quantized_net(tmp_path / "quantized.onnx")
    x = RNG.standard_normal((2, 6)).astype(np.float32) * 3
    result = compare_with_interpreter(OnnxModel(path), x, fold=True)
    assert not result.mismatches
    np.testing.assert_array_equal(result.outputs[0], ReferenceEvaluator(str(path)).run(None, {"x": x})[0])


def qlinear_net(path: Path, operator: str) -> Path:
    shape, w_shape, y_shape = {
        "QLinearMatMul": ((2, 6), (6, 4), (2, 4)),
        "QLinearConv": ((1, 1, 4, 4), (2, 1, 3, 3), (1, 2, 2, 2)),
    }[operator]
    weights = {
        "xs": np.array(0.05, np.float32),
        "xz": np.array(7, np.uint8),
        "w": RNG.integers(100, 160, w_shape, dtype=np.uint8),
        "ws": np.array(0.02, np.float32),
        "wz": np.array(128, np.uint8),
        "ys": np.array(0.3, np.float32),
        "yz": np.array(60, np.uint8),
    }
    node = helper.make_node(operator, ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"], ["y"])
    return save(
        path,
        [node],
        [helper.make_tensor_value_info("x", TensorProto.UINT8, shape)],
        [helper.make_tensor_value_info("y", TensorProto.UINT8, y_shape)],
        weights,
    )


@pytest.mark.parametrize("operator", ["QLinearMatMul", "QLinearConv"])
def test_quantized_linear_operators(tmp_path, operator):
    from onnx.reference import ReferenceEvaluator

    path = qlinear_net(tmp_path / "q.onnx", operator)
    model = OnnxModel(path)
    x = RNG.integers(0, 255, model.inputs[0].shape, dtype=np.uint8)
    result = compare_with_interpreter(model, x, fold=True)
    assert not result.mismatches
    expected = ReferenceEvaluator(str(path)).run(None, {"x": x})[0].astype(int)
    # The real result may lie at the middle of two codes, where the order of the scalings decides.
    assert np.abs(result.outputs[0].astype(int) - expected).max() <= 1


@pytest.mark.parametrize("operator", ["QLinearMatMul", "QLinearConv", "MatMulInteger"])
def test_quantized_operators_on_hardware(tmp_path, operator):
    path = tmp_path / "q.onnx"
    model = OnnxModel(quantized_net(path) if operator == "MatMulInteger" else qlinear_net(path, operator))
    spec = model.inputs[0]
    x = RNG.integers(0, 255, spec.shape).astype(spec.dtype.numpy())
    assert compare_with_hardware(model, x, engine="amaranth").mismatches == ()


@pytest.mark.slow
def test_convolutional_net_on_hardware(tmp_path):
    model = OnnxModel(conv_net(tmp_path / "net.onnx", "N"), batch=2)
    x = RNG.standard_normal((2, 1, 4, 4)).astype(np.float32)
    assert compare_with_hardware(model, x).mismatches == ()


def test_missing_file(tmp_path):
    with pytest.raises(InputError) as error:
        OnnxModel(tmp_path / "none.onnx")
    assert str(error.value) == (
        f"bad input: no file {str(tmp_path / 'none.onnx')!r}\n  hint: give the path of an .onnx file"
    )


def test_unreadable_file(tmp_path):
    path = tmp_path / "bad.onnx"
    path.write_bytes(b"not a model")
    with pytest.raises(InputError, match=r"^bad input: bad\.onnx is not an ONNX model: "):
        OnnxModel(path)


def test_symbolic_dimension_without_size(tmp_path):
    path = conv_net(tmp_path / "net.onnx", "N")
    with pytest.raises(InputError) as error:
        OnnxModel(path)
    assert str(error.value) == (
        f"bad input: dimension 0 of input 'x' is symbolic: N\n  at: {path}\n"
        "  hint: give batch=1, or dims={'N': size}"
    )


@pytest.mark.parametrize(
    ("operator", "reason", "hint"),
    [
        (
            "Unique",
            "the shape of its result depends on the data",
            "compute it on the host, or write the model with a mask (Where) in place of a selection",
        ),
        (
            "NonZero",
            "the shape of its result depends on the data",
            "compute it on the host, or write the model with a mask (Where) in place of a selection",
        ),
        (
            "NonMaxSuppression",
            "how many boxes it keeps depends on the data",
            "cut the file before it (onnx.utils.extract_model) and choose among boxes and scores on the host",
        ),
    ],
)
def test_results_whose_size_depends_on_data(tmp_path, operator, reason, hint):
    node = helper.make_node(operator, ["x"] * (2 if operator.startswith("NonMax") else 1), ["y"])
    element = TensorProto.FLOAT if operator == "Unique" else TensorProto.INT64
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 4])]
    graph = helper.make_graph([node], "graph", inputs, [helper.make_tensor_value_info("y", element, None)])
    path = tmp_path / "odd.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), str(path))
    with pytest.raises(UnsupportedError) as error:
        OnnxModel(path)
    assert str(error.value) == (
        f"unsupported: ONNX operator {operator}: {reason}\n"
        f"  at: node 'y': ai.onnx {operator}, opset 13\n"
        f"  hint: {hint}"
    )
