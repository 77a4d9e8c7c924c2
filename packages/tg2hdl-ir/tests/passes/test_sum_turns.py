"""Float sums that take turns on partial sums: every number of terms, lanes and turns, and kernels where they cannot."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tg2hdl_ir import evaluate, parse_kernel, verify
from tg2hdl_ir.analysis.axes import analyze_axes
from tg2hdl_ir.passes.flatten import flatten
from tg2hdl_ir.passes.sum_turns import sum_in_turns, sum_steps, summed_at_the_end
from tg2hdl_ir.passes.unroll import unroll
from tg2hdl_ir.pipeline import canonicalize, run_stage

NORM = (Path(__file__).parent / "ir" / "sum-in-turns.ir").read_text()
ROWS = 3


def norm(terms):
    text = NORM.replace("i1 < 7", f"i1 < {terms}").replace("7:int32", f"{terms}:int32")
    return canonicalize(parse_kernel(text.replace("fp32[21]", f"fp32[{ROWS * terms}]")))


def with_lanes(kernel, lanes):
    return unroll(flatten(kernel), analyze_axes(kernel, regroup_floats=True), {1: lanes})


@pytest.mark.parametrize(("terms", "lanes"), [(t, n) for t in (2, 5, 7, 12, 23) for n in (1, 2, 4) if n < t])
def test_sums_of_whole_numbers_are_the_same(terms, lanes):
    kernel, x = norm(terms), np.random.default_rng(1).integers(-4, 5, ROWS * terms).astype(np.float32)
    expected = np.sqrt(np.square(x.reshape(ROWS, terms)).sum(1))
    flat, arrays = with_lanes(kernel, lanes), {0: np.zeros(ROWS, np.float32), 1: x}
    steps = -(-terms // lanes)
    assert sum_steps(flat) == steps
    for turns in range(2, 9):
        made = verify(sum_in_turns(flat, turns))
        bounds = [loop.bound for loop in made.loop_tree.walk() if loop.counter is not None]
        inner = min(turns, steps)
        assert bounds == [ROWS, *([-(-steps // inner)] if steps > inner else []), inner]
        np.testing.assert_array_equal(evaluate(made, arrays)[0], expected)
        planned = verify(run_stage("registers", made, regroup_floats=True, floats=True))
        np.testing.assert_array_equal(evaluate(planned, arrays)[0], expected)


@pytest.mark.parametrize(
    ("terms", "lanes", "turns"), [(12, 1, 4), (7, 1, 4), (23, 2, 5), (6, 1, 6), (13, 1, 11)]
)
def test_additions_after_the_loop_round_as_the_moving_sums_do(terms, lanes, turns):
    flat, x = with_lanes(norm(terms), lanes), np.random.default_rng(2).normal(size=ROWS * terms)
    arrays = {0: np.zeros(ROWS, np.float32), 1: x.astype(np.float32)}
    found = [evaluate(verify(made(flat, turns)), arrays)[0] for made in (sum_in_turns, summed_at_the_end)]
    np.testing.assert_array_equal(found[0].view(np.uint32), found[1].view(np.uint32))
    np.testing.assert_allclose(found[0], np.sqrt(np.square(x.reshape(ROWS, terms)).sum(1)), rtol=1e-6)


def test_sums_over_two_loops_take_turns_in_the_inner_one():
    text = NORM.replace("RANGE i1 < 7 reduce", "RANGE i2 < 2 reduce\n  RANGE i1 < 7 reduce")
    text = text.replace("END i1", "END i1\n  END i2").replace(
        "%4 = mul", "%9 = sub fp32 %3, 0.25:fp32\n  %4 = mul"
    )
    flat = flatten(canonicalize(parse_kernel(text)))
    x = np.random.default_rng(3).normal(size=ROWS * 7).astype(np.float32)
    arrays = {0: np.zeros(ROWS, np.float32), 1: x}
    for turns in (4, 7):
        one, other = (
            evaluate(verify(made(flat, turns)), arrays)[0] for made in (sum_in_turns, summed_at_the_end)
        )
        np.testing.assert_array_equal(one.view(np.uint32), other.view(np.uint32))
        np.testing.assert_allclose(one, np.sqrt(2 * np.square(x.reshape(ROWS, 7)).sum(1)), rtol=1e-6)


def test_one_turn_for_each_step_needs_no_accumulator():
    made = sum_in_turns(flatten(norm(6)), 6)
    assert [r.size for r in made.registers] == [1] * 5
    # 6 = 4 + 2 values: each level of the moving sums is one addition.
    assert made.format().count("add fp32") == 3


def test_the_order_of_other_reductions_is_kept():
    extreme = NORM.replace("0.0:fp32", "-inf:fp32").replace("add fp32", "max fp32")
    product = NORM.replace("add fp32", "mul fp32")
    begun = NORM.replace("SET r0 = 0.0:fp32", "SET r0 = 1.0:fp32")
    prefixes = NORM.replace("SET r0 = %5", "SET r0 = %5\n  STORE fp32 b0[i0] = %5")
    in_place = NORM.replace("b1 x: fp32[21]", "").replace("b0 out: fp32[3]", "b0 out: fp32[21]")
    in_place = in_place.replace("LOAD fp32 b1", "LOAD fp32 b0")
    for text in (extreme, product, begun, prefixes, in_place):
        flat = flatten(canonicalize(parse_kernel(text)))
        assert sum_steps(flat) == 0
        assert sum_in_turns(flat, 4) is flat
