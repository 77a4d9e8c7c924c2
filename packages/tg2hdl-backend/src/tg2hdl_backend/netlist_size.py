"""Netlist size of a design, estimated from its plan for simulation cost models; elaborates only arithmetic units."""

from __future__ import annotations

from functools import cache, partial

from amaranth.lib import wiring

from tg2hdl_backend.plan_cache import installed
from tg2hdl_backend.wave_views import design_views
from tg2hdl_ir import ArithmeticUnit
from tg2hdl_ir.content_cache import ContentCache, content_key
from tg2hdl_lower import HardwarePlan
from tg2hdl_lower.ops.unit_component import build_unit, units_as_modules
from tg2hdl_lower.plan.operations import UnitOp
from tg2hdl_sim import Forecast, SimulationModel
from tg2hdl_top import Design

__all__ = ["design_model", "least_cells", "netlist_cells"]

_PER_DESIGN, _PER_NODE = 60, 9
"""Cells of control and memories, and of an operation without a unit: a fit to kernels of the conformance programs."""


def design_model(design: Design, component: wiring.Component) -> SimulationModel:
    """Simulation model of a design's component: engine selected by the plan, waveform in its terms.

    Parameters
    ----------
    design : Design
    component : Component
        A `TopModule` of the design.
    """

    def forecast() -> Forecast:
        cells = sum(map(netlist_cells, design.core_plans))
        return Forecast(cells, content_key("design", design.to_json(), installed()))

    views, modules = partial(design_views, design), partial(units_as_modules, "unit")
    return SimulationModel(component, forecast=forecast, views=views, modules=modules)


def least_cells(plan: HardwarePlan) -> int:
    """Cells of a planned kernel without its arithmetic units."""
    return _PER_DESIGN + _PER_NODE * len(plan.nodes)


def netlist_cells(plan: HardwarePlan) -> int:
    """Cells of a planned kernel, within a factor of two."""
    units = [node.unit for node in plan.all(UnitOp)]
    return least_cells(plan) + sum(_unit_cells(unit) for unit in units if unit is not None)


@cache
def _unit_cells(unit: ArithmeticUnit) -> int:
    """Cells of a unit, counted once and then kept on disk."""
    store, key = ContentCache("cells"), content_key("cells", unit.name, installed())
    known = store.read(key)
    if known is not None and known.isdigit():
        return int(known)
    counted = SimulationModel(build_unit(unit)).elaboration.cells
    store.write(key, str(counted).encode())
    return counted
