"""Correct rounding of the arithmetic cores, against exact rational arithmetic and against numpy."""

import numpy as np
import pytest

from tg2hdl_fp32 import (
    BF16,
    FP8_E4M3,
    FP8_E5M2,
    FP16,
    FP32,
    FP64,
    Add,
    Div,
    Fma,
    Format,
    Mul,
    RoundingMode,
    Sub,
)
from tg2hdl_fp32.testing import BitSlicedSimulation, check_unit, vectors

CORES = {"add": Add, "sub": Sub, "mul": Mul, "fma": Fma}
ODD = Format(6, 10)
TINY = Format(2, 3)


SMALL = [
    (operation, fmt, rounding)
    for fmt in (Format(2, 2), Format(3, 3))
    for operation in ("add", "sub", "mul")
    for rounding in RoundingMode
]
EIGHT = [("add", FP8_E4M3), ("mul", FP8_E4M3), ("add", FP8_E5M2), ("mul", FP8_E5M2)]


@pytest.mark.parametrize(
    ("operation", "fmt", "rounding"), [*SMALL, *((o, f, RoundingMode.RNE) for o, f in EIGHT)], ids=str
)
def test_every_pair_of_small_formats(operation, fmt, rounding):
    every = np.arange(1 << fmt.width, dtype=np.uint64)
    pairs = tuple(grid.ravel() for grid in np.meshgrid(every, every))
    core = CORES[operation](fmt, profile="comb", rounding=rounding)
    outcome = check_unit(core, operation, fmt, rounding=rounding, operands=pairs)
    assert outcome, outcome.examples
    assert outcome.vectors == 1 << 2 * fmt.width


@pytest.mark.parametrize("operation", ["add", "mul", "fma"])
@pytest.mark.parametrize("rounding", RoundingMode, ids=str)
def test_fp32_in_every_direction(operation, rounding):
    core = CORES[operation](FP32, profile="comb", rounding="dynamic")
    operands = vectors(FP32, len(core.operands), 400, specials=False)
    outcome = check_unit(core, operation, FP32, rounding=rounding, operands=operands)
    assert outcome, outcome.examples


def test_fma_of_special_values():
    every = tuple(column[::11] for column in vectors(FP32, 3, 0))
    outcome = check_unit(Fma(FP32, profile="comb"), "fma", FP32, operands=every)
    assert outcome, outcome.examples
    assert outcome.vectors > 8000


@pytest.mark.parametrize("operation", CORES)
@pytest.mark.parametrize("fmt", [FP16, BF16, FP64, ODD, TINY], ids=str)
def test_other_formats(operation, fmt):
    core = CORES[operation](fmt, profile="comb")
    operands = vectors(fmt, len(core.operands), 700, specials=False)
    outcome = check_unit(core, operation, fmt, operands=operands)
    assert outcome, outcome.examples


@pytest.mark.parametrize("operation", ["add", "mul", "fma"])
@pytest.mark.parametrize("target", ["generic", "ecp5_model"])
@pytest.mark.parametrize("profile", ["balanced", "fast"])
def test_pipelines_give_the_same_results_with_pauses(operation, target, profile):
    core = CORES[operation](FP32, profile=profile, target=target)
    assert core.latency > 0
    operands = vectors(FP32, len(core.operands), 300, seed=5, specials=False)
    outcome = check_unit(core, operation, FP32, operands=operands)
    assert outcome, outcome.examples


@pytest.mark.parametrize("stages", [0, 1, 2, 3, 5, 8])
def test_any_number_of_stages(stages):
    core = Add(FP16, stages=stages)
    assert core.latency == stages
    outcome = check_unit(core, "add", FP16, operands=vectors(FP16, 2, 300, specials=False))
    assert outcome, outcome.examples


@pytest.mark.parametrize("operation", ["add", "sub", "mul"])
def test_fp32_against_numpy(operation):
    a, b = vectors(FP32, 2, 60_000, seed=3)
    core = CORES[operation](FP32, profile="comb")
    simulation = BitSlicedSimulation(core, len(a))
    simulation.set("a", a)
    simulation.set("b", b)
    got = simulation.get("result").astype(np.uint32)
    x, y = FP32.to_numpy(a), FP32.to_numpy(b)
    with np.errstate(all="ignore"):
        expected = {"add": x + y, "sub": x - y, "mul": x * y}[operation]
    bits = np.where(np.isnan(expected), np.uint32(FP32.nan), expected.view(np.uint32))
    np.testing.assert_array_equal(got, bits)


@pytest.mark.parametrize("operation", ["add", "mul"])
def test_flush_to_zero(operation):
    core = CORES[operation](FP32, profile="comb", subnormals=False)

    def flush(bits: int) -> int:
        return bits if bits & 0x7F800000 else bits & 0x80000000

    a, b = vectors(FP32, 2, 20_000)
    a, b = (np.array([flush(int(v)) for v in column], np.uint64) for column in (a, b))
    simulation = BitSlicedSimulation(core, len(a))
    simulation.set("a", a)
    simulation.set("b", b)
    got = simulation.get("result")
    x, y = FP32.to_numpy(a), FP32.to_numpy(b)
    with np.errstate(all="ignore"):
        # Double precision tells a tiny result before rounding.
        wide = x.astype(np.float64) + y if operation == "add" else x.astype(np.float64) * y
        expected = (x + y if operation == "add" else x * y).view(np.uint32)
    tiny = np.abs(wide) < 2.0**-126
    expected = np.where(tiny & (wide != 0), expected & np.uint32(0x80000000), expected)
    expected = np.where(np.isnan(wide), np.uint32(FP32.nan), expected)
    np.testing.assert_array_equal(got.astype(np.uint32), expected)


@pytest.mark.parametrize("rounding", [RoundingMode.RNE, RoundingMode.RUP], ids=str)
@pytest.mark.parametrize("fmt", [FP8_E4M3, FP8_E5M2], ids=str)
@pytest.mark.parametrize("operation", ["add", "sub", "mul", "div"])
def test_saturation(operation, fmt, rounding):
    options = {"rounding": rounding, "saturate": True}
    core = (CORES | {"div": Div})[operation](fmt, profile="comb", **options)
    every = np.arange(256, dtype=np.uint64)
    operands = (np.repeat(every, 256)[::23], np.tile(every, 256)[::23])
    outcome = check_unit(core, operation, fmt, operands=operands, **options)
    assert outcome, outcome.examples
