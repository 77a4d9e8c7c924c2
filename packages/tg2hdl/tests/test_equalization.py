"""Channels with scales of their own: golden model, hardware and numpy agree, and small channels keep more."""

from __future__ import annotations

import numpy as np
import pytest
from tinygrad import Tensor

import tg2hdl
from tg2hdl_ir import InputError
from tg2hdl_quant.plugin import tg2hdl_quantizers
from tg2hdl_quant.testing import check_quantizer

RNG = np.random.default_rng(5)


def array(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


APART = np.exp2(np.arange(12) % 6 - 4).astype(np.float32)
W1, W2 = array(10, 12) * APART, array(12, 4) / APART[:, None]
CONV1, CONV2 = array(4, 1, 3, 3) * APART[:4, None, None, None], array(3, 4, 3, 3) / APART[:4, None, None]
SAMPLES, IMAGES = array(60, 10), array(40, 1, 6, 6)


def mlp(x: Tensor) -> Tensor:
    return (x @ Tensor(W1)).relu() @ Tensor(W2)


def cnn(x: Tensor) -> Tensor:
    return x.conv2d(Tensor(CONV1), padding=1).relu().max_pool2d(2).conv2d(Tensor(CONV2), padding=1)


@pytest.mark.parametrize("requantization", ["shift", "multiplier"])
@pytest.mark.parametrize(("model", "samples"), [(mlp, SAMPLES), (cnn, IMAGES)])
def test_small_channels_keep_more(model: object, samples: np.ndarray, requantization: str) -> None:
    q = tg2hdl.quantize(model, samples, equalization="cross-layer", requantization=requantization)
    plain = tg2hdl.quantize(model, samples, requantization=requantization)
    assert q.report.output_sqnr > plain.report.output_sqnr + 3
    accelerator = tg2hdl.compile(q, samples[0])
    for sample in samples[:3]:
        np.testing.assert_array_equal(accelerator.golden(sample), q.reference(*q.quantize_input(sample)))
    if model is mlp:
        result = accelerator.simulate(samples[1])
        np.testing.assert_array_equal(result.output, q.reference(*q.quantize_input(samples[1])))
        assert result.cycles.compute == accelerator.predicted_cycles


def test_methods_see_the_ranges_of_channels_and_of_their_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def method(activations: np.ndarray, weights: np.ndarray) -> np.ndarray:
        seen.append((activations, weights))
        return np.ones(len(weights))

    monkeypatch.setattr("tg2hdl_quant.methods.cross_layer", method)
    tg2hdl.quantize(cnn, IMAGES, equalization="cross-layer")
    assert len(seen) == 1, "inputs and outputs have one scale"
    padded = np.lib.stride_tricks.sliding_window_view(
        np.pad(IMAGES[:, 0], ((0, 0), (1, 1), (1, 1))), (3, 3), (1, 2)
    )
    hidden = np.maximum(np.einsum("nhwij,cij->nchw", padded, CONV1[:, 0]), 0)
    np.testing.assert_allclose(seen[0][0], hidden.max((0, 2, 3)), rtol=1e-5)
    np.testing.assert_allclose(seen[0][1], np.abs(CONV2).max((0, 2, 3)))


def test_built_in_methods_conform() -> None:
    methods = [method for method in tg2hdl_quantizers() if method.equalize is not None]
    assert [method.name for method in methods] == ["cross-layer"]
    check_quantizer(methods[0])


def test_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="no equalization method 'none'\n  note: registered: cross-layer\n"):
        tg2hdl.quantize(mlp, SAMPLES, equalization="none")
    monkeypatch.setattr("tg2hdl_quant.methods.cross_layer", lambda a, w: np.zeros(len(a)))
    with pytest.raises(InputError, match="an equalization method gave no 12 positive factors"):
        tg2hdl.quantize(mlp, SAMPLES, equalization="cross-layer")
