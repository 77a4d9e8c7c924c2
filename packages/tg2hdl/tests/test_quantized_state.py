"""Quantized models with state: golden, hardware and numpy agree, and the error against float stays small."""

import numpy as np
import pytest
from tinygrad import Tensor

import tg2hdl
from tg2hdl.quantized_file import load_quantized, save_quantized
from tg2hdl_ir import UnsupportedError

RNG = np.random.default_rng(8)
FEATURES, HIDDEN, CLASSES, STEPS = 5, 6, 3, 120
X = (RNG.normal(size=(STEPS, FEATURES)) / 2).astype(np.float32)


def normal(*shape, by=2.0):
    return Tensor((RNG.normal(size=shape) / by).astype(np.float32)).realize()


class Spotter:
    """A gated recurrent unit of a keyword spotter, and a tail of two frames that a convolution reads."""

    def __init__(self):
        self.h = Tensor.zeros(1, HIDDEN)
        self.tail = Tensor.zeros(2, FEATURES).contiguous().realize()
        self.conv = normal(3 * FEATURES, FEATURES, by=4.0)
        self.gate, self.new = normal(FEATURES + HIDDEN, HIDDEN), normal(FEATURES + HIDDEN, HIDDEN)
        self.out = normal(HIDDEN, CLASSES)

    def __call__(self, x):
        window = self.tail.cat(x)
        self.tail.assign(window[1:].contiguous())
        frame = (window.reshape(1, -1) @ self.conv).relu()
        z = (frame.cat(self.h, dim=1) @ self.gate).sigmoid()
        n = (frame.cat(self.h, dim=1) @ self.new).tanh()
        h = z * self.h + (1 - z) * n
        self.h.assign(h)
        return h @ self.out


def float_scores(model, xs):
    """The same in numpy, in float64."""
    conv, gate, new, out = (
        w.numpy().astype(np.float64) for w in (model.conv, model.gate, model.new, model.out)
    )
    h, tail = np.zeros((1, HIDDEN)), np.zeros((2, FEATURES))
    for x in xs[:, None]:
        frame = np.maximum(np.concatenate([tail.reshape(1, -1), x], 1) @ conv, 0)
        tail = np.concatenate([tail[1:], x])
        z = 1 / (1 + np.exp(-np.concatenate([frame, h], 1) @ gate))
        h = z * h + (1 - z) * np.tanh(np.concatenate([frame, h], 1) @ new)
        yield (h @ out)[0]


@pytest.fixture(scope="module")
def spotter():
    return Spotter()


@pytest.fixture(scope="module")
def quantized(spotter):
    return tg2hdl.quantize(spotter, X, sequences=True)


def test_the_error_of_a_sequence_stays_small(spotter, quantized):
    expected = np.array(list(float_scores(spotter, X)))
    found = quantized.evaluate(X).reshape(STEPS, CLASSES)
    scale = np.abs(expected).max()
    assert np.abs(found - expected).max() < 0.12 * scale
    errors = np.array(quantized.report.error_by_position)
    np.testing.assert_allclose(errors, np.sqrt(np.square(found - expected).mean(1)), atol=1e-5)
    assert errors[STEPS // 2 :].mean() < 2 * errors[: STEPS // 2].mean() + 0.01 * scale
    assert not spotter.tail.numpy().any()


def test_more_bits_err_less(spotter):
    eight, twelve = (
        np.mean(tg2hdl.quantize(spotter, X[:40], sequences=True, bits=bits).report.error_by_position)
        for bits in (8, 12)
    )
    assert twelve < eight / 3


def test_the_state_stays_in_the_design_as_integers(quantized):
    accelerator = tg2hdl.compile(quantized, X[:1])
    assert [i.name for i in accelerator.inputs] == ["x"]
    assert len(accelerator.outputs) == 1
    assert sorted(accelerator.state) == ["h", "tail"]
    assert {array.dtype.kind for array in accelerator.state.values()} == {"i"}
    quantized.reset()
    for number, x in enumerate(X[:6]):
        golden = accelerator.golden(x, codes=True)
        np.testing.assert_array_equal(golden, quantized.reference(*quantized.quantize_input(x)))
        if number < 2:
            np.testing.assert_array_equal(accelerator.simulate(x, codes=True).output, golden)
    accelerator.reset()
    first = accelerator.golden(X[0], codes=False)
    np.testing.assert_array_equal(first.reshape(-1), quantized.evaluate(X[:1]).reshape(-1))


def test_a_model_with_state_needs_samples_in_order(spotter):
    with pytest.raises(UnsupportedError, match="the model updates h, tail in place") as error:
        tg2hdl.quantize(spotter, X)
    assert (
        error.value.hint == "quantize it with sequences=True, which carries its state from sample to sample"
    )


def test_a_file_holds_the_state(quantized, tmp_path):
    save_quantized(quantized, tmp_path / "q.npz")
    loaded = load_quantized(tmp_path / "q.npz")
    np.testing.assert_array_equal(loaded.evaluate(X[:9]), quantized.evaluate(X[:9]))
    assert list(loaded.first_state) == list(quantized.first_state)
    assert loaded.report == quantized.report


def test_a_model_without_state_is_quantized_as_ever():
    w = normal(FEATURES, 3)
    plain, ordered = (tg2hdl.quantize(lambda x: (x @ w).relu(), X[:20], sequences=s) for s in (False, True))
    np.testing.assert_array_equal(plain.evaluate(X[:20]), ordered.evaluate(X[:20]))


def test_the_report_has_the_error_by_position(quantized):
    errors = quantized.report.error_by_position
    assert len(errors) == STEPS
    (line,) = [line for line in str(quantized.report).splitlines() if line.startswith("error by position")]
    assert line.endswith(f", at most {max(errors):.4g} at {errors.index(max(errors))}")
