"""Sums of floats: in the order of the source, or in trees when the user gives the order up."""

import re

import numpy as np
import pytest
from tinygrad import Tensor

import tg2hdl
from tg2hdl.bits import same_bits
from tg2hdl_ir import InputError

RNG = np.random.default_rng(5)


def product(rows: int, columns: int):
    weights = Tensor(RNG.normal(size=(rows, columns)).astype(np.float32))
    return lambda x: x @ weights


def compiled(model, x: np.ndarray, **options: object) -> tg2hdl.Accelerator:
    return tg2hdl.compile(model, x, options=tg2hdl.CompileOptions(**options))


def test_relaxed_order_takes_trees_and_the_golden_model_sees_them() -> None:
    model, x = product(16, 8), RNG.normal(size=(1, 16)).astype(np.float32)
    strict = compiled(model, x, multipliers=4)
    relaxed = compiled(model, x, multipliers=4, float_order="relaxed")
    assert relaxed.predicted_cycles <= 60 < strict.predicted_cycles
    run = relaxed.simulate(x)
    assert run.cycles.compute == relaxed.predicted_cycles
    assert same_bits(run.output, relaxed.golden(x))
    exact = strict.golden(x).astype(np.float64)
    assert not same_bits(relaxed.golden(x), strict.golden(x))
    np.testing.assert_allclose(run.output, exact, rtol=0, atol=16 * 2**-24 * 16)


@pytest.mark.parametrize(
    ("family", "unit"), [("ecp5", "fp32.add.ecp5-balanced"), ("generic", "fp32.add.balanced")]
)
def test_sums_that_wait_for_themselves_take_a_shorter_adder_of_their_family(family: str, unit: str) -> None:
    model, x = product(16, 8), RNG.normal(size=(1, 16)).astype(np.float32)
    plan = compiled(model, x, multipliers=1, target=family).design.format()
    assert set(re.findall(r"fp32\.add\S+", plan)) == {unit}


@pytest.mark.parametrize("multipliers", [1, 3, 8])
def test_strict_order_gives_the_same_bits_for_any_lanes(multipliers: int) -> None:
    model, x = product(7, 3), RNG.normal(size=(2, 7)).astype(np.float32)
    accelerator = compiled(model, x, multipliers=multipliers)
    assert same_bits(accelerator.simulate(x).output, compiled(model, x).golden(x))


@pytest.mark.parametrize("terms", [5, 7, 13])
def test_lanes_beyond_the_end_add_nothing(terms: int) -> None:
    # The sum of negative zeros is negative: a lane that added 0.0 would show.
    x = np.full((2, terms), -0.0, np.float32)
    accelerator = compiled(lambda x: (x * x.abs()).sum(1), x, float_order="relaxed", reduce_unroll_factor=4)
    run = accelerator.simulate(x)
    assert same_bits(run.output, accelerator.golden(x))
    x = RNG.normal(size=(2, terms)).astype(np.float32)
    run = accelerator.simulate(x)
    assert same_bits(run.output, accelerator.golden(x))
    np.testing.assert_allclose(run.output, (x * abs(x)).sum(1), rtol=1e-5, atol=1e-5)


def test_reduction_lanes_of_floats_need_the_relaxed_order() -> None:
    x = np.ones((2, 8), np.float32)
    with pytest.raises(InputError, match="float_order"):
        compiled(lambda x: x.sum(1), x, reduce_unroll_factor=4)


def test_an_unknown_order_is_refused() -> None:
    with pytest.raises(InputError, match="float_order='fast' is unknown"):
        compiled(lambda x: x.sum(1), np.ones((2, 8), np.float32), float_order="fast")


@pytest.mark.parametrize(
    ("shape", "model", "multipliers"),
    [
        ((300,), lambda x: x.sum(), 1),
        ((307,), lambda x: (x * x).mean(), 1),
        ((2, 150), lambda x: x.exp2().sum(1), 4),
        ((5, 7, 11), lambda x: x.sum(), 2),
    ],
)
def test_few_results_have_partial_sums(shape: tuple[int, ...], model, multipliers: int) -> None:
    x = RNG.normal(size=shape).astype(np.float32)
    relaxed = compiled(model, x, multipliers=multipliers, float_order="relaxed")
    run = relaxed.simulate(x)
    assert same_bits(run.output, relaxed.golden(x))
    assert run.cycles.compute == relaxed.predicted_cycles <= 1.2 * x.size / multipliers + 250
    strict = compiled(model, x, multipliers=multipliers)
    assert strict.predicted_cycles > 3 * relaxed.predicted_cycles
    assert relaxed.top.plans[0].ii == 1
    np.testing.assert_allclose(run.output, strict.golden(x), rtol=1e-4)


def test_idle_turns_are_no_products() -> None:
    model, x = product(50, 3), RNG.normal(size=(1, 50)).astype(np.float32)
    relaxed = compiled(model, x, multipliers=4, float_order="relaxed")
    assert [kernel.macs for kernel in relaxed.kernels] == [150]


@pytest.mark.parametrize(
    ("rows", "columns", "multipliers", "cycles"), [(13, 5, 4, 56), (24, 3, 8, 48), (7, 9, 3, 57)]
)
def test_relaxed_layers_start_at_their_bias(rows: int, columns: int, multipliers: int, cycles: int) -> None:
    weights, bias = (RNG.normal(size=size).astype(np.float32) for size in ((rows, columns), columns))
    x = RNG.normal(size=(2, rows)).astype(np.float32)
    w, b = Tensor(weights), Tensor(bias)
    relaxed = compiled(lambda x: (x @ w + b).relu(), x, multipliers=multipliers, float_order="relaxed")
    run = relaxed.simulate(x)
    assert run.cycles.compute == relaxed.predicted_cycles == cycles
    assert same_bits(run.output, relaxed.golden(x))
    terms = np.abs(x.astype(np.float64)) @ np.abs(weights.astype(np.float64)) + np.abs(bias)
    exact = np.maximum(x.astype(np.float64) @ weights.astype(np.float64) + bias, 0)
    assert (np.abs(run.output - exact) <= (rows + 1) * 2.0**-24 * terms).all()


def test_a_relaxed_sum_takes_the_lanes_with_the_fewest_levels_of_adders() -> None:
    # Lanes along the terms alone take as many steps, and a tree of 15 products.
    weights = [Tensor(RNG.normal(size=size).astype(np.float32)) for size in ((30, 16), 16, (16, 1), 1)]
    w1, b1, w2, b2 = weights
    x = RNG.normal(size=(1, 30)).astype(np.float32)
    relaxed = compiled(
        lambda x: ((x @ w1 + b1).relu() @ w2 + b2).sigmoid(), x, multipliers=16, float_order="relaxed"
    )
    run = relaxed.simulate(x)
    assert run.cycles.compute == relaxed.predicted_cycles == 114
    assert same_bits(run.output, relaxed.golden(x))
    v1, c1, v2, c2 = (w.numpy().astype(np.float64) for w in weights)
    exact = 1 / (1 + np.exp(-(np.maximum(x @ v1 + c1, 0) @ v2 + c2)))
    np.testing.assert_allclose(run.output, exact, rtol=2e-6)
