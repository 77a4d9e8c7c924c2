"""Ports of the memories, and the interval between two steps that ports and units ask for."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from tg2hdl_lower.dataflow.dataflow import Dataflow
from tg2hdl_lower.memory.kinds import SHALLOW_WORDS, WIDE_BITS
from tg2hdl_lower.plan.accesses import Load, Store
from tg2hdl_lower.plan.hardware_plan import PortRegisters
from tg2hdl_lower.plan.operations import UnitOp

__all__ = ["ReadPorts", "least_ii", "port_registers", "reason_for"]


@dataclass(frozen=True)
class ReadPorts:
    """Ports that may read a buffer in one cycle."""

    limit: dict[int, int]
    default: int = 2

    def of(self, buffer: int) -> int:
        """Number of ports of a buffer."""
        return self.limit.get(buffer, self.default)


def port_registers(flow: Dataflow, ports: ReadPorts) -> PortRegisters:
    """Ports with more accesses than can have one for themselves, and those that reach very many block RAMs."""
    loads = Counter(load.buffer for load in flow.all(Load))
    stores = Counter(store.buffer for store in flow.all(Store))
    return PortRegisters(
        frozenset(b for b, count in loads.items() if count > ports.of(b) or _is_wide(flow, b)),
        frozenset(b for b, count in stores.items() if count > 1),
    )


def _is_wide(flow: Dataflow, buffer: int) -> bool:
    """Whether a word is spread over so many block RAMs that its address comes from a register of its own."""
    layout = flow.memories.layouts[buffer]
    return (
        layout.words > SHALLOW_WORDS and layout.lanes * flow.memories.storage[buffer].bit_width >= WIDE_BITS
    )


def _demands(flow: Dataflow, ports: ReadPorts) -> list[tuple[int, str]]:
    """Cycles between two steps that units and ports ask for, and why."""
    found = [(n.unit.ii, f"{n.unit.name} starts every {n.unit.ii} cycles") for n in flow.all(UnitOp)]
    for leaf in flow.leaves:
        accesses = [n for n in (flow.nodes[n] for n in leaf.nodes) if isinstance(n, Load | Store)]
        counts = Counter((isinstance(n, Load), n.buffer) for n in accesses)
        for (reads, buffer), count in counts.items():
            limit, what = (ports.of(buffer), "reads") if reads else (1, "writes")
            found.append((-(-count // limit), f"{count} {what} of buffer {buffer}, which has {limit} ports"))
    return found


def least_ii(flow: Dataflow, ports: ReadPorts) -> int:
    """Lower bound of the II from ports and units."""
    return max((cycles for cycles, _ in _demands(flow, ports)), default=1)


def reason_for(flow: Dataflow, ports: ReadPorts, ii: int) -> str:
    """Why a schedule has this II, which is above 1."""
    causes = [why for cycles, why in _demands(flow, ports) if cycles == ii]
    return f"a step every {ii} cycles: " + (causes or ["a step waits for a result of the one before"])[0]
