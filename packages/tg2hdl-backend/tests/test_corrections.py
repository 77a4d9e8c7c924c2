"""What tinygrad itself computes once its rules are corrected, against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from tinygrad import Tensor

from tg2hdl_backend import capture, own_result
from tg2hdl_ir import evaluate_program

X = np.arange(1, 13, dtype=np.float32).reshape(3, 4)
MODELS = {
    "rows repeated": (lambda x: x.repeat(2, 1).sum(), 2 * X.sum()),
    "columns repeated": (lambda x: x.repeat(1, 3).sum(), 3 * X.sum()),
    "both repeated": (lambda x: x.repeat(2, 3).sum(), 6 * X.sum()),
    "beside itself": (lambda x: x.cat(x, dim=0).square().sum(), 2 * np.square(X).sum()),
    "product": (lambda x: (x / 4).repeat(2, 1).prod(), np.prod(X / 4, dtype=np.float64) ** 2),
    "largest": (lambda x: x.repeat(2, 1).max(), X.max()),
    "rows of repeated images": (
        lambda x: x.reshape(3, 2, 2).repeat(2, 1, 2).sum((0, 2)),
        4 * X.reshape(3, 2, 2).sum((0, 2)),
    ),
    "half and back": (
        lambda x: (x / 3).cast("half").cast("float"),
        (X / 3).astype(np.float16).astype(np.float32),
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_captured_and_own_result_are_numpys(name):
    model, want = MODELS[name]
    captured = capture(model, X)
    found = evaluate_program(captured.program, captured.bind(X))
    golden = found[captured.program.buffers[captured.outputs[0].buffer].name]
    np.testing.assert_allclose(np.ravel(golden), np.ravel(want), rtol=2e-6)
    if (
        name != "half and back"
    ):  # Python before 3.12 has no half, and tinygrad's interpreter computes in float there.
        own = own_result(model, Tensor(X), device="PYTHON")[0]
        np.testing.assert_allclose(np.ravel(own), np.ravel(want), rtol=2e-6)


NAN, INF = np.nan, np.inf
SPECIAL = np.array([NAN, INF, -INF, 0, -0.0, 3, -3], np.float32)
IDENTITIES = {
    "x - x": (lambda x: x - x, [NAN, NAN, NAN, 0, 0, 0, 0]),
    "x * 0": (lambda x: x * 0, [NAN, NAN, NAN, 0, 0, 0, 0]),
    "x / x": (lambda x: x / x, [NAN, NAN, NAN, NAN, NAN, 1, 1]),
    "x * y / y": (lambda x: (x + 1) * x / x, [NAN, NAN, NAN, NAN, NAN, 4, -2]),
    "softmax of one": (lambda x: x.reshape(7, 1).softmax(1), [NAN, NAN, NAN, 1, 1, 1, 1]),
    "layernorm of one": (lambda x: x.reshape(7, 1).layernorm(), [NAN, NAN, NAN, 0, 0, 0, 0]),
    "unequal NaN": (lambda x: (Tensor(NAN) != Tensor(NAN)).where(2, x), [2.0] * 7),
    "equal NaN": (lambda x: (Tensor(NAN) == Tensor(NAN)).where(x, 2), [2.0] * 7),
    "integers": (lambda x: x.isnan().where(0, x.minimum(9).maximum(-9)).cast("int") * 0, np.zeros(7)),
}


def _golden(model, *inputs):
    captured = capture(model, *inputs)
    with np.errstate(all="ignore"):
        found = evaluate_program(captured.program, captured.bind(*inputs))
    return found[captured.program.buffers[captured.outputs[0].buffer].name].reshape(-1)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("name", IDENTITIES)
def test_float_operands_that_may_be_infinite_stay(name):
    model, want = IDENTITIES[name]
    np.testing.assert_array_equal(_golden(model, SPECIAL), np.float32(want))
    own = own_result(model, Tensor(SPECIAL), device="PYTHON")[0]
    np.testing.assert_array_equal(own.reshape(-1), np.float32(want))


ROWS = np.array([[NAN] * 5, [1, NAN, 3, NAN, 2], [INF] * 5, [-INF] * 5, [2, 1, 2, 0, 1]], np.float32)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_an_index_of_nan_is_inside_its_axis(name):
    want = {"argmax": [4, 2, 0, 0, 0], "argmin": [4, 0, 0, 0, 3]}[name]
    np.testing.assert_array_equal(_golden(lambda x: getattr(x, name)(1), ROWS), want)
    np.testing.assert_array_equal(_golden(lambda x: getattr(x, name)(-2, keepdim=True), ROWS.T), want)
    assert _golden(lambda x: getattr(x, name)(), ROWS[:1])[0] == 4


def test_a_place_of_nan_is_inside_the_image():
    x = np.full((1, 2, 4, 4), NAN, np.float32)
    x[0, 0, 1, 1] = 1
    places = _golden(lambda x: x.max_pool2d((2, 2), return_indices=True)[1], x)
    np.testing.assert_array_equal(places, [5] + [15] * 7)


def test_indices_of_the_largest_with_nan_are_inside_the_axis():
    rng = np.random.default_rng(0)
    for _ in range(5):
        x = rng.choice([NAN, INF, -INF, 1, 2, 3], (6, 7)).astype(np.float32)
        places = _golden(lambda x: x.topk(4, 1)[1], x)
        assert (places >= 0).all()
        assert (places < 7).all()


def test_remainders_are_those_of_the_interpreter():
    a = np.array([7.5, -7.5, 1e20, 0.3, 5], np.float32)
    b = np.array([2, 2, 3, 0.1, -3], np.float32)
    captured = capture(lambda x, y: x % y, a, b)
    with np.errstate(all="ignore"):
        found = evaluate_program(captured.program, captured.bind(a, b))
    golden = found[captured.program.buffers[captured.outputs[0].buffer].name]
    own = own_result(lambda x, y: x % y, Tensor(a), Tensor(b), device="PYTHON")[0]
    np.testing.assert_array_equal(golden, own)
