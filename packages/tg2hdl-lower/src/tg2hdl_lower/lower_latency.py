"""Units of lower latency for float sums that wait for their own results."""

from __future__ import annotations

from tg2hdl_ir import registry
from tg2hdl_lower.options import LowerOptions
from tg2hdl_lower.plan.hardware_plan import HardwarePlan
from tg2hdl_lower.plan.operations import UnitOp
from tg2hdl_lower.schedule.dependences import LOGIC_AND_UNITS, recurrent_nodes

__all__ = ["lower_latency_units"]


def lower_latency_units(plan: HardwarePlan, options: LowerOptions) -> dict[str, str]:
    """Units by op, for ops of float sums that wait for deeper ones: the family's own, or portable ones.

    Parameters
    ----------
    plan : HardwarePlan
        With the units that are chosen by default.
    options : LowerOptions
        Its `target` is the family; ops in its `units` are left as the user chose them.
    """
    found: dict[str, str] = {}
    family = options.target if options.target != "generic" else None
    circular = recurrent_nodes(plan.nodes.values(), LOGIC_AND_UNITS)
    for node in (plan.nodes[n] for n in sorted(circular)):
        if not isinstance(node, UnitOp) or node.unit.golden is not None or node.op in options.units:
            continue
        types = node.unit.operands, node.unit.result
        deep, own = node.unit.latency, [u for u in registry().units(node.op, *types) if u.target == family]
        unit = next((u for u in own if u.latency < deep), registry().select_unit(node.op, *types))
        if unit is not None and unit.golden is None and unit.latency < node.unit.latency:
            found[node.op] = unit.name
    return found
