"""Arithmetic units outside of the kernels, which kernels that never run at the same time share."""

from __future__ import annotations

from collections.abc import Collection

from tg2hdl_lower.dataflow.dataflow import Dataflow
from tg2hdl_lower.plan.operations import ConstantProduct, SharedUnitOp, UnitOp, UnitProduct
from tg2hdl_lower.plan.placement import Schedule
from tg2hdl_lower.plan.resources import SharedUnit
from tg2hdl_lower.schedule.dependences import LOGIC_AND_UNITS, recurrent_nodes

__all__ = ["bind_shared_units", "unit_slots"]


def bind_shared_units(flow: Dataflow, names: Collection[str]) -> Dataflow:
    """Move units of these names out of the kernel, except in recurrences, where another cycle would raise the II."""
    if not names:
        return flow
    circular = recurrent_nodes(flow.nodes.values(), LOGIC_AND_UNITS)
    return flow.with_nodes(
        {
            n.number: SharedUnitOp(n.number, n.leaf, n.dtype, n.interval, n.op, n.sources, n.unit)
            for n in flow.all(UnitOp)
            if n.unit.name in names
            and n.number not in circular
            and not isinstance(n, ConstantProduct | UnitProduct)
        }
    )


def unit_slots(flow: Dataflow, schedule: Schedule) -> tuple[SharedUnit, ...]:
    """Shared units of a scheduled kernel, in the order of the nodes' ports."""
    slots = {schedule.placements[n.number].port: SharedUnit(n.unit) for n in flow.all(SharedUnitOp)}
    return tuple(slots[port] for port in sorted(slots))
