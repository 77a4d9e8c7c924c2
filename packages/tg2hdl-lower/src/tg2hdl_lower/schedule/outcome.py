"""Results of a schedule: memory ports, lengths of delay lines, and values that are constant during a run."""

from __future__ import annotations

from tg2hdl_lower.dataflow.dataflow import Dataflow
from tg2hdl_lower.plan.accesses import FixedLane, Load, Replay, Store
from tg2hdl_lower.plan.delay_line import DelayLine
from tg2hdl_lower.plan.hardware_plan import BufferPort
from tg2hdl_lower.plan.placement import Schedule

__all__ = ["delay_lines", "memory_ports", "run_constant"]


def memory_ports(flow: Dataflow, schedule: Schedule) -> tuple[BufferPort, ...]:
    """Ports that the loads and stores use, by buffer, number and direction.

    Parameters
    ----------
    flow : Dataflow
        Nodes of a kernel.
    schedule : Schedule
        Their placement, with the port of each access.
    """
    memories = flow.memories
    keys = {
        (n.buffer, schedule.placements[n.number].port, isinstance(n, Load)) for n in flow.all(Load, Store)
    }
    return tuple(
        BufferPort(b, port, reads, memories.storage[b], memories.layouts[b])
        for b, port, reads in sorted(keys)
    )


def delay_lines(flow: Dataflow, schedule: Schedule) -> dict[int, DelayLine]:
    """Delay lines of all replayed words.

    Parameters
    ----------
    flow : Dataflow
        Nodes of a kernel.
    schedule : Schedule
        Their placement; its II is the distance of two steps in cycles.
    """
    found: dict[int, DelayLine] = {}
    for node in flow.all(Replay):
        stages = (schedule.placements[n].stage for n in (node.number, node.source))
        later, earlier = stages
        layout = flow.memories.layouts[_buffer(flow, node)]
        width = layout.lanes * flow.memories.storage[_buffer(flow, node)].bit_width
        found[node.number] = DelayLine.of(node.steps * schedule.ii + later - earlier, width)
    return found


def _buffer(flow: Dataflow, node: Replay) -> int:
    """Buffer of the word that a node replays."""
    source = flow.nodes[node.source]
    if isinstance(source, Replay):
        return _buffer(flow, source)
    assert isinstance(source, Load), "only loads are replayed"
    return source.buffer


def run_constant(flow: Dataflow) -> frozenset[int]:
    """Nodes that are constant during a run: the only word of a buffer that the kernel does not write, and its lanes."""
    memories, kernel = flow.memories, flow.kernel
    fixed = {n.number for n in flow.nodes.values() if n.is_fixed}
    fixed |= {
        n.number
        for n in flow.all(Load)
        if memories.layouts[n.buffer].words == 1 and not kernel.buffer(n.buffer).is_output
    }
    return frozenset(fixed | {n.number for n in flow.all(FixedLane) if n.word in fixed})
