"""The FP8 units of the compiler against its golden model, which saturates as tinygrad does."""

import numpy as np
import pytest

pytest.importorskip("tg2hdl_ir", reason="the golden model is the compiler's")

from tg2hdl_fp32.plugin import tg2hdl_arithmetic_units
from tg2hdl_fp32.testing import BitSlicedSimulation
from tg2hdl_ir.testing.conformance import check_unit

UNITS = {
    unit.name: unit
    for unit in tg2hdl_arithmetic_units()
    if unit.result.name.startswith("fp8") and unit.name.endswith("balanced")
}
OVERFLOWING = [name for name, unit in UNITS.items() if unit.op in ("add", "sub", "mul", "div", "cast")]


def simulate(unit, operands):
    """Results of a unit, all operands in lanes beside each other."""
    core = unit.factory()
    simulation = BitSlicedSimulation(core, len(operands[0]))
    simulation.set("en", 1)
    for name, bits in zip("abc", operands, strict=False):
        simulation.set(name, np.asarray(bits).astype(np.uint64))
    simulation.tick(core.latency)
    return simulation.get("result")


def test_every_operation_that_overflows_is_there():
    assert {UNITS[name].op for name in OVERFLOWING} == {"add", "sub", "mul", "div", "cast"}


@pytest.mark.parametrize("name", OVERFLOWING)
def test_results_are_those_of_the_golden_model(name):
    assert check_unit(UNITS[name], simulate, count=1500) > 1000
