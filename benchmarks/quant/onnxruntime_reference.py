"""The same weights as an ONNX file, quantized and run by ONNX Runtime."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from models import Cnn, LeNet5, Mlp
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static


class _Samples(CalibrationDataReader):
    def __init__(self, samples: np.ndarray) -> None:
        self._rest = iter(samples)

    def get_next(self) -> dict[str, np.ndarray] | None:
        sample = next(self._rest, None)
        return None if sample is None else {"x": sample[None]}


def onnxruntime_accuracy(
    model: Any, samples: np.ndarray, test: np.ndarray, labels: np.ndarray, floats: np.ndarray
) -> dict[str, float] | None:
    """Accuracy and agreement of static int8 quantization per channel; None for a model that is not written as ONNX."""
    proto = onnx_of(model, test.shape[1:])
    if proto is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "float.onnx", Path(folder) / "int8.onnx"
        onnx.save(proto, source)
        quantize_static(
            source,
            target,
            _Samples(samples),
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
        )
        session = onnxruntime.InferenceSession(target, providers=["CPUExecutionProvider"])
        found = session.run(None, {"x": test})[0].argmax(1)
    return {"accuracy": float((found == labels).mean()), "agreement": float((found == floats).mean())}


def onnx_of(model: Any, shape: tuple[int, ...]) -> onnx.ModelProto | None:
    """A multilayer perceptron, CNN or LeNet-5 as ONNX."""
    build = _Builder()
    if isinstance(model, Mlp):
        build.node("Sub", build.weight(model.mean.numpy()))
        build.node("Mul", build.weight(model.scale.numpy()))
        build.linear(model.fc1)
        build.node("Relu")
        build.linear(model.fc2)
    elif isinstance(model, Cnn):
        build.conv(model.conv1, 1)
        build.node("Relu")
        build.pool()
        build.conv(model.conv2, 1)
        build.node("Relu")
        build.node("Flatten")
        build.linear(model.fc)
    elif isinstance(model, LeNet5):
        for conv, padding in ((model.conv1, 2), (model.conv2, 0)):
            build.conv(conv, padding)
            build.node("Relu")
            build.pool()
        build.node("Flatten")
        for n, layer in enumerate((model.fc1, model.fc2, model.fc3)):
            if n:
                build.node("Relu")
            build.linear(layer)
    else:
        return None
    return build.model(shape)


class _Builder:
    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.last = "x"

    def weight(self, array: np.ndarray) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(array.astype(np.float32)), name))
        return name

    def node(self, op: str, *others: str, **attributes: Any) -> None:
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, [self.last, *others], [name], **attributes))
        self.last = name

    def linear(self, layer: Any) -> None:
        self.node("Gemm", self.weight(layer.weight.numpy()), self.weight(layer.bias.numpy()), transB=1)

    def conv(self, layer: Any, padding: int) -> None:
        self.node(
            "Conv", self.weight(layer.weight.numpy()), self.weight(layer.bias.numpy()), pads=[padding] * 4
        )

    def pool(self) -> None:
        self.node("MaxPool", kernel_shape=[2, 2], strides=[2, 2])

    def model(self, shape: tuple[int, ...]) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            "model",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", *shape])],
            [helper.make_tensor_value_info(self.last, TensorProto.FLOAT, ["N", "classes"])],
            self.weights,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
