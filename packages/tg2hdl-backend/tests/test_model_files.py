"""Model files of PyTorch: both ONNX exporters and state dicts, against what PyTorch computed (see models/make.py)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tinygrad import Tensor, nn

from tg2hdl_backend import capture
from tg2hdl_backend.agreement import agreement
from tg2hdl_ir import DType, evaluate_program

FOLDER = Path(__file__).parent / "models"
NAMES = ["attention", "audio", "lstm", "mlp", "residual"]
# Sums in another order, other elementary functions: single precision, through a few layers.
TOLERANCE = 2.0**-18


def differs(model, x: np.ndarray, y: np.ndarray) -> str:
    captured = capture(model, x)
    program = captured.program
    results = evaluate_program(program, {program.buffers[captured.inputs[0].buffer].name: x})
    got = results[program.buffers[program.outputs[0]].name].reshape(y.shape)
    found = agreement(got, y, DType.FP32, TOLERANCE)
    return "" if found.agrees else str(found)


def example(name: str) -> tuple[np.ndarray, np.ndarray]:
    data = np.load(FOLDER / f"{name}.npz")
    return data["x"], data["y"]


@pytest.mark.parametrize("exporter", ["dynamo", "traced"])
@pytest.mark.parametrize("name", [*NAMES, "lstm"])
def test_onnx_files_of_pytorch(name, exporter):
    pytest.importorskip("onnx")
    from tg2hdl_backend import OnnxModel

    x, y = example(name)
    model = OnnxModel(FOLDER / f"{name}_{exporter}.onnx")
    assert [(s.name, s.shape) for s in model.inputs] == [("x", x.shape)]
    assert model.output_names == ("y",)
    assert not differs(model, x, y)


class Mlp:
    def __init__(self) -> None:
        setattr(self, "0", nn.Linear(6, 8))
        setattr(self, "2", nn.Linear(8, 3))

    def __call__(self, x: Tensor) -> Tensor:
        return getattr(self, "2")(getattr(self, "0")(x).tanh()).softmax(1)


class Residual:
    def __init__(self) -> None:
        self.first = [nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), Tensor.relu]
        self.block = [
            nn.Conv2d(4, 4, 3, padding=1, groups=4, bias=False),
            nn.BatchNorm2d(4),
            Tensor.relu6,
            nn.Conv2d(4, 4, 1),
        ]
        self.head = nn.Linear(4, 3)

    def __call__(self, x: Tensor) -> Tensor:
        x = x.sequential(self.first)
        return self.head((x + x.sequential(self.block)).mean((2, 3)))


class Recurrent:
    def __init__(self) -> None:
        self.lstm, self.head = nn.LSTMCell(4, 6), nn.Linear(6, 3)

    def load(self, state: dict[str, Tensor]) -> None:
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            setattr(self.lstm, name, state[f"lstm.{name}_l0"])
        self.head.weight, self.head.bias = state["head.weight"], state["head.bias"]

    def __call__(self, x: Tensor) -> Tensor:
        h = c = Tensor.zeros(1, 6)
        for t in range(x.shape[1]):
            h, c = self.lstm(x[:, t], (h, c))
        return self.head(h)


@pytest.mark.parametrize(("name", "make"), [("mlp", Mlp), ("residual", Residual), ("lstm", Recurrent)])
def test_state_dicts_of_pytorch(name, make):
    x, y = example(name)
    model, state = make(), nn.state.torch_load(FOLDER / f"{name}.pth")
    if hasattr(model, "load"):
        model.load({key: tensor.to("CPU") for key, tensor in state.items()})
    else:
        nn.state.load_state_dict(
            model, {k: t.to("CPU") for k, t in state.items()}, verbose=False, realize=False
        )
    assert not differs(model, x, y)


def test_a_missing_reader_of_onnx_files_is_named():
    program = "import sys; sys.modules['onnx'] = None; from tg2hdl_backend import OnnxModel"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert result.returncode == 1
    assert "missing tool: ONNX files are read by the package onnx" in result.stderr
    assert 'hint: pip install "tg2hdl[onnx]"' in result.stderr


SKLEARN = sorted(p.stem.removeprefix("sklearn_") for p in FOLDER.glob("sklearn_*.onnx"))


@pytest.mark.parametrize("name", SKLEARN)
def test_onnx_files_of_scikit_learn(name):
    pytest.importorskip("onnx")
    from tg2hdl_backend import OnnxModel

    data = np.load(FOLDER / f"sklearn_{name}.npz")
    model = OnnxModel(FOLDER / f"sklearn_{name}.onnx", batch=len(data["x"]))
    captured = capture(model, data["x"])
    program = captured.program
    results = evaluate_program(program, {program.buffers[captured.inputs[0].buffer].name: data["x"]})
    found = [
        results[program.buffers[n].name].reshape(s.shape)
        for n, s in zip(program.outputs, captured.outputs, strict=True)
    ]
    if "probabilities" in data:
        assert model.output_names == ("label", "probabilities")
        np.testing.assert_array_equal(found[0].reshape(-1), data["predicted"])
        np.testing.assert_allclose(found[1], data["probabilities"], atol=2e-6)
    else:
        assert model.output_names == ("variable",)
        np.testing.assert_allclose(found[0].reshape(-1), data["predicted"].reshape(-1), rtol=2e-6)
