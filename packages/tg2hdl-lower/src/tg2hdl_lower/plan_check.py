"""Whether a plan is hardware of its kernel: plans that are read from a file may say anything.

The nodes follow from the kernel and are built again.  A schedule has many valid forms, so only its rules are checked.
Everything that follows from nodes and schedule is computed again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

from tg2hdl_ir import KernelIR
from tg2hdl_ir.analysis.accumulators import accumulator_ranges
from tg2hdl_ir.pipeline import canonicalize
from tg2hdl_lower.dataflow.binding import Binder
from tg2hdl_lower.dataflow.dataflow import Dataflow
from tg2hdl_lower.dataflow.leaf_builder import build_dataflow
from tg2hdl_lower.dataflow.replay import replay_loads
from tg2hdl_lower.memory.memories import Memories, element_ranges
from tg2hdl_lower.options import LowerOptions
from tg2hdl_lower.plan.accesses import Load, Replay, Store
from tg2hdl_lower.plan.hardware_plan import HardwarePlan
from tg2hdl_lower.plan.node import Node
from tg2hdl_lower.plan.operations import DesignProduct, Product, SharedOperation, SharedUnitOp, UnitOp
from tg2hdl_lower.plan.placement import Ready, StageRules
from tg2hdl_lower.plan.registers import AccumulatorLine, RegisterWrite
from tg2hdl_lower.schedule.accumulators import accumulators, with_delay_lines
from tg2hdl_lower.schedule.control_registers import control_registers
from tg2hdl_lower.schedule.dependences import loop_edges, memory_edges
from tg2hdl_lower.schedule.outcome import delay_lines, memory_ports, run_constant
from tg2hdl_lower.sharing.multipliers import (
    bind_constant_products,
    bind_products,
    bind_shared_units,
    bind_unit_products,
    bind_wide_products,
    product_slots,
    unit_slots,
)

__all__ = ["plan_faults"]


def plan_faults(plan: HardwarePlan, source: KernelIR, options: LowerOptions) -> Iterator[str]:
    """Ways in which a plan is not hardware of ``plan.kernel``; that kernel is not compared with its source.

    Parameters
    ----------
    plan : HardwarePlan
        The plan to check.
    source : KernelIR
        The kernel that was planned: ranges of registers follow from it.
    options : LowerOptions
        With which it was planned.

    Yields
    ------
    str
        Description of a fault, with the kernel's name; the rest is not checked after the first wrong part.
    """
    name = plan.kernel.name
    flow = _rebuilt(plan, source, options)
    if plan.variants or flow.nodes.keys() != plan.nodes.keys() or not _same_leaves(flow, plan):
        yield f"kernel {name} has other operations than its plan"
        return
    wrong = {*_other_operations(flow, plan)}
    flow = flow.with_nodes({n.number: n for n in plan.all(UnitOp, DesignProduct)})
    wanted = {r for r, made in plan.accumulators.items() if isinstance(made, AccumulatorLine)}
    ways = [with_delay_lines(flow, single=single) for single in (False, True)]
    flow, lines = next((way for way in ways if way[1].keys() == wanted), ways[0])
    wrong |= {n for n, node in flow.nodes.items() if not _same(node, plan.nodes[n])}
    if wrong:
        yield f"operation {min(wrong)} of kernel {name} is not that of its plan"
        return
    placed = plan.schedule.placements
    if placed.keys() != plan.nodes.keys() or plan.schedule.ii < 1:
        yield f"the schedule of kernel {name} places other operations"
        return
    late = {*_misplaced(plan), *_too_early(flow, plan, lines), *_conflicts(plan)}
    if late:
        yield f"operation {min(late)} of kernel {name} is scheduled when its operands or its hardware are not there"
        return
    for part, value in _derived(flow, plan, lines, options):
        if getattr(plan, part) != value:
            yield f"in the plan of kernel {name}, {part} does not follow from its operations"


def _rebuilt(plan: HardwarePlan, source: KernelIR, options: LowerOptions) -> Dataflow:
    """Nodes of the kernel of a plan, with the units that the plan has chosen where they compute the same."""
    ranges = accumulator_ranges(canonicalize(source), element_ranges(plan.storage))
    known = {
        r.idx: ranges[origin]
        for r in plan.kernel.registers
        if (origin := r.idx if r.origin is None else r.origin) in ranges
    }
    memories = Memories(plan.layouts, plan.storage, {}, options.family, options.timing.read_latency)
    flow = build_dataflow(plan.kernel, memories, known, Binder(options, plan.kernel.where))
    changed = {}
    for node in replay_loads(flow).all(UnitOp):
        unit, other = node.unit, getattr(plan.nodes.get(node.number), "unit", node.unit)
        same = (other.op, other.operands, other.result) == (unit.op, unit.operands, unit.result)
        if other is not unit and same and unit.golden is None and other.golden is None:
            changed[node.number] = replace(node, unit=other)
    return replay_loads(flow).with_nodes(changed)


def _same_leaves(flow: Dataflow, plan: HardwarePlan) -> bool:
    if len(flow.leaves) != len(plan.leaves):
        return False
    return all(
        (a.number, a.nodes, [*map(id, a.path)]) == (b.number, b.nodes, [*map(id, b.path)])
        for a, b in zip(flow.leaves, plan.leaves, strict=True)
    )


def _other_operations(flow: Dataflow, plan: HardwarePlan) -> Iterator[int]:
    """Operations of a plan that are on no hardware for them: the planner may share units and multipliers, or not."""
    latency = next((n.latency for n in plan.all(Product)), 1)
    names = {n.unit.name for n in flow.all(UnitOp)}
    ways = [
        flow,
        bind_products(flow, latency),
        bind_constant_products(flow),
        bind_wide_products(flow),
        bind_unit_products(flow, recurrent=True),
        bind_shared_units(flow, names),
    ]
    for number, node in plan.nodes.items():
        if isinstance(node, UnitOp | DesignProduct) and not any(
            _same(way.nodes[number], node) for way in ways
        ):
            yield number


def _same(one: Node, two: Node) -> bool:
    """Whether two nodes are the same operation."""
    return type(one) is type(two) and all(
        getattr(one, f.name) == getattr(two, f.name) for f in fields(one) if f.name != "levels"
    )


# Schedule


def _misplaced(plan: HardwarePlan) -> Iterator[int]:
    """Nodes whose result is not there when their latency says."""
    reads = {b: cycles + (b in plan.port_registers.reads) for b, cycles in plan.latencies.items()}
    rules = StageRules(1, 1, 0, reads, (), False, (), ())
    for number, node in plan.nodes.items():
        at = plan.placement(number)
        if node.place(Ready(at.issue, 0), rules)[:2] != at[:2] or at.issue < 0:
            yield number


def _too_early(flow: Dataflow, plan: HardwarePlan, lines: Mapping[int, int]) -> Iterator[int]:
    """Nodes that take their operands before these are there."""
    placed, ii = plan.schedule.placements, plan.ii
    for node in flow.live():
        at = placed[node.number]
        needed = at.stage if node.takes_operands_late else at.issue
        if isinstance(node, Replay):
            needed += node.steps * ii - 1
        if any(placed[n].stage > needed for n in node.operands if not flow.nodes[n].is_fixed):
            yield node.number
    for edge in (*loop_edges(flow, lines), *memory_edges(flow, plan.port_registers)):
        if placed[edge.after].issue + edge.distance * ii < placed[edge.before].issue + edge.gap:
            yield edge.after


def _conflicts(plan: HardwarePlan) -> Iterator[int]:
    """Nodes that use a port, unit or multiplier while another one does."""
    users: dict[tuple[Any, ...], Node] = {}
    for node in plan.nodes.values():
        at = plan.placement(node.number)
        if isinstance(node, UnitOp) and node.unit.ii > plan.ii:
            yield node.number
        if isinstance(node, Load | Store):
            resource: tuple[Any, ...] = (type(node), node.buffer, at.port)
        elif isinstance(node, SharedOperation):
            resource = (node.is_product, at.port)
        else:
            continue
        # Steps of different leaves are never in the same cycle of the same stage.
        other = users.setdefault((*resource, at.issue % plan.ii), node)
        if other is not node and (other.leaf == node.leaf or plan.placement(other.number).issue != at.issue):
            yield node.number
        if isinstance(node, SharedOperation) and _key(users.setdefault(resource, node)) != _key(node):
            yield node.number


def _key(node: Node) -> str:
    """The same for operations that one resource computes."""
    if isinstance(node, DesignProduct):
        return node.key
    assert isinstance(node, SharedUnitOp), "the other operation on shared hardware"
    return node.unit.name


def _derived(
    flow: Dataflow, plan: HardwarePlan, lines: Mapping[int, int], options: LowerOptions
) -> Iterator[tuple[str, Any]]:
    """Fields that follow from the nodes of a plan and their places."""
    found, ports = plan.schedule, plan.port_registers
    latency = next((n.latency for n in plan.all(Product)), options.timing.product_latency)
    ends = [
        found.placements[n.number].issue + (ports.delay(n) if isinstance(n, Store) else 0)
        for n in plan.all(Store, RegisterWrite)
    ]
    yield "depth", max(ends, default=0)
    yield "ports", memory_ports(flow, found)
    yield "products", product_slots(flow, found, latency)
    yield "shared_units", unit_slots(flow, found)
    yield "control_registers", control_registers(flow, found)
    yield "accumulators", accumulators(flow, found, dict(lines))
    yield "delay_lines", delay_lines(flow, found)
    yield "run_constant", run_constant(flow)
    yield "family", options.family.name
