"""Maxima of floats in lanes, also those in front of a sum and those of all prefixes."""

from __future__ import annotations

import numpy as np
import pytest

import tg2hdl

RNG = np.random.default_rng(5)


def special(*shape: int) -> np.ndarray:
    """Few values, so that most maxima are zeros of both signs, with NaN in between."""
    return RNG.choice(np.array([-0.0, 0.0, -1.5, np.nan, -np.inf], np.float32), shape)


@pytest.mark.parametrize(
    ("shape", "multipliers", "most", "order"),
    # Steps: 2 rows of 37 elements, 4 lanes; 3 of 24, 8 lanes; a row of 50, 7 lanes where the last step has one.
    [((2, 37), 4, 2 * 10, "strict"), ((3, 24), 8, 9, "relaxed"), ((1, 50), 7, 8, "strict")],
)
def test_rows_are_compared_in_lanes(shape, multipliers, most, order):
    x = special(*shape)
    options = tg2hdl.CompileOptions(multipliers=multipliers, float_order=order)
    accelerator = tg2hdl.compile(lambda x: x.max(1), x, options=options)
    result = accelerator.simulate(x, engine="amaranth")
    expected = np.full(shape[0], -np.inf, np.float32)
    for column in x.T:
        expected = np.where(column > expected, column, expected)
    np.testing.assert_array_equal(result.output.view(np.uint32), expected.view(np.uint32))
    assert result.cycles.compute == accelerator.predicted_cycles <= most + 16


def test_maxima_of_all_prefixes_are_lanes_too():
    x = RNG.normal(size=32).astype(np.float32)
    accelerator = tg2hdl.compile(lambda x: x.cummax()[0], x, multipliers=4)
    result = accelerator.simulate(x, engine="amaranth")
    np.testing.assert_array_equal(result.output, np.maximum.accumulate(x))
    assert result.cycles.compute == accelerator.predicted_cycles <= 8 + 24
