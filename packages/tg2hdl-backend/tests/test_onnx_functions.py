"""Real functions of ONNX files keep their digits near zero and over their whole range."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the onnx package builds the files")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is measured beside")

from onnx import helper  # noqa: E402

from tg2hdl_backend import OnnxModel  # noqa: E402
from tg2hdl_backend.testing.onnx_files import golden, runtime, write  # noqa: E402
from tg2hdl_backend.testing.onnx_functions import FUNCTIONS, NEAR, inputs, relative_errors  # noqa: E402

# Functions whose small values are differences of larger ones, or sigmoids of large negative numbers.
WHOLE = {
    "BiasGelu": 1e-5,
    "Gelu": 1e-5,
    "FastGelu": 1e-6,
    "Gelu by tanh": 1e-6,
    "QuickGelu": 4e-6,
    "Sigmoid": 4e-6,
    "HardSwish": 5e-7,
}
WITH_ZERO = [name for name, f in FUNCTIONS.items() if f.low < 0 < f.high]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_near_zero(name: str, tmp_path: Path) -> None:
    function = FUNCTIONS[name]
    x = NEAR[(function.low <= NEAR) & (function.high >= NEAR)]
    if len(x):
        assert relative_errors(name, x, tmp_path)[0].max() <= 4e-7


@pytest.mark.parametrize("name", FUNCTIONS)
def test_whole_range(name: str, tmp_path: Path) -> None:
    ours, _ = relative_errors(name, inputs(FUNCTIONS[name]), tmp_path)
    assert ours.max() <= WHOLE.get(name, 4e-7)


@pytest.mark.parametrize("name", WITH_ZERO)
def test_special_values(name: str, tmp_path: Path) -> None:
    function = FUNCTIONS[name]
    x = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 3e38, -3e38, 100, -100], np.float32)
    if name in ("Sin", "Cos", "Tan"):
        x = x[:7]
    with np.errstate(all="ignore"):
        wanted = function.reference(x.astype(np.float64)).astype(np.float32)
    node = helper.make_node(
        function.operator or name, ["x"], ["y"], domain=function.domain, **function.attributes
    )
    opsets = {"": 22, "com.microsoft": 1}
    if name == "BiasGelu":
        pytest.skip("the same function as Gelu, with two inputs")
    file = write(
        tmp_path / "m.onnx", [node], [("x", np.float32, x.shape)], [("y", np.float32, x.shape)], {}, opsets
    )
    result, theirs = golden(OnnxModel(file), x)[0], runtime(file, x=x)[0]
    # ONNX Runtime is right where the float64 formula is inf - inf.
    wanted = np.where(np.isnan(wanted), theirs, wanted)
    np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-30)


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_small_states_of_recurrent_layers(kind: str, tmp_path: Path) -> None:
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[kind]
    w = np.full((1, gates, 1), 1.0, np.float32)
    r = np.zeros((1, gates, 1), np.float32)
    x = np.logspace(-9, -0.05, 20).astype(np.float32).reshape(1, 20, 1)
    node = helper.make_node(kind, ["x", "w", "r"], ["y"], hidden_size=1)
    file = write(
        tmp_path / "m.onnx",
        [node],
        [("x", np.float32, x.shape)],
        [("y", np.float32, (1, 1, 20, 1))],
        {"w": w, "r": r},
        {"": 21},
    )
    v = x.astype(np.float64)
    half = 1 / (1 + np.exp(-v))
    wanted = {
        "RNN": np.tanh(v),
        "GRU": (1 - half) * np.tanh(v),
        "LSTM": half * np.tanh(half * np.tanh(v)),
    }[kind].reshape(1, 1, 20, 1)
    np.testing.assert_allclose(golden(OnnxModel(file), x)[0], wanted, rtol=1e-6)
