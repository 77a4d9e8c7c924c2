"""How many steps, products, operations and words a run has in each part of its cycles: exact counts from the plans."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tg2hdl.macs import takes_multiplier
from tg2hdl_ir import IRBufStore, IRCounter, IRValue, LoopIR, values_below
from tg2hdl_ir.passes.elements import evaluated
from tg2hdl_ir.passes.leaves import leaf_paths
from tg2hdl_lower import HardwarePlan
from tg2hdl_lower.plan.accesses import Load, Store
from tg2hdl_lower.plan.graph import loop_steps
from tg2hdl_lower.plan.operations import DesignProduct, UnitOp
from tg2hdl_top.sequencer.base import Timeline

if TYPE_CHECKING:
    from tg2hdl.compiled_model import CompiledModel

__all__ = [
    "Events",
    "Resource",
    "events_of",
    "heat",
    "kernel_events",
    "resources",
]

BINS = 160
"""Columns of a heat map."""


class Events(NamedTuple):
    """Events of a kernel in each step of a leaf loop: `each` of them, `offset` cycles after the step starts."""

    leaf: int
    offset: int
    each: float


@dataclass
class Resource:
    """A resource of which a design has `capacity` in each cycle, and the share of it that is used.

    Parameters
    ----------
    name : str
    kind : {"steps", "multipliers", "unit", "read", "write"}
    capacity : int
        Most events in a cycle.
    events : list
        Number of the kernel, and its events.
    """

    name: str
    kind: str
    capacity: int
    events: list[tuple[int, Events]] = field(default_factory=list)


def resources(accelerator: CompiledModel) -> list[Resource]:
    """Steps, multipliers, arithmetic units and memory ports of a design, with their users."""
    design, program = accelerator.design, accelerator.design.program
    found: dict[tuple[str, str], Resource] = {}
    units = _unit_counts(accelerator)
    ports = {entry.name: entry.read_ports for entry in accelerator.memory}
    each = [plan.multipliers for plan in design.kernels]
    most = max(each, default=0) if design.sharing.multipliers else sum(each)
    for number, (plan, call) in enumerate(zip(design.kernels, program.calls, strict=True)):
        buffers = {
            str(meta.idx): program.buffers[n].name
            for meta, n in zip(call.kernel.buffers, call.buffers, strict=True)
        }
        variables = {**accelerator.captured.var_vals, **dict(call.values)}
        for (kind, what), events in kernel_events(plan, variables):
            name = buffers.get(what, what) if kind in ("read", "write") else what
            if kind in ("read", "write") and name not in ports:
                continue
            capacity = {"steps": 1, "multipliers": most, "unit": units.get(name, 1), "write": 1}
            many = capacity[kind] if kind in capacity else max(ports[name], 1)
            resource = found.setdefault((kind, name), Resource(name, kind, many))
            resource.events.append((number, events))
    order = ["steps", "multipliers", "unit", "read", "write"]
    return sorted(found.values(), key=lambda r: order.index(r.kind))


def kernel_events(
    plan: HardwarePlan, variables: Mapping[str, int]
) -> Iterator[tuple[tuple[str, str], Events]]:
    """By kind and name, or slot of the buffer: the events of a kernel.

    Parameters
    ----------
    plan : HardwarePlan
    variables : mapping of str to int
        Values of run-time variables by name.
    """
    counts: dict[tuple[str, str, int, int], float] = {}
    for number, leaf in enumerate(plan.leaves):
        counts["steps", "steps", number, 0] = 1
        for node in (plan.nodes[n] for n in leaf.nodes):
            offset, rate = plan.placement(node.number).issue, 1.0
            if takes_multiplier(node, plan):
                key = ("multipliers", "multipliers")
            elif isinstance(node, UnitOp):
                key = ("unit", node.unit.name)
            elif isinstance(node, Load) and node.number not in plan.run_constant:
                key = ("read", str(node.buffer))
            elif isinstance(node, Store):
                key, rate = ("write", str(node.buffer)), _share_of_steps(plan, number, node.buffer, variables)
            else:
                continue
            where = (*key, number, offset)
            counts[where] = counts.get(where, 0) + rate
    for (kind, name, leaf_number, offset), count in counts.items():
        yield (kind, name), Events(leaf_number, offset, count)


def events_of(
    plan: HardwarePlan, events: Events, start: int, edges: np.ndarray, variables: Mapping[str, int]
) -> np.ndarray:
    """Events before each of the cycles `edges`, of a kernel that starts in the cycle `start`.

    Parameters
    ----------
    plan : HardwarePlan
    events : Events
    start : int
        Cycle in which the kernel starts.
    edges : ndarray
        Cycles, ascending.
    variables : mapping of str to int
        Values of run-time variables by name.
    """
    # The first step starts in the cycle after the start pulse, which the first column shows.
    steps = np.clip(-(-(edges - start - events.offset) // plan.ii), 0, plan.steps(dict(variables)))
    paths = list(leaf_paths(plan.kernel.loop_tree))
    return _steps_of(plan.kernel.loop_tree, paths[events.leaf][-1], steps, variables) * events.each


def heat(
    accelerator: CompiledModel,
    found: Sequence[Resource],
    bins: int = BINS,
    window: tuple[int, int] | None = None,
    timeline: Timeline | None = None,
) -> list[dict[str, Any]]:
    """Rows of a heat map: the share of each resource that is used, from 0 to 1, by column.

    Parameters
    ----------
    accelerator : CompiledModel
    found : sequence of Resource
    bins : int
        Most columns.
    window : (int, int), optional
        The first cycle and the one after the last; the whole run unless given.
    timeline : Timeline, optional
        Of the design, if it is known.
    """
    design, variables = accelerator.design, accelerator.captured.var_vals
    timeline = timeline or design.timeline(variables)
    first, last = window or (0, timeline.latency)
    edges = np.unique(np.linspace(first, last, min(bins, last - first) + 1).astype(np.int64))
    rows = []
    for resource in found:
        before = sum(
            events_of(design.kernels[n], events, timeline.starts[n], edges, variables)
            for n, events in resource.events
        )
        used = np.diff(np.asarray(before, np.float64))
        rates = used / np.diff(edges)
        # Kernels that overlap have steps, and products of different kinds, in the same cycle.
        capacity = max(resource.capacity, math.ceil(round(float(rates.max(initial=0)), 6)))
        rows.append(
            {
                "name": resource.name,
                "kind": resource.kind,
                "capacity": capacity,
                "events": round(float(used.sum())),
                "used": [round(float(x), 3) for x in rates / capacity],
            }
        )
    return rows


def _unit_counts(accelerator: CompiledModel) -> dict[str, int]:
    """Arithmetic units of the design by name."""
    each = []
    for plan in accelerator.design.core_plans:
        counts: dict[str, int] = {}
        for node in plan.all(UnitOp):
            if not isinstance(node, DesignProduct):
                counts[node.unit.name] = counts.get(node.unit.name, 0) + 1
        each.append(counts)
    many = max if accelerator.options.share_units else sum
    return {name: many(c.get(name, 0) for c in each) for counts in each for name in counts}


def _steps_of(loop: LoopIR, leaf: LoopIR, steps: np.ndarray, variables: Mapping[str, int]) -> np.ndarray:
    """Steps of a leaf loop among the first `steps` steps of the loop around it."""
    if not loop.loops:
        return steps if loop is leaf else np.zeros_like(steps)
    sizes = [loop_steps(child, variables) for child in loop.loops]
    whole, rest = np.divmod(steps, max(1, sum(sizes)))
    total = np.zeros_like(steps)
    for child, size in zip(loop.loops, sizes, strict=True):
        all_of_it = _steps_of(child, leaf, np.asarray(size), variables)
        total = total + whole * all_of_it + _steps_of(child, leaf, np.clip(rest, 0, size), variables)
        rest = np.maximum(rest - size, 0)
    return total


def _share_of_steps(plan: HardwarePlan, leaf: int, buffer: int, variables: Mapping[str, int]) -> float:
    """Share of the steps of a leaf in which a buffer is written."""
    path = list(leaf_paths(plan.kernel.loop_tree))[leaf]
    stores = [s for s in path[-1].statements() if isinstance(s, IRBufStore) and s.buf_idx == buffer]
    gates = list(dict.fromkeys(s.gate for s in stores))
    if not gates or None in gates:
        return 1.0
    conditions = [gate for gate in gates if gate is not None]
    # Conditions on different counters are independent; the same counters are evaluated together.
    if len({_counters(gate) for gate in conditions}) == 1:
        found = evaluated(conditions, variables)
        return 1.0 if found is None else float(np.logical_or.reduce(found).mean())
    shares = [evaluated([gate], variables) for gate in conditions]
    return 1 - math.prod(1 - (1.0 if s is None else float(s[0].mean())) for s in shares)


def _counters(value: IRValue) -> frozenset[IRCounter]:
    return frozenset(v for v in values_below((value,)) if isinstance(v, IRCounter))
