"""More multipliers are never slower."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings

import tg2hdl
from tg2hdl_backend import capture
from tg2hdl_backend.testing.random_programs import Recipe, recipes
from tg2hdl_top import compile_program
from tg2hdl_top.search.budgets import smaller_budgets

RNG = np.random.default_rng(5)


def array(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def cached_step(q, keys, values, k, v):
    """A step of four heads over 47 cached positions."""
    keys, values = keys.cat(k, dim=1), values.cat(v, dim=1)
    return ((q @ keys.transpose(1, 2)) * 0.25).softmax() @ values


CACHED = (array(4, 1, 16), array(4, 47, 16), array(4, 47, 16), array(4, 1, 16), array(4, 1, 16))
LARGEST = (array(20),)
MODELS = {
    "a step with a cache": (cached_step, CACHED, (8, 16, 24, 32)),
    "top 3 of 20": (lambda x: x.topk(3)[0], LARGEST, (4, 8, 16, 32)),
}


@pytest.mark.parametrize("name", MODELS)
def test_no_budget_takes_more_cycles_than_a_smaller_one(name):
    model, inputs, budgets = MODELS[name]
    program = capture(model, *inputs).program
    cycles = [
        compile_program(program, tg2hdl.CompileOptions(multipliers=n, validate="off")).predicted_cycles()
        for n in budgets
    ]
    assert cycles == sorted(cycles, reverse=True)


def test_the_decision_says_which_budget_was_taken_and_the_result_keeps_its_bits():
    accelerator = tg2hdl.compile(cached_step, *CACHED, multipliers=32)
    assert accelerator.predicted_cycles == 391
    (decision,) = (d for d in accelerator.design.decisions if d.rewrite == "multipliers")
    assert decision.chosen.name == "multipliers=24"
    assert decision.alternatives[0].name == "multipliers=32"
    assert decision.alternatives[0].cost.cycles == 572
    assert accelerator.options.multipliers == 32
    result = accelerator.simulate(*CACHED)
    np.testing.assert_array_equal(result.output, accelerator.golden(*CACHED))
    assert result.cycles.compute == 391


def test_busy_multipliers_are_not_planned_again():
    x, w = (RNG.integers(-9, 9, s).astype(np.int8) for s in ((32, 32), (32, 32)))
    accelerator = tg2hdl.compile(
        lambda x, w: x.cast("int32") @ w.cast("int32"), x, w, options=tg2hdl.CompileOptions(multipliers=16)
    )
    (decision,) = (d for d in accelerator.design.decisions if d.rewrite == "multipliers")
    assert [a.cost is None for a in decision.alternatives] == [False, True]
    assert decision.alternatives[1].note.startswith("at least ")


def test_budgets_are_nested():
    """So that the best of a budget's smaller ones is among those of a larger one."""
    assert smaller_budgets(1) == []
    assert smaller_budgets(16) == [12, 8, 6, 4, 3, 2, 1]
    assert smaller_budgets(144) == [96, 64, 48, 32, 24, 16, 12, 8, 6, 4, 3, 2, 1]
    for budget in (2, 3, 4, 6, 8, 12, 16, 24, 32):
        found = smaller_budgets(budget)
        assert all(set(smaller_budgets(n)) < set(found) for n in found)


@settings(
    max_examples=8,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(recipes())
# With 3 multipliers its squares are computed once, in a kernel of their own: fewer steps than with 4.
@example(
    Recipe(inputs=(((7,), "int8"),), steps=(("cast", 0, "int8"), ("mul", 0, 0), ("matmul", 8, 0)), seed=0)
)
def test_random_programs_are_never_slower(recipe):
    program = capture(recipe, *recipe.arrays()).program
    cycles = [
        compile_program(program, tg2hdl.CompileOptions(multipliers=n, validate="off")).longest_cycles()
        for n in (1, 2, 3, 4, 8)
    ]
    assert cycles == sorted(cycles, reverse=True)
