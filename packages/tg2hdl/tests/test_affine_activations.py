"""Activations with zero points: golden model, hardware, numpy and a hand-written reference agree bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from tinygrad import Tensor

import tg2hdl
from tg2hdl_ir import InputError

RNG = np.random.default_rng(3)


def array(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


W1, B1, W2, CONV, POOLED = array(10, 12), array(12), array(12, 4), array(3, 2, 3, 3), array(12, 3)
SAMPLES = (array(60, 10) + 1.5).clip(-0.5, None).astype(np.float32)
IMAGES = (array(40, 2, 4, 4) + 1.0).clip(-0.3, None).astype(np.float32)


def leaky(x: Tensor) -> Tensor:
    return (x @ Tensor(W1) + Tensor(B1)).leaky_relu(0.1) @ Tensor(W2)


def padded(x: Tensor) -> Tensor:
    y = x.conv2d(Tensor(CONV), padding=1).gelu().max_pool2d(2)
    return y.flatten(1) @ Tensor(POOLED)


@pytest.mark.parametrize("requantization", ["shift", "multiplier"])
@pytest.mark.parametrize(("model", "samples"), [(leaky, SAMPLES), (padded, IMAGES)])
def test_golden_hardware_and_numpy_agree(model: object, samples: np.ndarray, requantization: str) -> None:
    q = tg2hdl.quantize(model, samples, activations="affine", requantization=requantization)
    plain = tg2hdl.quantize(model, samples, requantization=requantization)
    assert np.any(q.quantized.inputs[0].offset), "the input has a zero point"
    assert q.report.output_sqnr > plain.report.output_sqnr
    accelerator = tg2hdl.compile(q, samples[0])
    for sample in samples[:3]:
        codes = q.quantize_input(sample)
        golden = accelerator.golden(sample)
        np.testing.assert_array_equal(golden, q.reference(*codes))
        np.testing.assert_array_equal(golden, q(*(Tensor(c) for c in codes)).numpy())
    if (model is leaky) != (requantization == "shift"):
        return  # two of the four are enough in hardware
    result = accelerator.simulate(samples[1])
    np.testing.assert_array_equal(result.output, q.reference(*q.quantize_input(samples[1])))
    assert result.cycles.compute == accelerator.predicted_cycles


def test_a_layer_written_by_hand_has_the_same_bits() -> None:
    q = tg2hdl.quantize(
        lambda x: x @ Tensor(W1) + Tensor(B1), SAMPLES, activations="affine", per_channel=False
    )
    low, high = min(SAMPLES.min(), 0), SAMPLES.max()
    step = float(q.quantized.inputs[0].scale)
    assert np.log2(step) == round(np.log2(step))
    assert (high - low) / 255 / 2 < step < (high - low) / 255 * 2
    zero = round(-low / step)
    codes = np.clip(np.rint(SAMPLES.astype(np.float64) / step) + zero, 0, 255)
    np.testing.assert_array_equal(np.concatenate([q.quantize_input(s)[0] for s in SAMPLES]), codes)
    weight_step = 2.0 ** np.ceil(np.log2(np.abs(W1).max() / 127) - 1e-9)
    candidates = [weight_step, weight_step / 2]
    rounded = [np.clip(np.rint(W1 / s), -127, 127) for s in candidates]
    errors = [((r * s - W1) ** 2).sum() for r, s in zip(rounded, candidates, strict=True)]
    best = int(np.argmin(errors))
    sums = (codes - zero) @ rounded[best] + np.rint(B1 / (step * candidates[best]))
    found = np.concatenate([q.reference(*q.quantize_input(s)) for s in SAMPLES])
    np.testing.assert_array_equal(found, sums)


def test_products_of_two_activations_stay_symmetric() -> None:
    samples = array(30, 3, 5) + 1
    q = tg2hdl.quantize(lambda x: x @ x.transpose(-1, -2), samples, activations="affine")
    assert not np.any(q.quantized.inputs[0].offset)


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(
        InputError, match="activations='asymmetric' is unknown\n  hint: one of: symmetric, affine"
    ):
        tg2hdl.quantize(leaky, SAMPLES, activations="asymmetric")
