"""The conformance suite for quantization methods.

In the tests of a plugin::

    @pytest.mark.parametrize("method", my_plugin.tg2hdl_quantizers(), ids=lambda method: method.name)
    def test_my_method(method):
        check_quantizer(method)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tg2hdl_ir.errors import Tg2hdlError
from tg2hdl_ir.plugins.descriptors import QuantizerDef, resolve

__all__ = ["check_quantizer"]


def check_quantizer(method: QuantizerDef) -> None:
    """Check what a method registers: the quantization of one tensor, the choice of ranges, codes of weights.

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
