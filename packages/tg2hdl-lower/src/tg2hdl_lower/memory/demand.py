"""The cost of memory accesses: words that a step asks of a buffer, and the cycles that its ports take for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tg2hdl_ir import IRBufStore, IRRegStore, IRStatement, IRValue, LoopIR, is_const, operands

__all__ = ["BufferDemand", "PortInterval", "effective_statements", "needed_values", "port_interval"]


@dataclass(frozen=True)
class BufferDemand:
    """Words of a buffer that a step reads and writes."""

    reads: int
    writes: int

    def interval(self, ports: int) -> int:
        """Cycles of a step when the memory has so many read ports, and one for writes."""
        return max(-(-self.reads // ports), self.writes, 1)


class PortInterval(NamedTuple):
    """Cycles from step to step, and which accesses need more than one."""

    cycles: int
    limit: str


def port_interval(demands: Iterable[tuple[int, BufferDemand]], ports: Mapping[int, int]) -> PortInterval:
    """Interval that memory ports impose: from (buffer, demand) of all leaf loops, and the ports of each buffer.

    The lane planner estimates with this function, and the scheduler starts from it.

    Parameters
    ----------
    demands : iterable of (int, BufferDemand)
        Buffer and its demand in a step.
    ports : mapping of int to int
        Read ports of each buffer.
    """
    found = PortInterval(1, "")
    for buffer, demand in demands:
        cycles = demand.interval(ports[buffer])
        if cycles <= found.cycles:
            continue
        writes = demand.writes == cycles
        count, what = (demand.writes, "writes") if writes else (demand.reads, "reads")
        number = 1 if writes else ports[buffer]
        plural = "s" if number > 1 else ""
        found = PortInterval(cycles, f"{count} {what} of buffer {buffer}, which has {number} port{plural}")
    return found


def effective_statements(leaf: LoopIR) -> tuple[IRStatement, ...]:
    """Statements of a leaf without the stores whose gate is never true."""
    return tuple(
        s for s in leaf.statements() if not (isinstance(s, IRBufStore | IRRegStore) and is_const(s.gate, 0))
    )


def needed_values(statements: Iterable[IRStatement]) -> set[IRValue]:
    """Values that the stores of a leaf depend on; loads of others are not made."""
    seen: set[IRValue] = set()
    stack = [v for s in statements if isinstance(s, IRBufStore | IRRegStore) for v in operands(s)]
    while stack:
        value = stack.pop()
        if value not in seen:
            seen.add(value)
            stack.extend(operands(value))
    return seen
