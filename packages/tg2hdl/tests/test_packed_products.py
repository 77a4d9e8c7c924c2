"""Products by 4-bit weights share multipliers in pairs: half the steps on as many multipliers, the same bits."""

from __future__ import annotations

import numpy as np
import pytest
from tinygrad import Tensor

import tg2hdl


def linear(weights):
    w = Tensor(weights)
    return lambda x: (x @ w).relu()


def convolution(weights):
    w = Tensor(weights)
    return lambda x: x.conv2d(w, padding=1)


@pytest.mark.parametrize(
    ("make", "weights", "shape"),
    [(linear, (32, 12), (32,)), (convolution, (4, 3, 3, 3), (3, 6, 6))],
)
def test_fewer_cycles_on_as_many_multipliers(make, weights, shape):
    rng = np.random.default_rng(3)
    model = make(rng.normal(size=weights).astype(np.float32))
    x = rng.normal(size=(24, *shape)).astype(np.float32)
    cycles = {}
    for bits in (8, 4):
        q = tg2hdl.quantize(model, x, weight_bits=bits, requantization="shift")
        accelerator = tg2hdl.compile(q, x[0], multipliers=4)
        assert max(k.multipliers for k in accelerator.kernels) <= 4
        run = accelerator.simulate(x[1])
        np.testing.assert_array_equal(run.output, q.reference(*q.quantize_input(x[1])))
        assert sum(run.cycles.kernels) == accelerator.predicted_cycles
        cycles[bits] = accelerator.predicted_cycles
    assert cycles[4] < 0.7 * cycles[8]


def test_narrow_activations_and_extremes():
    """All products at the ends of the ranges, where low halves are most negative."""
    w = np.tile(np.array([-7, 7], np.float32), (8, 2))
    q = tg2hdl.quantize(linear(w), np.array([[127.0] * 8, [-127.0] * 8], np.float32), weight_bits=4)
    accelerator = tg2hdl.compile(q, np.zeros(8, np.float32), multipliers=2)
    for x in (np.full(8, 127.0), np.full(8, -127.0), np.tile([127.0, -127.0], 4)):
        x = x.astype(np.float32)
        np.testing.assert_array_equal(accelerator.simulate(x).output, q.reference(*q.quantize_input(x)))
