"""Scans: one pass over the elements, with lanes that add the prefixes of a word."""

from __future__ import annotations

import numpy as np
import pytest
from tinygrad import Tensor

import tg2hdl

X = np.random.default_rng(0).integers(-(2**31), 2**31, (4, 15)).astype(np.int32)
F = (X / 2**20).astype(np.float32)


def in_order(x):
    """Sums of floats from left to right."""
    sums, total = [], np.float32(0)
    for value in x:
        sums.append(total := np.float32(total + value))
    return np.array(sums)


@pytest.mark.parametrize(
    ("model", "x", "expected", "multipliers", "cycles"),
    [
        (lambda x: x.cumsum(1), X, X.cumsum(1, dtype=np.int32), 1, 64),
        (lambda x: x.cumsum(1), X, X.cumsum(1, dtype=np.int32), 4, 18),
        (lambda x: x.cumsum(0), X, X.cumsum(0, dtype=np.int32), 5, 16),
        (lambda x: x.flip(1).cumsum(1).flip(1), X, X[:, ::-1].cumsum(1, dtype=np.int32)[:, ::-1], 4, 19),
        (lambda x: x.cummax(1)[0], X, np.maximum.accumulate(X, 1), 16, 11),
        (lambda x: x.cumsum(0), F[0], in_order(F[0]), 4, 64),
    ],
    ids=["rows", "lanes", "columns", "reversed", "maximum", "floats"],
)
def test_each_element_is_read_once(model, x, expected, multipliers, cycles):
    accelerator = tg2hdl.compile(model, x, multipliers=multipliers)
    result = accelerator.simulate(x)
    assert np.array_equal(result.output, expected)
    assert (result.cycles.compute, accelerator.predicted_cycles) == (cycles, cycles)
    assert "* scan: one kernel" in str(accelerator.explain())


def test_the_integral_of_an_image_is_one_pass():
    x = X[:, :12].repeat(3, 0)
    accelerator = tg2hdl.compile(
        lambda x: x.cumsum(0).cumsum(1), x, options=tg2hdl.CompileOptions(schedule="overlap")
    )
    result = accelerator.simulate(x)
    assert np.array_equal(result.output, x.cumsum(0, dtype=np.int32).cumsum(1, dtype=np.int32))
    assert result.cycles.compute == accelerator.predicted_cycles == x.size + 8


def test_a_long_scan_is_two_passes():
    x = np.arange(-300, 300, dtype=np.int32)
    accelerator = tg2hdl.compile(lambda x: x.cumsum(), x)
    result = accelerator.simulate(x)
    assert np.array_equal(result.output, x.cumsum(dtype=np.int32))
    assert result.cycles.compute == accelerator.predicted_cycles == 1375


def test_a_masked_square_of_a_loop_is_one_pass():
    places = Tensor.arange(15)
    accelerator = tg2hdl.compile(
        lambda x: (places.reshape(15, 1) > places.reshape(1, 15)).where(x.reshape(1, 15), 0).sum(1), X[0]
    )
    result = accelerator.simulate(X[0])
    assert np.array_equal(result.output, X[0].cumsum(dtype=np.int32) - X[0])
    assert result.cycles.compute == accelerator.predicted_cycles == 17
