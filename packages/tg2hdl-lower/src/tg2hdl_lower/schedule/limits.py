"""The recurrence that bounds an II: the value that the next step waits for, and the units that compute it."""

from __future__ import annotations

from collections.abc import Mapping

from tg2hdl_lower.dataflow.dataflow import Dataflow
from tg2hdl_lower.plan.accesses import Load, Store
from tg2hdl_lower.plan.hardware_plan import PortRegisters
from tg2hdl_lower.plan.node import Node
from tg2hdl_lower.plan.operations import Product, UnitOp
from tg2hdl_lower.plan.placement import Schedule
from tg2hdl_lower.plan.registers import RegisterRead, RegisterWrite
from tg2hdl_lower.schedule.dependences import Edge, loop_edges, memory_edges

__all__ = ["recurrence_limit"]


def recurrence_limit(
    flow: Dataflow,
    found: Schedule,
    lines: Mapping[int, int],
    registers: PortRegisters,
    *,
    strict: bool,
) -> str:
    """The recurrence that bounds the II of a schedule, in words: the edge, and the units on it with their latencies.

    Parameters
    ----------
    lines : mapping of int to int
        Registers that are delay lines, and their length in steps.
    strict : bool
        Whether float sums keep their order, so that another order would be a way out.
    """
    edges = loop_edges(flow, lines) + memory_edges(flow, registers)
    circles = [(edge, _path(flow, found, edge)) for edge in edges if edge.distance and _binds(found, edge)]
    if not circles:
        return "a step waits for a result of the one before"
    # A register, and of these the one with the most work between two steps.
    edge, path = max(circles, key=lambda c: (isinstance(flow.nodes[c[0].before], RegisterWrite), len(c[1])))
    before = flow.nodes[edge.before]
    named = [(node.unit.name, node.unit.latency) for node in path if isinstance(node, UnitOp)] + [
        ("a product", found.placements[node.number].stage - found.placements[node.number].issue)
        for node in path
        if isinstance(node, Product)
    ]
    parts = [f"{name} (latency {latency})" for name, latency in named]
    rest = found.placements[edge.before].issue + edge.gap - found.placements[edge.after].issue
    rest -= sum(latency for _, latency in named)
    if rest > 0:
        parts.append(
            f"{rest} cycle{'' if rest == 1 else 's'} of {'registers' if named else 'logic and registers'}"
        )
    text = f"the next step waits for {_value(before)}"
    text += f", through {' and '.join(parts)}" if parts else ""
    floats = any(isinstance(node, UnitOp) and node.op == "add" for node in path)
    return f'{text}; float_order="relaxed" may split the sum' if strict and floats else text


def _binds(found: Schedule, edge: Edge) -> bool:
    """Whether the edge would be violated with a smaller II."""
    after, before = found.placements[edge.after].issue, found.placements[edge.before].issue
    return before + edge.gap - edge.distance * (found.ii - 1) > after


def _value(node: Node) -> str:
    if isinstance(node, RegisterWrite):
        return f"r{node.register}"
    if isinstance(node, Store):
        return f"the word of buffer {node.buffer} that this step writes"
    if isinstance(node, Load):
        return f"a read of buffer {node.buffer}, whose word it overwrites"
    return f"%{node.number}" if not isinstance(node, RegisterRead) else f"the use of r{node.register}"


def _path(flow: Dataflow, found: Schedule, edge: Edge) -> list[Node]:
    """Nodes from the start of an edge's recurrence to its end, over the operands that are ready last."""
    reached = {edge.after}
    for node in flow.live():
        if not reached.isdisjoint(node.operands):
            reached.add(node.number)
    path, number = [], edge.before
    while number in reached:
        path.append(flow.nodes[number])
        if number == edge.after:
            break
        inside = [n for n in flow.nodes[number].operands if n in reached]
        if not inside:
            break
        number = max(inside, key=lambda n: found.placements[n].stage)
    return path[::-1]
