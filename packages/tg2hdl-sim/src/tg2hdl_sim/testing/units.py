"""Simulation of units and lowerings for the conformance suites of `tg2hdl_ir.testing.conformance`.

In the tests of a plugin::

    @pytest.mark.parametrize("unit", my_plugin.tg2hdl_arithmetic_units(), ids=lambda unit: unit.name)
    def test_my_unit(unit):
        check_unit(unit, simulate_unit)

Units may have memories and registers; `en` is low in a third of the cycles, in which the operands are others.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from amaranth import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tg2hdl_ir import ArithmeticUnit, DType, OpLowering, resolve
from tg2hdl_sim.engines import open_simulation
from tg2hdl_sim.model import SimulationModel

__all__ = ["LoweringSimulation", "simulate_unit"]

Bits: TypeAlias = npt.NDArray[np.uint64]
_PAUSES = 1 / 3


def simulate_unit(unit: ArithmeticUnit, operands: tuple[Bits, ...]) -> Bits:
    """Stream operands through a unit, one set in every `ii` enabled cycles.

    Parameters
    ----------
    unit : ArithmeticUnit
    operands : tuple of ndarray
        Bit patterns, one array for each operand.

    Raises
    ------
    AssertionError
        When a port is missing or has another width than the descriptor says, or when `result` changes while `en` is
        low.
    """
    component, label = resolve(unit.factory)(), f"unit {unit.name}"
    names = "abc"[: len(operands)]
    widths = {n: d.bit_width for n, d in zip(names, unit.operands, strict=True)}
    for name, width in {**widths, "en": 1, "result": unit.result.bit_width}.items():
        found = getattr(component, name, None)
        assert found is not None, f"{label}: the component of its factory has no port {name}"
        assert len(found) == width, f"{label}: port {name} has {len(found)} bits, the descriptor says {width}"
    count = len(operands[0])
    rng = np.random.default_rng(1)
    results = np.zeros(count, np.uint64)
    model = SimulationModel(component)
    clocked = bool(unit.latency)
    with open_simulation(model, expected_cycles=2 * count * unit.ii) as simulation:
        step = 0
        while step < (count - 1) * unit.ii + unit.latency + 1:
            current = min(step // unit.ii, count - 1)
            if clocked and rng.random() < _PAUSES:
                simulation.set("en", 0)
                _drive(simulation, names, operands, int(rng.integers(count)))
                before = simulation.get("result")
                simulation.step()
                after = simulation.get("result")
                assert after == before, (
                    f"{label}: its result changes from {before:#x} to {after:#x} without en"
                )
            simulation.set("en", 1)
            _drive(simulation, names, operands, current)
            done, phase = divmod(step - unit.latency, unit.ii)
            if done >= 0 and phase == 0:
                results[done] = simulation.get("result") & ((1 << unit.result.bit_width) - 1)
            simulation.step()
            step += 1
    return results


def _drive(simulation: Any, names: str, operands: tuple[Bits, ...], row: int) -> None:
    for name, column in zip(names, operands, strict=True):
        simulation.set(name, int(column[row]))


class _Wrapped(wiring.Component):
    """The logic of a lowering between ports."""

    def __init__(self, lowering: OpLowering, operands: tuple[DType, ...], result: DType) -> None:
        self.lowering, self.operands, self.dtype = lowering, operands, result
        ports = {n: In(d.bit_width) for n, d in zip("abc", operands, strict=False)}
        super().__init__({**ports, "result": Out(result.bit_width)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        values = []
        for name, dtype in zip("abc", self.operands, strict=False):
            value: Any = getattr(self, name)
            values.append(value.as_signed() if dtype.is_int and dtype.is_signed else value)
        found = resolve(self.lowering.build)(m, values, self.operands, self.dtype)
        held = Signal(self.dtype.bit_width)
        m.d.comb += [held.eq(found), self.result.eq(held)]
        return m


class LoweringSimulation:
    """The `simulate` of `check_lowering` for one choice of types: ``LoweringSimulation((int8, int8), int8)``.

    Operands reach the hardware as the datapath gives them: integers with their sign, floats as bit patterns.
    """

    def __init__(self, operands: tuple[DType, ...], result: DType) -> None:
        self.operands, self.result = operands, result

    def __call__(self, lowering: OpLowering, operands: tuple[Bits, ...]) -> Bits:
        """Results of the hardware, as bit patterns."""
        names = "abc"[: len(operands)]
        model = SimulationModel(_Wrapped(lowering, self.operands, self.result))
        results = np.zeros(len(operands[0]), np.uint64)
        with open_simulation(model, expected_cycles=len(results)) as simulation:
            for row in range(len(results)):
                _drive(simulation, names, operands, row)
                results[row] = simulation.get("result")
        return results
