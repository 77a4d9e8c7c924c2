"""Quantized ONNX files as integer hardware: every bit against ONNX Runtime."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from tg2hdl_backend.onnx_runtime import runtime_session

onnx = pytest.importorskip("onnx", reason="the onnx package builds the files")
ort = pytest.importorskip("onnxruntime", reason="ONNX Runtime is the reference")
quantization = pytest.importorskip("onnxruntime.quantization", reason="it writes the files")

import tg2hdl  # noqa: E402
from tg2hdl.cli import cli  # noqa: E402
from tg2hdl.model_file import load_model_file  # noqa: E402
from tg2hdl_backend import OnnxModel  # noqa: E402
from tg2hdl_ir.errors import InputError, UnsupportedError  # noqa: E402

FORMATS = quantization.QuantFormat
TYPES = quantization.QuantType
SAMPLES = 400


class Net:
    """Float graph with seeded weights."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape, self.rng = shape, np.random.default_rng(0)
        self.nodes: list = []
        self.weights: dict[str, np.ndarray] = {}

    def add(self, op: str, inputs: str, output: str, *shapes: tuple[int, ...], **attributes: object) -> Net:
        names = inputs.split()
        for n, shape in enumerate(shapes):
            name = f"{output}_w{n}"
            self.weights[name] = (self.rng.normal(size=shape) * 0.3).astype(np.float32)
            names.append(name)
        self.nodes.append(onnx.helper.make_node(op, names, [output], name=output, **attributes))
        return self

    def save(self, path: Path) -> Path:
        value = onnx.helper.make_tensor_value_info
        graph = onnx.helper.make_graph(
            self.nodes,
            "net",
            [value("x", 1, ["N", *self.shape])],
            [value("y", 1, None)],
            [onnx.numpy_helper.from_array(a, n) for n, a in self.weights.items()],
        )
        onnx.save(
            onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8),
            path,
        )
        return path


class Calibration(quantization.CalibrationDataReader):
    def __init__(self, samples: np.ndarray) -> None:
        self.rest = iter(samples)

    def get_next(self) -> dict[str, np.ndarray] | None:
        sample = next(self.rest, None)
        return None if sample is None else {"x": sample[None]}


def mlp() -> Net:
    net = Net((24,)).add("Gemm", "x", "g", (24, 16), (16,)).add("Relu", "g", "r")
    return net.add("Gemm", "r", "y", (16, 5), (5,))


def residual() -> Net:
    net = Net((1, 8, 8)).add("Conv", "x", "c", (4, 1, 3, 3), (4,), pads=[1] * 4).add("Relu", "c", "r")
    net.add("MaxPool", "r", "p", kernel_shape=[2, 2], strides=[2, 2])
    net.add("Conv", "p", "d", (4, 1, 3, 3), (4,), pads=[1] * 4, group=4).add("Add", "d p", "s")
    net.add("Relu", "s", "t").add("GlobalAveragePool", "t", "a").add("Flatten", "a", "f")
    return net.add("Gemm", "f", "y", (4, 5), (5,))


def gated() -> Net:
    net = Net((16,)).add("MatMul", "x", "m", (16, 16)).add("Sigmoid", "m", "s").add("Mul", "m s", "z")
    return net.add("Concat", "z x", "c", axis=1).add("Gemm", "c", "y", (32, 5))


NETS = {"mlp": mlp, "residual": residual, "gated": gated}


def quantized(
    folder: Path, net: Net, form: str, signed: bool, per_channel: bool = True
) -> tuple[Path, np.ndarray]:
    x = np.random.default_rng(1).normal(size=(SAMPLES, *net.shape)).astype(np.float32)
    target = folder / "net.q.onnx"
    quantization.quantize_static(
        net.save(folder / "net.onnx"),
        target,
        Calibration(x[:100]),
        quant_format=FORMATS[form],
        per_channel=per_channel,
        activation_type=TYPES.QInt8 if signed else TYPES.QUInt8,
        weight_type=TYPES.QInt8,
    )
    return target, x


def runtime(path: Path, x: np.ndarray) -> np.ndarray:
    options = ort.SessionOptions()
    options.add_session_config_entry("session.qdqisint8allowed", "1")
    return runtime_session(path, options).run(None, {"x": x})[0]


