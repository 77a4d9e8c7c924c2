"""Sums of floats with fewer independent results than the latency of an addition."""

from __future__ import annotations

import numpy as np
import pytest
from tinygrad import Tensor

import tg2hdl
from tg2hdl_ir import evaluate

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


def rms(x):
    return x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt()


# Kernels with one result after the other, all kernels, cycles with several results at once, and cycles.
NORMS = {
    "RMSNorm": (rms, (4, 32), 1, 2, 129, 117),
    "LayerNorm, ragged": (lambda x: x.layernorm(), (5, 36), 2, 3, 221, 185),
    "softmax": (lambda x: x.softmax(), (4, 32), 2, 3, 160, 127),
}


@pytest.mark.parametrize("name", NORMS)
def test_relaxed_rows_are_done_one_after_the_other_where_the_next_kernel_then_begins_early(name):
    model, shape, in_order, kernels, before, cycles = NORMS[name]
    x = RNG.normal(size=shape).astype(np.float32)
    options = tg2hdl.CompileOptions(multipliers=4, float_order="relaxed")
    accelerator = tg2hdl.compile(model, x, options=options)
    design = accelerator.design
    (decision,) = (d for d in design.decisions if d.rewrite == "results-in-order")
    assert decision.taken
    assert decision.alternatives[0].cost.cycles == before
    assert decision.chosen.cost.cycles == accelerator.predicted_cycles == cycles
    found = [d.chosen.name for p in design.core_plans for d in p.decisions if d.rewrite == "sum-in-turns"]
    assert (len(found), len(design.core_plans)) == (in_order, kernels)
    result = accelerator.simulate(x)
    np.testing.assert_array_equal(result.output, accelerator.golden(x))
    assert result.cycles.compute == accelerator.predicted_cycles
    np.testing.assert_allclose(result.output, model(Tensor(x)).numpy(), rtol=1e-5, atol=1e-6)


def test_strict_rows_keep_their_order():
    x = RNG.normal(size=(4, 32)).astype(np.float32)
    accelerator = tg2hdl.compile(rms, x, multipliers=4)
    assert not any(d.rewrite == "results-in-order" for d in accelerator.design.decisions)
    squares = np.zeros(4, np.float32)
    for column in (x * x).T:
        squares += column
    scale = np.float32(1) / np.sqrt(squares * np.float32(1 / 32) + np.float32(1e-5))
    np.testing.assert_allclose(accelerator.golden(x), x * scale[:, None], rtol=3e-7)


def test_the_golden_model_adds_moving_sums_as_the_hardware_does():
    x = RNG.normal(size=(3, 22)).astype(np.float32)
    options = tg2hdl.CompileOptions(multipliers=1, float_order="relaxed")
    design = tg2hdl.compile(lambda x: x.softmax().sum(-1), x, options=options).design
    pairs = zip(design.program.calls, design.core_plans, strict=True)
    ((golden, planned),) = [(c.kernel, p.kernel) for c, p in pairs if c.kernel is not p.kernel]
    arrays = {b.idx: RNG.normal(size=b.depth).astype(np.float32) for b in planned.buffers}
    (one,), (other,) = (evaluate(kernel, arrays).values() for kernel in (golden, planned))
    np.testing.assert_array_equal(one.view(np.uint32), other.view(np.uint32))
