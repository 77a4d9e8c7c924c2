"""Real functions of the ONNX front end against float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from onnx import helper

from tg2hdl_backend import OnnxModel
from tg2hdl_backend.testing.onnx_files import golden, runtime, write

__all__ = ["FUNCTIONS", "NEAR", "Function", "inputs", "relative_errors"]

Array = npt.NDArray[Any]
_NEAR = np.logspace(-9, -0.05, 120).astype(np.float32)
NEAR = np.concatenate([_NEAR, -_NEAR])
"""Inputs near zero: 1e-9 to 0.9 in even steps of the logarithm, of both signs."""
_erfc = np.vectorize(math.erfc)


class Function(NamedTuple):
    """A function, its inputs from `low` to `high`, and an operator of ONNX that computes it."""

    reference: Callable[[Array], Array]
    low: float
    high: float
    attributes: dict[str, Any] = {}
    domain: str = ""
    operator: str = ""


def _softplus(x: Array) -> Array:
    return np.asarray(np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))))


def _mish(x: Array) -> Array:
    power = np.exp(np.minimum(x, 50))
    return np.asarray(x * (power * (power + 2)) / (power * (power + 2) + 2))


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def _gelu(x: Array) -> Array:
    return np.asarray(x * _erfc(-x / math.sqrt(2)) / 2)


def _gelu_tanh(x: Array) -> Array:
    return np.asarray(x) * _sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))


def _elu(alpha: float, gamma: float = 1.0) -> Callable[[Array], Array]:
    return lambda x: gamma * np.where(x < 0, alpha * np.expm1(np.minimum(x, 0)), x)


SELU = (float(np.float32(1.67326319217681884765625)), float(np.float32(1.05070102214813232421875)))
FUNCTIONS = {
    "Acos": Function(np.arccos, -1, 1),
    "Acosh": Function(np.arccosh, 1, 1e30),
    "Asin": Function(np.arcsin, -1, 1),
    "Asinh": Function(np.arcsinh, -1e30, 1e30),
    "Atan": Function(np.arctan, -1e30, 1e30),
    "Atanh": Function(np.arctanh, -0.999, 0.999),
    "BiasGelu": Function(_gelu, -3, 30, domain="com.microsoft"),
    "Celu": Function(
        lambda x: np.where(x < 0, 2 * np.expm1(np.minimum(x, 0) / 2), x), -100, 100, {"alpha": 2.0}
    ),
    "Cos": Function(np.cos, -1.5, 1.5),
    "Cosh": Function(np.cosh, -88, 88),
    "Elu": Function(_elu(1.5), -100, 100, {"alpha": 1.5}),
    "Erf": Function(
        lambda x: np.where(np.abs(x) < 1, np.vectorize(math.erf)(x), np.sign(x) * (1 - _erfc(np.abs(x)))),
        -10,
        10,
    ),
    "Exp": Function(np.exp, -87, 88),
    "FastGelu": Function(_gelu_tanh, -3, 30, domain="com.microsoft"),
    "Gelu": Function(_gelu, -3, 30),
    "Gelu by tanh": Function(_gelu_tanh, -3, 30, {"approximate": "tanh"}, operator="Gelu"),
    "HardSigmoid": Function(lambda x: np.clip(float(np.float32(0.2)) * x + 0.5, 0, 1), -2.4, 30),
    "HardSwish": Function(lambda x: x * np.clip(x / 6 + 0.5, 0, 1), -2.9, 30),
    "Log": Function(np.log, 1e-30, 1e30),
    "Mish": Function(_mish, -80, 80),
    "QuickGelu": Function(
        lambda x: x * _sigmoid(float(np.float32(1.702)) * x), -30, 30, domain="com.microsoft"
    ),
    "Selu": Function(_elu(*SELU), -100, 100),
    "Sigmoid": Function(_sigmoid, -80, 80),
    "Sin": Function(np.sin, -3, 3),
    "Sinh": Function(np.sinh, -88, 88),
    "Softplus": Function(_softplus, -80, 80),
    "Softsign": Function(lambda x: x / (1 + np.abs(x)), -1e9, 1e9),
    "Sqrt": Function(np.sqrt, 0, 1e30),
    "Tan": Function(np.tan, -1.5, 1.5),
    "Tanh": Function(np.tanh, -30, 30),
}


def inputs(function: Function) -> Array:
    """Inputs over the whole range: even steps, and even steps of the logarithm."""
    low, high = function.low, function.high
    sizes = np.logspace(-9, math.log10(max(abs(low), high)), 400)
    every = np.concatenate([np.linspace(low, high, 401), sizes, -sizes]).astype(np.float32)
    return every[(every >= low) & (every <= high)]


def relative_errors(name: str, x: Array, folder: Path) -> tuple[Array, Array]:
    """Relative errors of the golden model and of ONNX Runtime for each input.

    Parameters
    ----------
    name : str
        Key of `FUNCTIONS`.
    x : ndarray
        float32.
    folder : Path
        For the ONNX file.
    """
    function = FUNCTIONS[name]
    names = ["x", "b"] if name == "BiasGelu" else ["x"]
    node = helper.make_node(
        function.operator or name, names, ["y"], domain=function.domain, **function.attributes
    )
    weights = {"b": np.zeros(x.shape[-1:], np.float32)} if name == "BiasGelu" else {}
    file = write(
        folder / "m.onnx",
        [node],
        [("x", np.float32, x.shape)],
        [("y", np.float32, x.shape)],
        weights,
        {"": 22, "com.microsoft": 1},
    )
    with np.errstate(all="ignore"):
        wanted = function.reference(x.astype(np.float64))
    scale = np.where(wanted == 0, 1, np.abs(wanted))
    results = golden(OnnxModel(file), x)[0], runtime(file, x=x)[0]
    ours, theirs = (np.abs(r.astype(np.float64) - wanted) / scale for r in results)
    return ours, theirs
