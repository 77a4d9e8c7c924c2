"""Operators of float32 against TensorFlow Lite Micro."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tg2hdl_tflite.testing import Network, run_golden, run_micro

pytest.importorskip("tflite_micro", reason="tflite-micro, the reference, is not installed")

SHAPE = (1, 4, 6, 3)
RNG = np.random.default_rng(9)
CASES: dict[str, tuple[str | None, list[Any], dict[str, Any]]] = {
    "LOGISTIC": (None, [], {}),
    "TANH": (None, [], {}),
    "RELU": (None, [], {}),
    "RELU6": (None, [], {}),
    "HARD_SWISH": (None, [], {}),
    "LEAKY_RELU": ("LeakyReluOptions", [], {"Alpha": 0.1}),
    "PRELU": (None, [RNG.normal(size=(1, 1, 3)).astype(np.float32)], {}),
    "ADD": ("AddOptions", [RNG.normal(size=(1, 1, 1, 3)).astype(np.float32)], {"FusedActivationFunction": 1}),
    "SUB": ("SubOptions", [RNG.normal(size=SHAPE).astype(np.float32)], {"FusedActivationFunction": 2}),
    "MUL": ("MulOptions", [RNG.normal(size=SHAPE).astype(np.float32)], {"FusedActivationFunction": 3}),
    "DIV": ("DivOptions", [RNG.uniform(1, 2, SHAPE).astype(np.float32)], {}),
    "MAXIMUM": ("MaximumMinimumOptions", [RNG.normal(size=SHAPE).astype(np.float32)], {}),
    "MINIMUM": ("MaximumMinimumOptions", [RNG.normal(size=SHAPE).astype(np.float32)], {}),
    "SQUARED_DIFFERENCE": (None, [RNG.normal(size=SHAPE).astype(np.float32)], {}),
    "ABS": (None, [], {}),
    "ELU": (None, [], {}),
    "NEG": (None, [], {}),
    "EXP": (None, [], {}),
    "SIN": (None, [], {}),
    "COS": (None, [], {}),
    "SQUARE": (None, [], {}),
    "FLOOR": (None, [], {}),
    "CEIL": (None, [], {}),
    "SOFTMAX": ("SoftmaxOptions", [], {"Beta": 0.5}),
    "LOG": (None, [], {}),
    "SQRT": (None, [], {}),
    "RSQRT": (None, [], {}),
}
ERF = np.vectorize(math.erf)
POSITIVE = ("LOG", "SQRT", "RSQRT")


@pytest.mark.parametrize("name", CASES)
def test_numbers_are_those_of_tflm_within_rounding(name: str) -> None:
    options, constants, fields = CASES[name]
    net = Network()
    x = net.tensor(SHAPE, "FLOAT32", name="x")
    given = [net.constant(c) for c in constants]
    y = net.tensor(SHAPE, "FLOAT32", name="y")
    net.operator(name, [x, *given], [y], options, **fields)
    data = net.finish([x], [y])
    values = RNG.normal(size=(2, *SHAPE)).astype(np.float32) * 3
    values = np.abs(values) + 0.01 if name in POSITIVE else values
    wanted, found = run_micro(data, values), run_golden(data, values)
    np.testing.assert_allclose(np.array(found), np.array(wanted), rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("depthwise", [False, True])
def test_convolutions_over_padding(depthwise: bool) -> None:
    net = Network()
    x = net.tensor(SHAPE, "FLOAT32", name="x")
    w = net.constant(RNG.normal(size=(1, 3, 3, 6) if depthwise else (6, 3, 3, 3)).astype(np.float32))
    b = net.constant(RNG.normal(size=6).astype(np.float32))
    y = net.tensor((1, 2, 3, 6), "FLOAT32", name="y")
    name = "DEPTHWISE_CONV_2D" if depthwise else "CONV_2D"
    kind = "DepthwiseConv2DOptions" if depthwise else "Conv2DOptions"
    more = {"DepthMultiplier": 2} if depthwise else {}
    net.operator(
        name, [x, w, b], [y], kind, StrideH=2, StrideW=2, DilationHFactor=1, DilationWFactor=1, **more
    )
    data, values = net.finish([x], [y]), RNG.normal(size=(2, *SHAPE)).astype(np.float32)
    wanted, found = run_micro(data, values), run_golden(data, values)
    np.testing.assert_allclose(np.array(found), np.array(wanted), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["REDUCE_MAX", "REDUCE_MIN"])
def test_extremes_along_axes(name: str) -> None:
    net = Network()
    x, axes = net.tensor(SHAPE, "FLOAT32", name="x"), net.constant(np.array([1, 2], np.int32))
    y = net.tensor((1, 3), "FLOAT32", name="y")
    net.operator(name, [x, axes], [y], "ReducerOptions", KeepDims=False)
    data, values = net.finish([x], [y]), RNG.normal(size=(2, *SHAPE)).astype(np.float32)
    np.testing.assert_array_equal(np.array(run_golden(data, values)), np.array(run_micro(data, values)))


def test_a_choice_between_tensors() -> None:
    net = Network()
    x, other = net.tensor(SHAPE, "FLOAT32", name="x"), net.constant(RNG.normal(size=SHAPE).astype(np.float32))
    chosen = net.constant(RNG.random(SHAPE) < 0.5)
    y = net.tensor(SHAPE, "FLOAT32", name="y")
    net.operator("SELECT_V2", [chosen, x, other], [y])
    data, values = net.finish([x], [y]), RNG.normal(size=(2, *SHAPE)).astype(np.float32)
    np.testing.assert_array_equal(np.array(run_golden(data, values)), np.array(run_micro(data, values)))


@pytest.mark.parametrize("approximate", [False, True])
def test_gelu_is_its_definition(approximate: bool) -> None:
    """TensorFlow Lite Micro has no GELU."""
    net = Network()
    x, y = net.tensor(SHAPE, "FLOAT32", name="x"), net.tensor(SHAPE, "FLOAT32", name="y")
    net.operator("GELU", [x], [y], "GeluOptions", Approximate=approximate)
    values = RNG.normal(size=(2, *SHAPE)).astype(np.float32) * 3
    wide = values.astype(np.float64)
    inner = np.tanh((2 / np.pi) ** 0.5 * (wide + 0.044715 * wide**3)) if approximate else ERF(wide / 2**0.5)
    found = np.array(run_golden(net.finish([x], [y]), values)).reshape(values.shape)
    np.testing.assert_allclose(found, wide / 2 * (1 + inner), rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize(("align", "half"), [(False, False), (True, False), (False, True)])
def test_bilinear_images(align: bool, half: bool) -> None:
    net = Network()
    x, size = net.tensor(SHAPE, "FLOAT32", name="x"), net.constant(np.array([7, 5], np.int32))
    y = net.tensor((1, 7, 5, 3), "FLOAT32", name="y")
    options = {"AlignCorners": align, "HalfPixelCenters": half}
    net.operator("RESIZE_BILINEAR", [x, size], [y], "ResizeBilinearOptions", version=3, **options)
    data, values = net.finish([x], [y]), RNG.normal(size=(2, *SHAPE)).astype(np.float32)
    np.testing.assert_allclose(run_golden(data, values), run_micro(data, values), rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL"])
def test_comparisons(name: str) -> None:
    net = Network()
    x, y = net.tensor(SHAPE, "FLOAT32", name="x"), net.tensor(SHAPE, "BOOL", name="y")
    other = RNG.integers(-2, 3, SHAPE).astype(np.float32)
    net.operator(name, [x, net.constant(other)], [y])
    data, values = net.finish([x], [y]), RNG.integers(-2, 3, (2, *SHAPE)).astype(np.float32)
    np.testing.assert_array_equal(np.array(run_golden(data, values)), np.array(run_micro(data, values)))


@pytest.mark.parametrize("approximate", [False, True])
def test_gelu_of_codes_is_the_nearest_code(approximate: bool) -> None:
    codes = np.arange(-128, 128).astype(np.int8)
    net = Network()
    x = net.tensor((256,), "INT8", scale=0.04, zero_point=5)
    y = net.tensor((256,), "INT8", scale=0.03, zero_point=-100)
    net.operator("GELU", [x], [y], "GeluOptions", version=2, Approximate=approximate)
    wide = (codes.astype(np.float64) - 5) * float(np.float32(0.04))
    inner = np.tanh((2 / np.pi) ** 0.5 * (wide + 0.044715 * wide**3)) if approximate else ERF(wide / 2**0.5)
    real = wide / 2 * (1 + inner) / float(np.float32(0.03))
    wanted = np.clip(np.copysign(np.floor(np.abs(real) + 0.5), real) - 100, -128, 127)
    found = run_golden(net.finish([x], [y]), codes[None])[0][0]
    np.testing.assert_array_equal(found, wanted.astype(np.int8))


@pytest.mark.parametrize(("name", "low", "high"), [("RELU_N1_TO_1", -1, 1), ("RELU_0_TO_1", 0, 1)])
def test_activations_that_tflm_lacks(name: str, low: float, high: float) -> None:
    net = Network()
    x, y = net.tensor(SHAPE, "FLOAT32", name="x"), net.tensor(SHAPE, "FLOAT32", name="y")
    net.operator(name, [x], [y])
    values = RNG.normal(size=(2, *SHAPE)).astype(np.float32) * 3
    found = np.array(run_golden(net.finish([x], [y]), values)).reshape(values.shape)
    np.testing.assert_array_equal(found, np.clip(values, low, high))


def test_the_page_names_the_operators() -> None:
    from tg2hdl_tflite.node import OPERATORS

    page = (Path(__file__).parents[1] / "README.md").read_text()
    rows = page[page.index("| types | operators |") : page.index("## Install")]
    assert set(re.findall(r"\b[A-Z][A-Z0-9_]+\b", rows)) - {"LSTM"} == set(OPERATORS)
