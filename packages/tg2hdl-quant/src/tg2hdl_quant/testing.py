"""The conformance suites for quantization methods and roundings.

In the tests of a plugin::

    @pytest.mark.parametrize("method", my_plugin.tg2hdl_quantizers(), ids=lambda method: method.name)
    def test_my_method(method):
        check_quantizer(method)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tg2hdl_ir import DType, QuantizerDef, RoundingDef, Tg2hdlError, registry, resolve
from tg2hdl_ir.tensors import GraphBuilder, Quantizer, TensorGraph, evaluate_graph
from tg2hdl_quant.graph.builder import IntegerBuilder
from tg2hdl_quant.graph.float_part import FloatPart
from tg2hdl_quant.graph.options import QuantizeOptions
from tg2hdl_quant.graph.requantize import codes_of_sums, requantize
from tg2hdl_quant.graph.values import IntegerSum, IntegerValue

__all__ = ["check_quantizer", "check_rounding"]


def check_quantizer(method: QuantizerDef) -> None:
    """Check the functions of a method: quantization of one tensor, choice of ranges, codes of weights.

    Raises
    ------
    AssertionError
        Naming the method and the first rule that it breaks.
    """
    label = f"quantizer {method.name}"
    factories = (method.quantize, method.calibrate, method.round_weights, method.equalize)
    assert any(f is not None for f in factories), (
        f"{label}: it has neither quantize nor calibrate nor round_weights nor equalize"
    )
    if method.quantize is not None:
        _check_quantize(label, resolve(method.quantize))
    if method.calibrate is not None:
        _check_calibrate(label, resolve(method.calibrate))
    if method.round_weights is not None:
        _check_round_weights(label, resolve(method.round_weights))
    if method.equalize is not None:
        _check_equalize(label, resolve(method.equalize))


def _arrays() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {
        "normal numbers": rng.standard_normal((7, 30)),
        "positive numbers": rng.uniform(1, 2, 200),
        "large numbers": rng.standard_normal(50) * 1e30,
        "small numbers": rng.standard_normal(50) * 1e-30,
        "one number": np.array([-3.5]),
        "zeros": np.zeros((2, 3)),
    }


def _check_quantize(label: str, quantize: Callable[..., Any]) -> None:
    for what, values in _arrays().items():
        given = values.astype(np.float32)
        kept = given.copy()
        integers, scale = quantize(given)
        assert np.array_equal(given, kept), f"{label}: it changes its argument"
        integers, step = np.asarray(integers), float(scale)
        assert integers.dtype.kind in "iu", f"{label}: {what} become {integers.dtype}, not integers"
        assert integers.shape == given.shape, (
            f"{label}: {what} of shape {given.shape} become {integers.shape}"
        )
        assert np.isfinite(step) and step > 0, f"{label}: {what} have the scale {step}"  # noqa: PT018
        codes = integers.astype(np.float64)
        # Codes at the ends stand for all that lies beyond them.
        inside = (codes > codes.min()) & (codes < codes.max())
        error = np.abs(codes * step - given.astype(np.float64))
        worst = float(error[inside].max(initial=0.0)) / step
        assert worst <= 0.5 * (1 + 1e-5), f"{label}: {what} are off by {worst:.3f} steps; 0.5 is the most"
        assert not (codes[given == 0]).any(), f"{label}: zero is not the code 0"
        again, same = quantize(given)
        assert np.array_equal(integers, again) and step == float(same), f"{label}: a second call differs"  # noqa: PT018
    spread = np.linspace(-1, 1, 1001, dtype=np.float32)
    codes, step = quantize(spread)
    count = len(np.unique(codes))
    assert count > 2, f"{label}: numbers from -1 to 1 have {count} codes"
    error = np.abs(np.asarray(codes, np.float64) * float(step) - spread)
    assert np.median(error) <= 0.5 * float(step), f"{label}: most numbers from -1 to 1 are cut off"
    for bad in (np.array([1.0, np.nan], np.float32), np.array([np.inf], np.float32)):
        try:
            quantize(bad)
        except Tg2hdlError:
            continue
        raise AssertionError(f"{label}: {bad} is not refused with a Tg2hdlError")


def _check_calibrate(label: str, calibrate: Callable[..., Any]) -> None:
    for what, values in _arrays().items():
        flat = values.reshape(-1)
        kept = flat.copy()
        for bits in (2, 4, 8, 16):
            low, high = map(float, calibrate(flat, bits))
            assert np.array_equal(flat, kept), f"{label}: it changes its argument"
            assert np.isfinite([low, high]).all(), f"{label}: {what} have the range {low} to {high}"
            assert low <= high, f"{label}: {what} have the range {low} to {high}"
            least, most = min(flat.min(), 0.0), max(flat.max(), 0.0)
            room = 1e-6 * (most - least)
            within = least - room <= low and high <= most + room
            assert within, f"{label}: {what} in {least} to {most} have the range {low} to {high}"
            same = tuple(map(float, calibrate(flat, bits)))
            assert same == (low, high), f"{label}: a second call differs"
        if flat.min() < flat.max():
            assert low < high, f"{label}: {what} have the empty range {low} to {high}"


def _check_round_weights(label: str, round_weights: Callable[..., Any]) -> None:
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((2, 40, 3)) @ rng.standard_normal((2, 3, 12))
    inputs[:, :, 5] = 0.0
    for limit in (1, 7, 127):
        codes = rng.integers(-limit, limit + 1, (2, 4, 12))
        for what, weights in (("normal numbers", rng.standard_normal((2, 4, 12))), ("codes", codes * 0.5)):
            scale = np.full((2, 4, 1), 0.5) if what == "codes" else abs(weights).max(2, keepdims=True) / limit
            given = (weights.astype(np.float64), scale, limit, inputs)
            kept = [np.array(g) for g in given]
            found = np.asarray(round_weights(*given))
            assert all(np.array_equal(g, k) for g, k in zip(given, kept, strict=True)), (
                f"{label}: it changes its arguments"
            )
            assert found.shape == weights.shape, (
                f"{label}: {what} of shape {weights.shape} become {found.shape}"
            )
            assert np.array_equal(found, np.rint(found)), f"{label}: {what} become numbers that are not whole"
            assert abs(found).max() <= limit, f"{label}: {what} have codes beyond {limit}"
            assert what != "codes" or np.array_equal(found, codes), f"{label}: weights that are codes change"
            assert np.array_equal(found, round_weights(*given)), f"{label}: a second call differs"


def _check_equalize(label: str, equalize: Callable[..., Any]) -> None:
    rng = np.random.default_rng(0)
    for activations in (rng.uniform(1e-6, 1e6, 20), np.zeros(20), np.arange(20.0)):
        weights = rng.uniform(0, 3, 20) * (np.arange(20) % 3 > 0)
        kept = activations.copy(), weights.copy()
        factors = np.asarray(equalize(activations, weights))
        unchanged = np.array_equal(activations, kept[0]) and np.array_equal(weights, kept[1])
        assert unchanged, f"{label}: it changes its arguments"
        assert factors.shape == (20,), f"{label}: 20 channels have factors of shape {factors.shape}"
        positive = np.isfinite(factors).all() and factors.min() > 0
        assert positive, f"{label}: factors that are not positive numbers"
        assert np.array_equal(factors, equalize(activations, weights)), f"{label}: a second call differs"


_RATIOS = (0.5, 2.0**-7, 0.3, 0.0117, 3 / 256, 1.7e-3)
"""Codes for each step of a sum: powers of two, multiples of them with many ties, and others."""


def check_rounding(rounding: RoundingDef) -> int:
    """Check a registered rounding: its integer form for all sums of 15 bits, and its float form, against numpy.

    Returns
    -------
    int
        How many codes were compared.

    Raises
    ------
    AssertionError
        Naming the rounding and the first rule that it breaks.
    """
    label = f"rounding {rounding.name}"
    quarters = np.arange(-64, 65, dtype=np.float32) / 4
    whole = np.asarray(registry().factory(rounding, "numbers")(quarters))
    assert whole.shape == quarters.shape, f"{label}: {quarters.shape} become {whole.shape}"
    assert np.array_equal(whole, np.rint(whole)), f"{label}: numbers that are not whole"
    assert np.abs(whole - quarters).max() < 1, f"{label}: a number is moved by 1 or more"
    assert np.all(np.diff(whole) >= 0), f"{label}: it falls"
    count = 0
    for ratio in _RATIOS:
        sums, found, expected = _requantized(rounding, ratio)
        wrong = np.flatnonzero(found != expected)
        exact = rounding.is_proven or np.log2(ratio).is_integer()
        assert not (exact and wrong.size), (
            f"{label}: {sums[wrong[:1]]} * {ratio} becomes {found[wrong[:1]]}, not {expected[wrong[:1]]}"
        )
        assert np.abs(found - expected).max() <= 1, f"{label}: codes of {ratio} are more than one off"
        assert wrong.size <= len(sums) // 16, f"{label}: {wrong.size} of {len(sums)} codes of {ratio} differ"
        count += len(sums)
    if rounding.floats is not None:
        for zero_first in (False, True):
            q = Quantizer(np.array(0.5, np.float32), np.array(3), -20, 19, rounding.name, zero_first)
            made = _in_floats(q, quarters)
            assert np.array_equal(made, q.codes(quarters)), f"{label}: its float form differs from numpy"
            count += len(made)
    return count


def _requantized(rounding: RoundingDef, ratio: float) -> tuple[Any, Any, Any]:
    """Sums, their codes by the integer form, and by numpy."""
    reach = 1 << 14
    ratio = float(np.float32(ratio))
    sums = np.arange(-reach, reach + 1)
    builder = IntegerBuilder()
    given = builder.add("input", (), (1,), DType.INT32, 0, "x")
    total = IntegerSum.of(IntegerValue(given, np.asarray(ratio), -reach, reach), (1,))
    options = QuantizeOptions(requantization="multiplier", rounding=rounding.name, multiplier_bits=24)
    made = requantize(builder, total, 1.0, -200, 200, options, rounding.name)
    graph = TensorGraph("g", tuple(builder.nodes), (given,), (made,), ("x",), None)
    expected = np.clip(codes_of_sums(rounding)(sums, ratio), -200, 200)
    found = evaluate_graph(graph, [sums.astype(np.int32)[:, None]])[0]
    return sums, found[:, 0].astype(int), expected


def _in_floats(quantizer: Quantizer, numbers: Any) -> Any:
    builder, source = GraphBuilder(), GraphBuilder()
    given = source.add("input", (), (1,), DType.FP32, 0, "x")
    part = FloatPart(
        TensorGraph("g", tuple(source.nodes), (given,), (), ("x",)), builder, int, lambda _: None
    )
    made = part.quantized(given, quantizer, DType.INT8, "x")
    inputs = tuple(n for n, node in enumerate(builder.nodes) if node.op == "input")
    graph = TensorGraph("g", tuple(builder.nodes), inputs, (made,), ("x",), None)
    return evaluate_graph(graph, [numbers[:, None]])[0][:, 0]
