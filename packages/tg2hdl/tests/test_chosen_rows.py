"""Lanes along rows that a quotient or an index chooses: resized images, looked-up rows."""

from __future__ import annotations

import numpy as np
import pytest
from tinygrad import Tensor

import tg2hdl

RNG = np.random.default_rng(3)


def simulated(function, *inputs, multipliers):
    accelerator = tg2hdl.compile(function, *inputs, multipliers=multipliers)
    result = accelerator.simulate(*inputs)
    assert result.cycles.compute == accelerator.predicted_cycles
    expected = function(*(Tensor(x) for x in inputs)).numpy()
    assert result.output.dtype == expected.dtype
    np.testing.assert_array_equal(result.output, expected)
    return accelerator.predicted_cycles


@pytest.mark.parametrize(
    ("shape", "columns", "multipliers", "most"),
    # Steps: 4 rows of 10 elements, 5 at once; 4 of 12, 6 at once; 6 of 7, 7 at once.
    [((4, 8), 10, 5, 4 * 2), ((4, 9), 12, 6, 4 * 2), ((6, 6), 7, 7, 6)],
)
def test_columns_of_a_stretched_image(shape, columns, multipliers, most) -> None:
    x, y = (RNG.integers(-99, 100, each).astype(np.int32) for each in (shape, (shape[0], columns)))

    def stretched(x: Tensor, y: Tensor) -> Tensor:
        return x[:, (Tensor.arange(columns) * 3) // 4] * y

    assert simulated(stretched, x, y, multipliers=multipliers) <= most + 10


def test_looked_up_rows() -> None:
    table = Tensor(RNG.integers(-99, 100, (20, 12)).astype(np.int32))
    index, more = RNG.integers(0, 20, 8).astype(np.int32), RNG.integers(-9, 9, (8, 12)).astype(np.int32)
    cycles = simulated(lambda i, y: table[i] * y, index, more, multipliers=4)
    assert cycles <= 8 * 3 + 16
