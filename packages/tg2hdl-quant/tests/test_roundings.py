"""Roundings against exact fractions, and their integer and float forms against numpy."""

from __future__ import annotations

import math
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from tg2hdl_ir import DType, InputError, RoundingDef, UnsupportedError, hookimpl, registry
from tg2hdl_ir.tensors import GraphBuilder, Quantizer, TensorGraph, evaluate_graph
from tg2hdl_quant.graph import QuantizeOptions
from tg2hdl_quant.graph.builder import IntegerBuilder
from tg2hdl_quant.graph.float_part import FloatPart
from tg2hdl_quant.graph.requantize import codes_of_sums, requantize
from tg2hdl_quant.graph.values import IntegerSum, IntegerValue
from tg2hdl_quant.testing import check_rounding

NAMES = [r.name for r in registry().roundings()]
HALF = Fraction(1, 2)


def signed(x: Fraction, magnitude: int) -> int:
    return magnitude if x >= 0 else -magnitude


EXACT = {
    "half_even": round,
    "half_up": lambda x: math.floor(x + HALF),
    "half_away": lambda x: signed(x, math.floor(abs(x) + HALF)),
    "half_down": lambda x: signed(x, math.ceil(abs(x) - HALF)),
    "floor": math.floor,
    "ceil": math.ceil,
    "down": math.trunc,
    "up": lambda x: signed(x, math.ceil(abs(x))),
    "onnxruntime": round,
    "tflite": round,
}


@pytest.fixture
def registered():
    """Registers roundings until the test ends."""
    contexts = []

    def register(*found: RoundingDef) -> None:
        plugin = SimpleNamespace(tg2hdl_roundings=hookimpl(lambda: list(found)))
        plugin.tg2hdl_roundings.__name__ = "tg2hdl_roundings"
        contexts.append(registry().extended(plugin, distribution="myext"))
        contexts[-1].__enter__()

    yield register
    for context in reversed(contexts):
        context.__exit__(None, None, None)


@pytest.mark.parametrize("name", EXACT)
def test_numbers_are_those_of_exact_fractions(name: str) -> None:
    numbers = registry().factory(registry().rounding(name), "numbers")
    for dtype in (np.float32, np.float64):
        x = (np.arange(-40, 41) / 8).astype(dtype)
        expected = [EXACT[name](Fraction(float(v))) for v in x]
        np.testing.assert_array_equal(numbers(x), expected)


@pytest.mark.parametrize("name", NAMES)
def test_integer_and_float_forms_are_those_of_numpy(name: str) -> None:
    rounding = registry().rounding(name)
    if name in ("down", "up"):
        with pytest.raises(UnsupportedError) as caught:
            check_rounding(rounding)
        assert str(caught.value) == (
            f"unsupported: no multiplier and shift gives the codes of rounding {name!r} for every sum\n"
            f"  at: {name}\n  hint: choose another rounding, or give its RoundingDef `bias` or `product`"
        )
    else:
        assert check_rounding(rounding) > 190_000


def test_double_rounding_is_that_of_its_definition() -> None:
    """SaturatingRoundingDoublingHighMul, then RoundingDivideByPOT, in Python's integers."""
    codes = codes_of_sums(registry().rounding("tflite"))
    rng = np.random.default_rng(0)
    for multiplier in (0.25, 0.0117, 0.00071, 0.7, 3.1):
        fraction, exponent = math.frexp(multiplier)
        factor = math.floor(fraction * 2**31 + 0.5)
        near = (np.arange(-100, 100) + 0.5) / multiplier
        for total in [*rng.integers(-(1 << 20), 1 << 20, 200), *np.rint(near).astype(int)]:
            product = int(total) << max(exponent, 0)
            high = (product * factor + (1 << 30)) >> 31
            shift = max(-exponent, 0)
            rest, threshold = high & ((1 << shift) - 1), ((1 << shift) - 1 >> 1) + (high < 0)
            expected = (high >> shift) + (rest > threshold)
            assert codes(np.array([total]), multiplier)[0] == expected, (total, multiplier)


@pytest.mark.parametrize("name", ["half_up", "half_even", "half_away", "floor", "ceil"])
def test_shifts_of_each_channel_and_none(name: str) -> None:
    reach, shifts = 300, np.array([0, 1, 4])
    builder = IntegerBuilder()
    x = builder.add("input", (), (3,), DType.INT16, 0, "x")
    total = IntegerSum((IntegerValue(x, 2.0**-shifts, -reach, reach),), np.array([3.0, 0.5, -1.0]), (3,))
    options = QuantizeOptions(rounding=name)
    made = requantize(builder, total, 1.0, -1000, 1000, options, "layer x")
    graph = TensorGraph("g", tuple(builder.nodes), (x,), (made,), ("x",), None)
    sums = np.broadcast_to(np.arange(-reach, reach + 1)[:, None], (2 * reach + 1, 3)).astype(np.int16)
    found = evaluate_graph(graph, [sums])[0]
    offsets = (Fraction(3), HALF, Fraction(-1))
    for channel, (shift, offset) in enumerate(zip(shifts, offsets, strict=True)):
        expected = [EXACT[name](Fraction(int(v), 1 << int(shift)) + offset) for v in sums[:, channel]]
        np.testing.assert_array_equal(found[:, channel], expected)


def test_a_rounding_that_is_unknown_lists_the_others() -> None:
    with pytest.raises(InputError) as caught:
        QuantizeOptions(rounding="half")
    assert str(caught.value) == "bad input: rounding='half' is unknown\n  hint: one of: " + ", ".join(NAMES)


def test_codes_that_stay_in_float_need_a_float_form(registered) -> None:
    registered(RoundingDef("late", "late", lambda x: np.floor(x + np.float32(0.4))))
    source = GraphBuilder()
    x = source.add("input", (), (4,), DType.FP32, 0, "x")
    part = FloatPart(
        TensorGraph("g", tuple(source.nodes), (x,), (), ("x",)), GraphBuilder(), int, lambda _: None
    )
    with pytest.raises(UnsupportedError) as caught:
        part.quantized(x, Quantizer(np.float32(1), np.array(0), -8, 7, "late"), DType.INT8, "q")
    assert str(caught.value) == (
        "unsupported: rounding 'late' has no float form, and these codes stay in float\n  at: layer q\n"
        "  hint: give its RoundingDef `floats`"
    )


def test_the_suite_finds_a_form_that_is_not_its_numbers(registered) -> None:
    registered(RoundingDef("odd", "odd", np.floor, bias=lambda shift: (1 << shift) >> 1))
    with pytest.raises(AssertionError, match=r"rounding odd: \[-16383\] \* 0\.5 becomes \[-8191\]|not \["):
        check_rounding(registry().rounding("odd"))