@pytest.mark.parametrize("form", ["QDQ", "QOperator"])
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("name", NETS)
def test_integers_have_the_bits_of_onnx_runtime(tmp_path: Path, name: str, signed: bool, form: str) -> None:
    path, x = quantized(tmp_path, NETS[name](), form, signed, per_channel=not signed)
    q = tg2hdl.integer_model(OnnxModel(path, batch=1))
    assert q.report.in_float == ()
    assert q.report.is_exact, str(q.report)
    assert not any(n.dtype.is_float for n in q.graph.nodes)
    found = q.evaluate(x[:, None]).reshape(SAMPLES, -1)
    expected = runtime(path, x).reshape(SAMPLES, -1)
    np.testing.assert_array_equal(found, expected)
    assert len(np.unique(expected)) > 20


def between_quantizers(
    path: Path, node: onnx.NodeProto, shape: list[int], **weights: np.ndarray
) -> OnnxModel:
    """A node whose sums meet ties: 0.035 / 0.012 / 12 is 35 / 144."""
    scales = {"xs": np.float32(0.035), "ys": np.float32(0.012), "xz": np.uint8(111), "yz": np.uint8(130)}
    nodes = [
        onnx.helper.make_node("DequantizeLinear", ["x", "xs", "xz"], ["d"]),
        node,
        onnx.helper.make_node("QuantizeLinear", ["r", "ys", "yz"], ["y"]),
    ]
    given = [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.UINT8, shape)]
    made = [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.UINT8, None)]
    arrays = [onnx.numpy_helper.from_array(np.asarray(a), n) for n, a in (scales | weights).items()]
    graph = onnx.helper.make_graph(nodes, "sums", given, made, arrays)
    onnx.save(
        onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9), path
    )
    return OnnxModel(path)


def test_means_are_scaled_as_onnx_runtime_rounds_the_scale(tmp_path: Path) -> None:
    node = onnx.helper.make_node("GlobalAveragePool", ["d"], ["r"])
    q = tg2hdl.integer_model(between_quantizers(tmp_path / "mean.onnx", node, [400, 2, 3, 4]))
    x = np.random.default_rng(0).integers(0, 256, (400, 2, 3, 4)).astype(np.uint8)
    expected = runtime_session(tmp_path / "mean.onnx").run(None, {"x": x})[0]
    assert q.report.is_exact
    np.testing.assert_array_equal(q.reference(x), expected)


def test_sums_that_onnx_runtime_rounds_to_float_are_not_called_exact(tmp_path: Path) -> None:
    node = onnx.helper.make_node("ConvTranspose", ["d", "w"], ["r"], strides=[2, 2])
    weight = np.linspace(-1, 1, 18, dtype=np.float32).reshape(1, 2, 3, 3)
    q = tg2hdl.integer_model(between_quantizers(tmp_path / "up.onnx", node, [1, 1, 3, 3], w=weight))
    assert not q.report.is_exact
    assert "ConvTranspose" in str(q.report)


@pytest.mark.parametrize(
    ("operator", "rest"), [("AveragePool", {"kernel_shape": [2, 2]}), ("ReduceMean", {"axes": [2]})]
)
def test_onnx_runtime_has_no_integer_sums_for_these(tmp_path: Path, operator: str, rest: dict) -> None:
    model = between_quantizers(
        tmp_path / "sum.onnx", onnx.helper.make_node(operator, ["d"], ["r"], **rest), [1, 1, 4, 4]
    )
    options = ort.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    runtime_session(tmp_path / "sum.onnx", options)
    nodes = {n.op_type for n in onnx.load(tmp_path / "optimized.onnx").graph.node}
    # Its QLinearAveragePool adds float32 values of codes.
    assert nodes & {operator, "QLinearAveragePool"}
    assert not tg2hdl.integer_model(model).report.is_exact


@pytest.mark.parametrize("name", ["mlp", "residual"])
def test_hardware_has_the_bits_of_onnx_runtime(tmp_path: Path, name: str) -> None:
    path, x = quantized(tmp_path, NETS[name](), "QDQ", signed=False)
    q = tg2hdl.integer_model(OnnxModel(path, batch=1))
    accelerator = tg2hdl.compile(q, x[:1], multipliers=4)
    assert not any(b.dtype.is_float for b in accelerator.captured.program.buffers)
    for sample in x[:2]:
        result = accelerator.simulate(sample, engine="amaranth")
        np.testing.assert_array_equal(q.dequantize(result.output), runtime(path, sample[None]))
        np.testing.assert_array_equal(accelerator.golden(sample), result.output)
        assert result.cycles.compute == accelerator.predicted_cycles


