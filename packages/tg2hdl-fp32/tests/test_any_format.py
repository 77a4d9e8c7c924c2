"""Cores in formats of one's own: few exponents with long significands, roots below the smallest normal number."""

import random

import numpy as np
import pytest

from tg2hdl_fp32 import (
    Div,
    Fma,
    Format,
    IterativeDiv,
    IterativeSqrt,
    Mul,
    RoundingMode,
    RoundToIntegral,
    Sqrt,
)
from tg2hdl_fp32.testing import BitSlicedSimulation, check_unit, reference, vectors

SUBNORMAL_ROOTS = [Format(2, 2), Format(2, 5), Format(3, 8), Format(4, 9), Format(3, 6, finite=True)]
LONG = [Format(2, 24), Format(3, 8), Format(3, 36), Format(4, 20), Format(4, 40, finite=True), Format(5, 24)]


def iterated(unit, columns, mode):
    """Results of an iterative core that is started in one lane for each row."""
    simulation = BitSlicedSimulation(unit, len(columns[0]))
    for name, column in zip(unit.operands, columns, strict=True):
        simulation.set(name, column)
    simulation.set("rm", mode.value)
    simulation.set("start", 1)
    simulation.tick()
    simulation.set("start", 0)
    simulation.tick(unit.latency - 1)
    return simulation.get("result")


@pytest.mark.parametrize("fmt", SUBNORMAL_ROOTS, ids=str)
@pytest.mark.parametrize("mode", RoundingMode, ids=str)
def test_every_root(fmt, mode):
    every = np.arange(1 << fmt.width, dtype=np.uint64)
    outcome = check_unit(Sqrt(fmt, rounding="dynamic"), "sqrt", fmt, rounding=mode, operands=(every,))
    assert outcome, outcome.examples
    wanted = [reference("sqrt", fmt, int(a), rounding=mode) for a in every]
    assert iterated(IterativeSqrt(fmt, rounding="dynamic"), (every,), mode).tolist() == wanted


def test_flags_of_a_subnormal_root():
    """The root of 2**-5 in E3M7 is subnormal and inexact; that of 2**-8 is exact, so that nothing underflows."""
    fmt = Format(3, 8)
    simulation = BitSlicedSimulation(Sqrt(fmt, profile="comb", flags=True), 2)
    simulation.set("a", [fmt.encode(2.0**-5), fmt.encode(2.0**-8)])
    assert fmt.to_fraction(int(simulation.get("result")[1])) == 2.0**-4
    assert simulation.get("flags").tolist() == [0b00011, 0]


@pytest.mark.parametrize("fmt", LONG, ids=str)
@pytest.mark.parametrize(
    ("operation", "core"),
    [("mul", Mul), ("div", Div), ("fma", Fma), ("sqrt", Sqrt)],
    ids=["mul", "div", "fma", "sqrt"],
)
def test_few_exponents_and_a_long_significand(operation, core, fmt):
    mode = random.Random(f"{fmt} {operation}").choice(list(RoundingMode))
    arity = len(core.operands)
    operands = tuple(column[:: 17 if arity == 3 else 1] for column in vectors(fmt, arity, 600))
    outcome = check_unit(core(fmt, rounding=mode), operation, fmt, rounding=mode, operands=operands)
    assert outcome, outcome.examples


@pytest.mark.parametrize("fmt", [Format(2, 23), Format(4, 30), Format(3, 12, finite=True)], ids=str)
def test_iterative_quotients(fmt):
    columns = vectors(fmt, 2, 300)
    got = iterated(IterativeDiv(fmt, rounding="dynamic"), columns, RoundingMode.RUP)
    rows = zip(*(map(int, column) for column in columns), strict=True)
    assert got.tolist() == [reference("div", fmt, *row, rounding=RoundingMode.RUP) for row in rows]


@pytest.mark.parametrize("mode", RoundingMode, ids=str)
def test_the_largest_number_without_infinities_rounds_to_nan(mode):
    """The largest number of E2M6FN is 7.9375: no integer, and 8 is beyond the format."""
    fmt = Format(2, 7, finite=True)
    every = np.arange(1 << fmt.width, dtype=np.uint64)
    core = RoundToIntegral(fmt, profile="comb", rounding=mode)
    outcome = check_unit(core, "round", fmt, rounding=mode, operands=(every,))
    assert outcome, outcome.examples
