"""Ports of the memories, and the interval between two steps that ports and units require."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from tg2hdl_lower.dataflow.dataflow import Dataflow
from tg2hdl_lower.memory.demand import BufferDemand, PortInterval, port_interval
from tg2hdl_lower.plan.accesses import Load, Store
from tg2hdl_lower.plan.graph import NodeGraph
from tg2hdl_lower.plan.hardware_plan import PortRegisters
from tg2hdl_lower.plan.operations import UnitOp

__all__ = ["least_ii", "port_demands", "port_registers"]


def port_registers(flow: Dataflow, ports: Mapping[int, int]) -> PortRegisters:
    """Ports with more accesses than can have one for themselves, and those that reach very many block RAMs.

    Parameters
    ----------
    flow : Dataflow
    ports : mapping of int to int
        Read ports of each buffer.
    """
    loads = Counter(load.buffer for load in flow.all(Load))
    stores = Counter(store.buffer for store in flow.all(Store))
    return PortRegisters(
        frozenset(b for b, count in loads.items() if count > ports[b] or _is_wide(flow, b)),
        frozenset(b for b, count in stores.items() if count > 1),
    )


def _is_wide(flow: Dataflow, buffer: int) -> bool:
    """Whether a word is spread over so many block RAMs that its address comes from a register of its own."""
    use, figures = flow.memories.use(buffer), flow.memories.family.memory
    return use.words > figures.lut_words and use.width >= figures.wide_bits


def port_demands(flow: NodeGraph) -> list[tuple[int, BufferDemand]]:
    """The accesses of a step of each leaf to each buffer."""
    found: list[tuple[int, BufferDemand]] = []
    for leaf in flow.leaves:
        nodes = [flow.nodes[n] for n in leaf.nodes]
        reads = Counter(n.buffer for n in nodes if isinstance(n, Load))
        writes = Counter(n.buffer for n in nodes if isinstance(n, Store))
        found += [(b, BufferDemand(reads[b], writes[b])) for b in dict.fromkeys([*reads, *writes])]
    return found


def least_ii(flow: NodeGraph, ports: Mapping[int, int]) -> PortInterval:
    """Lower bound of the II from ports and units, and the reason for it.

    Parameters
    ----------
    flow : NodeGraph
    ports : mapping of int to int
        Read ports of each buffer.
    """
    found = port_interval(port_demands(flow), ports)
    for node in flow.all(UnitOp):
        if node.unit.ii > found.cycles:
            found = PortInterval(node.unit.ii, f"{node.unit.name} starts every {node.unit.ii} cycles")
    return found
