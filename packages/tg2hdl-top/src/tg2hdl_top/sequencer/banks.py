"""Banks of memories for runs that overlap: each run uses the next one, so that it overwrites nothing that is needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tg2hdl_lower import MemoryPlan
from tg2hdl_top.sequencer.access_times import NEVER, AccessTimes

__all__ = ["least_banks", "why_one_run", "with_banks"]

HOST_WRITE = 2
"""Cycles from a word at a host port to the memory."""
HOST_READ = 2
"""Cycles from an address at a host port until the memory takes the word."""


def why_one_run(times: Sequence[AccessTimes], memories: Sequence[MemoryPlan]) -> str:
    """Why a run may read results of the run before; empty where it does not.

    Parameters
    ----------
    times : sequence of AccessTimes
        Accesses of each kernel.
    memories : sequence of MemoryPlan
    """
    for memory in memories:
        written = np.zeros(memory.layout.words, dtype=bool)
        users = sorted(memory.slots)
        if not any(buffer in times[kernel].writes for kernel, buffer in users):
            continue
        if memory.role.host_writes or memory.contents is not None:
            return f"{memory.name} keeps its contents from run to run"
        for kernel, buffer in users:
            found = times[kernel]
            if buffer in found.reads and (~written & (found.reads[buffer].first < NEVER)).any():
                return f"{memory.name} is read before it is written"
            if buffer in found.writes:
                written |= found.writes[buffer].first < NEVER
        if memory.role.host_reads and not written.all():
            return f"a run does not write all of {memory.name}"
    return ""


def with_banks(
    times: Sequence[AccessTimes],
    starts: Sequence[int],
    memories: Sequence[MemoryPlan],
    interval: int,
    latency: int,
) -> list[MemoryPlan]:
    """The memories with as many banks as runs need that start `interval` cycles apart.

    Parameters
    ----------
    times : sequence of AccessTimes
        Accesses of each kernel.
    starts : sequence of int
        Of each kernel, in cycles after that of the run.
    memories : sequence of MemoryPlan
    interval : int
        Cycles from one run to the next.
    latency : int
        Cycles of a run.
    """
    return [
        replace(memory, banks=_power_of_two(least_banks(times, starts, memory, interval, latency)))
        for memory in memories
    ]


def _power_of_two(count: int) -> int:
    return 1 << (count - 1).bit_length()


def least_banks(
    times: Sequence[AccessTimes], starts: Sequence[int], memory: MemoryPlan, interval: int, latency: int
) -> int:
    """Banks of a memory that runs need which start `interval` cycles apart.

    Parameters
    ----------
    times : sequence of AccessTimes
        Accesses of each kernel.
    starts : sequence of int
        Of each kernel, in cycles after that of the run.
    memory : MemoryPlan
    interval : int
        Cycles from one run to the next.
    latency : int
        Cycles of a run.
    """
    reads = [(starts[k], times[k].reads[b]) for k, b in memory.slots if b in times[k].reads]
    writes = [(starts[k], times[k].writes[b]) for k, b in memory.slots if b in times[k].writes]
    if not writes:
        # The host writes the next input as soon as a run has started; weights only while there is none.
        if not memory.role.host_writes or memory.role.is_weight:
            return 1
        last = max((start + int(found.last.max()) for start, found in reads), default=0)
        return 1 + max(1, -(-max(last - HOST_WRITE + 1, 1) // interval))
    needed = 1
    for start, earlier in [*reads, *((s + 1, w) for s, w in writes)]:
        for other, later in writes:
            gap = start - other + int((earlier.last - later.first).max())
            needed = max(needed, -(-gap // interval))
    if memory.role.host_reads:
        # The host may read a result until the next one is there.
        first = min(start + int(found.first.min()) for start, found in writes)
        needed = max(needed, 1 + -(-max(latency + HOST_READ + 1 - first, 1) // interval))
    return needed
