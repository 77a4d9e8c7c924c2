"""Products by a constant, without multipliers, against numpy."""

import numpy as np
import pytest
from amaranth.back import rtlil

from tg2hdl_fp32 import BF16, CATALOG, FP16, FP32, MulConstant
from tg2hdl_fp32.catalog import ConstantEntry
from tg2hdl_fp32.testing import BitSlicedSimulation

FACTORS = [
    0.5,
    -1.442695,
    0.044715,
    1.0,
    -2.0,
    0.0,
    -0.0,
    np.inf,
    np.nan,
    1e-45,
    1.17549e-38,
    3.4e38,
    1.9999999,
]
MULTIPLIERS = [entry for entry in CATALOG if entry.op == "mul"]


def results(core, bits):
    simulation = BitSlicedSimulation(core, len(bits))
    simulation.set("en", 1)
    simulation.set("a", bits.astype(np.uint64))
    simulation.tick(core.latency)
    return simulation.get("result")


def patterns(width, count):
    rng = np.random.default_rng(width)
    exponents = rng.integers(0, 1 << width, count, dtype=np.uint64)
    special = [0, 1, (1 << (width - 1)) - 1, 1 << (width - 1), (1 << (width - 1)) + 1]
    return np.concatenate([np.array(special, np.uint64), exponents]).astype(f"uint{width}")


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("options", [{"stages": 4}, {"stages": 10, "target": "ecp5_model"}])
def test_fp32(factor, options):
    constant = np.float32(factor)
    bits = patterns(32, 2000)
    core = MulConstant(FP32, int(constant.view(np.uint32)), **options)
    found = results(core, bits).astype(np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        expected = bits.view(np.float32) * constant
    assert np.array_equal(np.isnan(found), np.isnan(expected))
    number = ~np.isnan(expected)
    assert np.array_equal(found[number].view(np.uint32), expected[number].view(np.uint32))


@pytest.mark.parametrize("factor", [0.3, -7.0, 6e-8, 6e4])
def test_fp16_exhaustively(factor):
    constant = np.float16(factor)
    bits = np.arange(1 << 16).astype(np.uint16)
    found = results(MulConstant(FP16, int(constant.view(np.uint16)), stages=4), bits).astype(np.uint16)
    with np.errstate(all="ignore"):
        expected = bits.view(np.float16) * constant
    number = ~np.isnan(expected)
    assert np.isnan(found.view(np.float16)[~number]).all()
    assert np.array_equal(found[number], expected[number].view(np.uint16))


def test_there_is_no_multiplier():
    assert "$mul" not in rtlil.convert(MulConstant(BF16, 0x3FB8, stages=2))


@pytest.mark.parametrize("entry", MULTIPLIERS, ids=lambda entry: entry.name)
def test_every_multiplier_has_one_of_the_same_latency(entry):
    assert ConstantEntry(entry)(3).latency == entry().latency
