"""``report.is_exact`` against ONNX Runtime: layers with and without kernels for codes, on sums that lie on ties."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the onnx package builds the files")
ort = pytest.importorskip("onnxruntime", reason="ONNX Runtime is the reference")

import tg2hdl  # noqa: E402
from tg2hdl_backend import OnnxModel  # noqa: E402
from tg2hdl_backend.onnx_runtime import runtime_session  # noqa: E402

F = np.float32
STEP, WEIGHT_STEP = F(0.035), F(0.021)
SAMPLES = 60


class File:
    """A graph of quantizers: inputs and weights as codes, one output of codes.

    Parameters
    ----------
    kind : type
        Of activations' codes; weights are int8.
    per : int
        The scale of a quantizer is so many steps of a product, so that many sums lie on ties.
    """

    def __init__(self, kind: type, per: int, exact_steps: bool = False) -> None:
        self.kind, self.per, self.rng = kind, per, np.random.default_rng(per)
        self.step, self.weight_step = (F(2.0**-5), F(2.0**-6)) if exact_steps else (STEP, WEIGHT_STEP)
        self.nodes: list = []
        self.arrays: dict[str, np.ndarray] = {}
        self.inputs: list = []
        self.outputs: list = []

    def const(self, name: str, array: object) -> str:
        self.arrays[name] = np.asarray(array)
        return name

    def op(self, op: str, inputs: list[str], **attributes: object) -> str:
        name = f"{op.lower()}{len(self.nodes)}"
        self.nodes.append(onnx.helper.make_node(op, inputs, [name], name=name, **attributes))
        return name

    def dequantized(self, codes: str, scale: object, zero: object, axis: int | None = None) -> str:
        names = [codes, self.const(f"{codes}_s", np.asarray(scale, F)), self.const(f"{codes}_z", zero)]
        return self.op("DequantizeLinear", names, **({} if axis is None else {"axis": axis}))

    def given(self, shape: list[int], name: str = "x", step: np.float32 | None = None) -> str:
        element = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(self.kind))
        self.inputs.append(onnx.helper.make_tensor_value_info(name, element, shape))
        return self.dequantized(name, self.step if step is None else step, self.kind(5))

    def weights(self, shape: tuple[int, ...], axis: int | None = None, name: str = "w") -> str:
        self.const(name, self.rng.integers(-127, 128, shape).astype(np.int8))
        if axis is None:
            return self.dequantized(name, self.weight_step, np.int8(0))
        scales = self.weight_step * (1 + np.arange(shape[axis]) % 3).astype(F)
        return self.dequantized(name, scales, np.zeros(shape[axis], np.int8), axis)

    def bias(self, size: int, factor: float = 1.0) -> str:
        """Codes on the steps of the products, times a factor."""
        steps = self.step * self.arrays["w_s"] * F(factor)
        self.const("b", self.rng.integers(-2000, 2000, size).astype(np.int32))
        return self.dequantized("b", steps, np.zeros(steps.shape, np.int32), 0 if steps.size > 1 else None)

    def quantized(self, x: str, scale: object = None, zero: int | None = None) -> str:
        scale = self.step * self.weight_step * F(self.per) if scale is None else scale
        at = 3 if zero is None else zero
        names = [x, self.const(f"{x}_s", np.asarray(scale, F)), self.const(f"{x}_z", self.kind(at))]
        self.outputs.append(self.op("QuantizeLinear", names))
        return self.outputs[-1]

    def save(self, path: Path) -> Path:
        element = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(self.kind))
        outputs = [
            onnx.helper.make_tensor_value_info(n, element if n.startswith("quantize") else 1, None)
            for n in self.outputs
        ]
        tensors = [onnx.numpy_helper.from_array(a, n) for n, a in self.arrays.items()]
        graph = onnx.helper.make_graph(self.nodes, "g", self.inputs, outputs, tensors)
        opsets = [onnx.helper.make_opsetid("", 17)]
        onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
        return path

    @property
    def least(self) -> int:
        return int(np.iinfo(self.kind).min)


def conv(
    axis: int | None = None, bias: str = "codes", group: int = 1, rectifier: str = "", shared: str = ""
) -> Callable[[File], None]:
    def build(f: File) -> None:
        x, w = f.given([1, 4, 5, 5]), f.weights((8, 4 // group, 3, 3), axis)
        made = {"codes": lambda: [f.bias(8)], "wrong steps": lambda: [f.bias(8, 1.01)]}
        made |= {"float": lambda: [f.const("b", f.rng.normal(size=8).astype(F))]}
        y = f.op("Conv", [x, w, *made.get(bias, list)()], group=group)
        first = y
        if rectifier == "Clip":
            y = f.op("Clip", [y, f.const("low", F(-0.5)), f.const("high", F(0.7))])
        elif rectifier:
            y = f.op("Relu", [y])
        if shared == "output":
            f.outputs.append(first)
        if shared == "quantizer":
            f.quantized(first, F(0.01))
        f.quantized(y, zero=f.least if rectifier == "cut by the quantizer" else None)

    return build


def product(
    op: str, axis: int | None = None, bias: str = "codes", dynamic: bool = False, **attributes: float
) -> Callable[[File], None]:
    def build(f: File) -> None:
        shape = (9, 16) if attributes.get("transB") else (16, 9)
        x = f.given([6, 16])
        w = f.given(list(shape), "v", WEIGHT_STEP) if dynamic else f.weights(shape, axis)
        made = {"codes": lambda: [f.bias(9)]}
        made |= {"float": lambda: [f.const("b", f.rng.normal(size=9).astype(F))]}
        y = f.op(op, [x, w, *(made.get(bias, list)() if op == "Gemm" else [])], **attributes)
        if op == "MatMul" and bias == "added":
            y = f.op("Add", [y, f.const("b", f.rng.normal(size=9).astype(F))])
        f.quantized(y)

    return build


def of_one(op: str, *, scale: float = 0.07, zero: int | None = None, **attributes: object) -> Callable:
    def build(f: File) -> None:
        f.quantized(f.op(op, [f.given([2, 3, 4, 4])], **attributes), F(scale), zero)

    return build


def of_two(op: str, second: str = "input", shared: bool = False, **attributes: object) -> Callable:
    def build(f: File) -> None:
        x = f.given([64, 64])
        if second == "codes":
            f.const("o", f.rng.integers(0, 127, 64).astype(f.kind))
            other = f.dequantized("o", F(0.0126127), f.kind(9))
        else:
            other = f.given([64, 64], "o", STEP if second == "same steps" else F(0.0221793))
        y = f.op(op, [x, other], **attributes)
        if shared:
            f.outputs.append(y)
        # Many pairs on ties, as with round numbers, leave no integer form that rounds all of them alike.
        f.quantized(y, F(0.0513 if op != "Mul" else 0.00077131 * f.per))

    return build


def up(f: File) -> None:
    f.quantized(f.op("ConvTranspose", [f.given([1, 2, 3, 3]), f.weights((2, 3, 3, 3))], strides=[2, 2]))


def einsum(f: File) -> None:
    f.quantized(f.op("Einsum", [f.given([6, 16]), f.weights((16, 9))], equation="ij,jk->ik"))


def two_quantizers(f: File) -> None:
    y = f.quantized(f.op("Conv", [f.given([1, 4, 5, 5]), f.weights((8, 4, 3, 3)), f.bias(8)]))
    f.outputs.clear()
    f.quantized(f.dequantized(y, F(0.02), f.kind(3)), F(0.031))


CASES: dict[str, tuple[Callable[[File], None], bool]] = {
    "Conv": (conv(), True),
    "Conv without a bias": (conv(bias=""), True),
    "Conv per channel": (conv(0), True),
    "depthwise Conv": (conv(0, group=4), True),
    "Conv, Relu cut by the quantizer": (conv(rectifier="cut by the quantizer"), True),
    "Conv, Relu": (conv(rectifier="Relu"), False),
    "Conv, Clip": (conv(rectifier="Clip"), False),
    "Conv with a float bias": (conv(bias="float"), False),
    "Conv with a bias of other steps": (conv(bias="wrong steps"), False),
    "Conv that is an output": (conv(shared="output"), False),
    "Conv with two quantizers": (conv(shared="quantizer"), False),
    "MatMul": (product("MatMul"), True),
    "MatMul per column": (product("MatMul", 1), True),
    "MatMul of activations": (product("MatMul", dynamic=True), True),
    "MatMul with a float bias": (product("MatMul", bias="added"), False),
    "Gemm": (product("Gemm"), True),
    "Gemm without a bias": (product("Gemm", bias=""), True),
    "Gemm per row, transposed": (product("Gemm", 0, transB=1), True),
    "Gemm with a float bias": (product("Gemm", bias="float"), False),
    "Gemm with alpha": (product("Gemm", alpha=0.5), False),
    "Gemm with beta": (product("Gemm", beta=0.5), False),
    "GlobalAveragePool": (of_one("GlobalAveragePool", scale=0.0035), True),
    "AveragePool": (of_one("AveragePool", kernel_shape=[2, 2]), False),
    "ReduceMean": (of_one("ReduceMean", axes=[2, 3]), False),
    "MaxPool to other steps": (of_one("MaxPool", kernel_shape=[2, 2]), True),
    "MaxPool": (of_one("MaxPool", kernel_shape=[2, 2], scale=0.035, zero=5), True),
    "logarithms of negative numbers": (of_one("Log"), True),
    "roots of negative numbers": (of_one("Sqrt"), True),
    "Relu": (of_one("Relu"), True),
    "LeakyRelu": (of_one("LeakyRelu", alpha=0.3), True),
    "Add": (of_two("Add"), True),
    "Add of the same steps": (of_two("Add", "same steps"), True),
    "Add of codes": (of_two("Add", "codes"), True),
    "Add that is an output": (of_two("Add", shared=True), True),
    "Mul": (of_two("Mul"), True),
    "Mul of codes": (of_two("Mul", "codes"), True),
    "Mul that is an output": (of_two("Mul", shared=True), False),
    "Concat": (of_two("Concat", axis=1), True),
    "ConvTranspose": (up, False),
    "Einsum": (einsum, False),
    "two quantizers in a row": (two_quantizers, False),
}


def compared(f: File, path: Path) -> tuple[bool, int, tg2hdl.QuantizedModel]:
    """Whether the report calls all layers exact, and how many codes differ."""
    model = tg2hdl.integer_model(OnnxModel(f.save(path)))
    options = ort.SessionOptions()
    options.add_session_config_entry("session.qdqisint8allowed", "1")
    session = runtime_session(path, options)
    shapes = {i.name: i.type.tensor_type.shape for i in f.inputs}
    limits, wrong = np.iinfo(f.kind), 0
    for _ in range(SAMPLES):
        x = {
            name: f.rng.integers(limits.min, limits.max + 1, [d.dim_value for d in shape.dim]).astype(f.kind)
            for name, shape in shapes.items()
        }
        found = model.reference(*x.values())
        found = found if isinstance(found, tuple) else (found,)
        for name, got, want in zip(f.outputs, found, session.run(f.outputs, x), strict=True):
            if name.startswith("quantize"):
                wrong += int(np.sum(got.astype(int) != want))
    return all(layer.is_exact for layer in model.report.layers), wrong, model


@pytest.mark.parametrize("per", [6, 144])
@pytest.mark.parametrize("kind", [np.uint8, np.int8])
@pytest.mark.parametrize("case", CASES)
def test_codes_that_are_called_exact_are_those_of_onnx_runtime(
    case: str, kind: type, per: int, tmp_path: Path
) -> None:
    build, expected = CASES[case]
    f = File(kind, per)
    build(f)
    is_exact, wrong, model = compared(f, tmp_path / "m.onnx")
    assert wrong == 0 or not is_exact
    assert is_exact is expected, str(model.report)


@pytest.mark.parametrize("case", ["Conv, Relu", "MatMul", "ConvTranspose", "Einsum"])
def test_float_sums_on_steps_of_powers_of_two_are_exact(case: str, tmp_path: Path) -> None:
    f = File(np.uint8, 64, exact_steps=True)
    CASES[case][0](f)
    assert compared(f, tmp_path / "m.onnx")[:2] == (True, 0)


def test_the_report_names_layers_and_reasons(tmp_path: Path) -> None:
    f = File(np.uint8, 6)
    conv(shared="quantizer")(f)
    report = tg2hdl.integer_model(OnnxModel(f.save(tmp_path / "m.onnx"))).report
    assert str(report).splitlines()[-2:] == [
        "codes next to a tie may differ from ONNX Runtime's:",
        "  quantizelinear4, quantizelinear5: ONNX Runtime computes Conv in float32, whose result has several readers",
    ]
