"""Sums of floats with fewer independent results than the latency of an addition."""

from __future__ import annotations

import numpy as np
from tinygrad import Tensor

import tg2hdl

RNG = np.random.default_rng(5)


def test_a_sum_that_comes_back_without_a_register_starts_anew_in_every_run():
    x, w = RNG.normal(size=(1, 6)).astype(np.float32), RNG.normal(size=(6, 2)).astype(np.float32)
    weight = Tensor(w)
    accelerator = tg2hdl.compile(lambda x: x @ weight, x, multipliers=2)
    (plan,) = accelerator.design.core_plans
    assert any("returns to its unit without a register" in note for note in plan.notes)
    sums = np.zeros((1, 2), np.float32)
    for k in range(6):
        sums += x[:, k : k + 1] * w[k]
    for inputs, expected in ((x, sums), (-x, -sums)):
        result = accelerator.simulate(inputs, engine="amaranth")
        np.testing.assert_array_equal(result.output.view(np.uint32), expected.view(np.uint32))
        assert result.cycles.compute == accelerator.predicted_cycles


def test_a_unit_that_is_chosen_leaves_operations_on_other_types_alone():
    x, n = RNG.normal(size=3).astype(np.float32), np.arange(3, dtype=np.int32)
    options = tg2hdl.CompileOptions(units={"add": "fp32.add.small"})
    accelerator = tg2hdl.compile(lambda x, n: (x + 1.5, n + 7), x, n, options=options)
    assert any("fp32.add.small" in plan.units for plan in accelerator.design.core_plans)
    sums, numbers = accelerator.simulate(x, n, engine="amaranth").output
    np.testing.assert_array_equal(sums, x + np.float32(1.5))
    np.testing.assert_array_equal(numbers, n + 7)
