"""The same weights as an ONNX file, quantized and run by ONNX Runtime."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from models import Cnn, Depthwise, LeNet5, Lstm, Mlp, Residual, Transformer
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

from tg2hdl_backend.onnx_runtime import runtime_session


class _Samples(CalibrationDataReader):
    def __init__(self, samples: np.ndarray) -> None:
        self._rest = iter(samples)

    def get_next(self) -> dict[str, np.ndarray] | None:
        sample = next(self._rest, None)
        return None if sample is None else {"x": sample[None]}


def onnxruntime_accuracy(
    model: Any, samples: np.ndarray, test: np.ndarray, labels: np.ndarray, floats: np.ndarray
) -> dict[str, float]:
    """Accuracy and agreement of static int8 quantization per channel.

    Raises
    ------
    RuntimeError
        When the file does not compute what the model does.
    """
    proto = onnx_of(model, test.shape[1:])
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "float.onnx", Path(folder) / "int8.onnx"
        onnx.save(proto, source)
        plain = runtime_session(source)
        same = float((plain.run(None, {"x": test})[0].argmax(1) == floats).mean())
        if same < 0.995:
            raise RuntimeError(f"the file gives the answers of the float model on {same:.1%} of the samples")
        quantize_static(
            source,
            target,
            _Samples(samples),
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
        )
        session = runtime_session(target)
        found = session.run(None, {"x": test})[0].argmax(1)
    return {"accuracy": float((found == labels).mean()), "agreement": float((found == floats).mean())}


def onnx_of(model: Any, shape: tuple[int, ...]) -> onnx.ModelProto:
    """A model of the table as ONNX."""
    build = _Builder()
    _WRITERS[type(model)](build, model)
    return build.model(shape)


def _mlp(build: _Builder, model: Mlp) -> None:
    build.node("Sub", build.weight(model.mean.numpy()))
    build.node("Mul", build.weight(model.scale.numpy()))
    build.linear(model.fc1)
    build.node("Relu")
    build.linear(model.fc2)


def _cnn(build: _Builder, model: Cnn) -> None:
    build.conv(model.conv1)
    build.node("Relu")
    build.pool("MaxPool", 2)
    build.conv(model.conv2)
    build.node("Relu")
    build.node("Flatten")
    build.linear(model.fc)


def _lenet(build: _Builder, model: LeNet5) -> None:
    for conv in (model.conv1, model.conv2):
        build.conv(conv)
        build.node("Relu")
        build.pool("MaxPool", 2)
    build.node("Flatten")
    for n, layer in enumerate((model.fc1, model.fc2, model.fc3)):
        if n:
            build.node("Relu")
        build.linear(layer)


def _residual(build: _Builder, model: Residual) -> None:
    build.conv(model.stem)
    before = build.node("Relu")
    for n in (0, 2):
        build.conv(model.convs[n])
        build.norm(model.norms[n])
        build.node("Relu")
        build.conv(model.convs[n + 1])
        build.norm(model.norms[n + 1])
        build.node("Add", before)
        before = build.node("Relu")
    build.pool("AveragePool", 4)
    build.node("Flatten")
    build.linear(model.fc)


def _depthwise(build: _Builder, model: Depthwise) -> None:
    low, high = build.weight(np.float32(0)), build.weight(np.float32(6))
    for conv, norm in zip(model.convs, model.norms, strict=True):
        build.conv(conv)
        build.norm(norm)
        build.node("Clip", low, high)
    build.pool("AveragePool", 4)
    build.node("Flatten")
    build.linear(model.fc)


def _transformer(build: _Builder, model: Transformer) -> None:
    build.matrix(model.embed)
    rows = build.node("Add", build.weight(model.place.numpy()))
    key, value = (build.matrix(layer, rows) for layer in (model.key, model.value))
    keys = build.node("Transpose", source=key, perm=[0, 2, 1])
    build.matrix(model.query, rows)
    build.node("MatMul", keys)
    build.node("Mul", build.weight(np.float32(0.25)))
    build.node("Softmax", axis=-1)
    build.node("MatMul", value)
    build.node("Add", rows)
    rows = build.layer_norm(model.norm1)
    build.matrix(model.up)
    build.node("Gelu", approximate="tanh")
    build.matrix(model.down)
    build.node("Add", rows)
    build.layer_norm(model.norm2)
    build.node("ReduceMean", build.integers([1]), keepdims=0)
    build.linear(model.fc)


def _lstm(build: _Builder, model: Lstm) -> None:
    hidden = cell = ""
    width = model.fc.weight.shape[1]
    for row in range(8):
        x = build.node("Gather", build.integers(row), source="x", axis=1)
        build.gates(model.cell.weight_ih, model.cell.bias_ih, x)
        if hidden:
            added = build.last
            build.gates(model.cell.weight_hh, model.cell.bias_hh, hidden)
            build.node("Add", added)
        else:
            build.node("Add", build.weight(model.cell.bias_hh.numpy()))
        total = build.last
        parts = [
            build.node("Slice", *(build.integers([v]) for v in (n * width, (n + 1) * width, 1)), source=total)
            for n in range(4)
        ]
        i, f, o = (build.node("Sigmoid", source=parts[n]) for n in (0, 1, 3))
        g = build.node("Tanh", source=parts[2])
        new = build.node("Mul", g, source=i)
        cell = build.node("Add", build.node("Mul", cell, source=f), source=new) if cell else new
        hidden = build.node("Mul", build.node("Tanh", source=cell), source=o)
    build.linear(model.fc)


_WRITERS: dict[type, Any] = {
    Mlp: _mlp,
    Cnn: _cnn,
    LeNet5: _lenet,
    Residual: _residual,
    Depthwise: _depthwise,
    Transformer: _transformer,
    Lstm: _lstm,
}


class _Builder:
    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.last = "x"

    def weight(self, array: np.ndarray) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(array.astype(np.float32)), name))
        return name

    def integers(self, value: Any) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value, np.int64), name))
        return name

    def node(self, op: str, *others: str, source: str = "", **attributes: Any) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(
            helper.make_node(op, [source or self.last, *others], [name], name=name, **attributes)
        )
        self.last = name
        return name

    def linear(self, layer: Any) -> None:
        self.gates(layer.weight, layer.bias)

    def gates(self, weight: Any, bias: Any, source: str = "") -> str:
        return self.node(
            "Gemm", self.weight(weight.numpy()), self.weight(bias.numpy()), source=source, transB=1
        )

    def matrix(self, layer: Any, source: str = "") -> str:
        self.node("MatMul", self.weight(layer.weight.numpy().T), source=source)
        return self.node("Add", self.weight(layer.bias.numpy()))

    def conv(self, layer: Any) -> None:
        weights = [self.weight(t.numpy()) for t in (layer.weight, layer.bias) if t is not None]
        pads, strides = [layer.padding] * 4, [layer.stride] * 2
        self.node("Conv", *weights, pads=pads, strides=strides, group=layer.groups)

    def norm(self, layer: Any) -> None:
        tensors = (layer.weight, layer.bias, layer.running_mean, layer.running_var)
        self.node("BatchNormalization", *(self.weight(t.numpy()) for t in tensors), epsilon=layer.eps)

    def layer_norm(self, layer: Any) -> str:
        weights = (self.weight(t.numpy()) for t in (layer.weight, layer.bias))
        return self.node("LayerNormalization", *weights, axis=-1, epsilon=layer.eps)

    def pool(self, op: str, size: int) -> None:
        self.node(op, kernel_shape=[size] * 2, strides=[size] * 2)

    def model(self, shape: tuple[int, ...]) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            "model",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", *shape])],
            [helper.make_tensor_value_info(self.last, TensorProto.FLOAT, ["N", "classes"])],
            self.weights,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
