"""The scheduler's result for a node, and the rules of placement."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["Placement", "Ready", "Schedule", "StageRules"]


class Placement(NamedTuple):
    """When and where a node is computed.

    Parameters
    ----------
    issue : int
        Cycles from the issue of the step until the node takes its operands.
    stage, level : int
        When the result is there: cycles after the issue of the step, and logic levels into that cycle.
    port : int
        Of a load or store, the port of its memory; of a shared operation, the slot of its resource.
    """

    issue: int = 0
    stage: int = 0
    level: int = 0
    port: int = 0


class Ready(NamedTuple):
    """When the last operand of a node is there; `after_logic` is an operation of that cycle."""

    stage: int
    level: int
    after_logic: bool = False


@dataclass(frozen=True)
class Schedule:
    """Initiation interval (cycles) and the placement of each node by number."""

    ii: int
    placements: Mapping[int, Placement]


@dataclass(frozen=True)
class StageRules:
    """Limits of one cycle.

    Parameters
    ----------
    levels, recurrence_levels : int
        Logic levels of a stage, outside of recurrences and in them.
    memory_level : int
        Level at which the data of a memory counts.
    read_latency : mapping of int to int
        Cycles from the issue of a load to its data, by buffer.
    multiplexed_reads : collection of int
        Buffers whose data comes from a multiplexer of blocks.
    registered_factors : bool
        Whether the factors of a multiplier must come straight from a register or a memory.
    recurrent, circular : collection of int
        Nodes of a recurrence through logic only, and of one through logic and units.
    chained : bool
        Whether one level of logic may precede a unit of a recurrence, without a register after it.
    """

    levels: int
    recurrence_levels: int
    memory_level: int
    read_latency: Mapping[int, int]
    multiplexed_reads: Collection[int]
    registered_factors: bool
    recurrent: Collection[int]
    circular: Collection[int]
    chained: bool = False