def test_softmax_stays_in_float_and_is_named(tmp_path: Path) -> None:
    net = Net((8,)).add("MatMul", "x", "m", (8, 6)).add("Softmax", "m", "s", axis=-1)
    path, x = quantized(tmp_path, net.add("MatMul", "s", "y", (6, 3)), "QDQ", signed=False)
    model = OnnxModel(path, batch=1)
    q = tg2hdl.integer_model(model)
    assert "s (Softmax)" in q.report.in_float
    found, expected = q.evaluate(x[:, None]).reshape(SAMPLES, -1), runtime(path, x)
    step = float(q.quantized.outputs[0].scale)
    # ONNX Runtime has a softmax of codes, which rounds otherwise.
    assert np.abs(found - expected).max() <= 2.01 * step
    accelerator = tg2hdl.compile(q, x[:1])
    layers = [kernel.layer for kernel in accelerator.kernels]
    assert {layers[0], layers[-1]} == {"m (MatMul)", "y (MatMul)"}
    assert not any(".py" in layer for layer in layers), "no line of this program"
    assert np.abs(q.dequantize(accelerator.golden(x[0])) - q(x[:1])).max() <= 1.01 * step
    with pytest.raises(UnsupportedError, match=r"no integer form for .*s \(Softmax\)"):
        tg2hdl.integer_model(model, allow_float=False)


def test_compile_reads_quantized_files_as_integers(tmp_path: Path) -> None:
    path, _ = quantized(tmp_path, mlp(), "QDQ", signed=False)
    file = load_model_file(str(path), batch=1)
    assert isinstance(file.model, tg2hdl.QuantizedModel)
    assert file.example_inputs[0].dtype == np.uint8
    assert isinstance(load_model_file(str(path), batch=1, keep_float=True).model, OnnxModel)
    result = CliRunner().invoke(cli, ["compile", str(path), "--batch", "1", "-o", str(tmp_path / "out.v")])
    assert result.exit_code == 0, result.output


def test_scales_that_depend_on_data_are_refused(tmp_path: Path) -> None:
    target = tmp_path / "dynamic.onnx"
    quantization.quantize_dynamic(mlp().save(tmp_path / "net.onnx"), target)
    with pytest.raises(InputError, match="DynamicQuantizeLinear in model dynamic computes"):
        tg2hdl.integer_model(OnnxModel(target, batch=1))
    assert isinstance(load_model_file(str(target), batch=1).model, OnnxModel)


WITHOUT_COMPILERS = """
import ctypes
load = ctypes.CDLL.__init__

def hidden(self, name, *args, **further):  # tinygrad's CPU device also compiles with LLVM's library
    if "LLVM" in str(name):
        raise OSError(name)
    load(self, name, *args, **further)

ctypes.CDLL.__init__ = hidden
import tg2hdl, tg2hdl_backend, numpy as np
from tinygrad import Tensor
x = np.linspace(-2, 2, 24, dtype=np.float32).reshape(6, 4)
"""
COMPARED = "print(np.array_equal(q(x[:1]), q.dequantize(tg2hdl.compile(q, x[:1]).golden(x[:1]))))"
SCALARS = {
    "weights": "half, third = Tensor(0.5), Tensor(np.array(1 / 3, np.float32))\n"
    f"q = tg2hdl.quantize(lambda x: x * half + third, x); {COMPARED}",
    "literals": "q = tg2hdl.quantize(lambda x: (x * Tensor(0.5)).maximum(Tensor(-1)) + Tensor.full((4,), 2.0), x); "
    + COMPARED,
    "file": "x = np.arange(40, 48, dtype=np.uint8)[None]\n"
    "print(tg2hdl.compile('scaled.onnx', x).golden(x).tolist() == EXPECTED)",
}


@pytest.mark.parametrize("name", SCALARS)
def test_scalar_constants_need_no_compiler(tmp_path: Path, name: str) -> None:
    node = onnx.helper.make_node("Mul", ["d", "k"], ["r"])
    between_quantizers(tmp_path / "scaled.onnx", node, [1, 8], k=np.float32(0.37))
    given = {"x": np.arange(40, 48, dtype=np.uint8)[None]}
    expected = runtime_session(tmp_path / "scaled.onnx").run(None, given)[0].tolist()
    program = f"{WITHOUT_COMPILERS}EXPECTED = {expected}\n{SCALARS[name]}"
    environment = {"HOME": str(tmp_path), "PATH": "/nonexistent", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
