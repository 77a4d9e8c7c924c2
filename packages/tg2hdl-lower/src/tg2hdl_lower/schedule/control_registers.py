"""Which flags of control are known a cycle before they are needed."""

from __future__ import annotations

from collections.abc import Iterator

from tg2hdl_lower.plan.accesses import Store
from tg2hdl_lower.plan.control_registers import ControlRegisters
from tg2hdl_lower.plan.graph import LeafPlan, NodeGraph
from tg2hdl_lower.plan.placement import Schedule
from tg2hdl_lower.plan.registers import RegisterWrite

__all__ = ["control_registers", "is_known_before"]


def control_registers(flow: NodeGraph, schedule: Schedule) -> ControlRegisters:
    """Registers of the flags of a scheduled kernel.

    Parameters
    ----------
    flow : NodeGraph
        Nodes of a kernel.
    schedule : Schedule
        Their placement; a flag that is known a cycle earlier gets a register.
    """
    return ControlRegisters(
        frozenset(leaf.number for leaf in flow.leaves if _advances_early(leaf, schedule.ii)),
        frozenset(
            (node.number, flag)
            for node in flow.all(Store, RegisterWrite)
            for flag in _flags(node)
            if is_known_before(schedule, flag, node)
        ),
    )


def is_known_before(schedule: Schedule, flag: int, node: Store | RegisterWrite) -> bool:
    """Whether a flag is there a cycle before a node that it enables.

    Parameters
    ----------
    schedule : Schedule
    flag : int
        Number of the node of a condition.
    node : Store or RegisterWrite
    """
    return schedule.placements[flag].stage < schedule.placements[node.number].issue


def _advances_early(leaf: LeafPlan, ii: int) -> bool:
    """Whether the innermost loop takes two cycles or more, during which the outer counters are constant."""
    inner = leaf.path[-1].bound if leaf.path else 1
    return isinstance(inner, int) and inner * ii > 1


def _flags(node: Store | RegisterWrite) -> Iterator[int]:
    gates = [entry.gate for entry in node.lanes] if isinstance(node, Store) else [node.gate]
    if isinstance(node, RegisterWrite) and node.clear is not None:
        gates.append(node.clear.flag)
    return (gate for gate in gates if gate is not None)
