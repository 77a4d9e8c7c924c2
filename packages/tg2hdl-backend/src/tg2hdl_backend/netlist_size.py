"""Netlist size of a design, estimated from its plan for simulation cost models; elaborates only arithmetic units."""

from __future__ import annotations

from functools import cache

from tg2hdl_ir.plugins.descriptors import ArithmeticUnit
from tg2hdl_lower import HardwarePlan
from tg2hdl_lower.ops.unit_component import build_unit
from tg2hdl_lower.plan.operations import UnitOp
from tg2hdl_sim import SimulationModel

__all__ = ["least_cells", "netlist_cells"]

_PER_DESIGN, _PER_NODE = 60, 9
"""Cells of control and memories, and of an operation without a unit: a fit to kernels of the conformance programs."""


def least_cells(plan: HardwarePlan) -> int:
    """Cells of a planned kernel without its arithmetic units."""
    return _PER_DESIGN + _PER_NODE * len(plan.nodes)


def netlist_cells(plan: HardwarePlan) -> int:
    """Cells of a planned kernel, within a factor of two."""
    units = [node.unit for node in plan.all(UnitOp)]
    return least_cells(plan) + sum(_unit_cells(unit) for unit in units if unit is not None)


@cache
def _unit_cells(unit: ArithmeticUnit) -> int:
    return SimulationModel(build_unit(unit)).elaboration.cells
