"""Rings: memories of fewer words than their buffer, where each word is read before another takes its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tg2hdl_ir import FamilyDef
from tg2hdl_lower import MemoryPlan, kind_named
from tg2hdl_lower.memory.choose import with_ring
from tg2hdl_top.sequencer.access_times import AccessTimes

__all__ = ["ROUNDS", "KernelPair", "holds", "with_rings"]

ROUNDS = 3
"""Times that starts and rings are found, since each depends on the other."""


class KernelPair(NamedTuple):
    """Times of two kernels that run side by side, and the cycles from the start of one to that of the other."""

    first: AccessTimes
    second: AccessTimes
    distance: int


def with_rings(
    memories: Sequence[MemoryPlan], pairs: Mapping[int, KernelPair], family: FamilyDef
) -> list[MemoryPlan]:
    """The memories; those between the kernels of a pair have as few words as suffice.

    Parameters
    ----------
    memories : sequence of MemoryPlan
        None is a region of an array, unless no pair uses it.
    pairs : mapping of int to KernelPair
        By number of the second kernel; the first one is that before it.
    """
    return [_ring(memory, pairs, family) for memory in memories]


def _ring(memory: MemoryPlan, pairs: Mapping[int, KernelPair], family: FamilyDef) -> MemoryPlan:
    role, slots = memory.role, sorted(memory.slots)
    if (
        role.host_writes
        or role.host_reads
        or role.streamed
        or memory.contents is not None
        or memory.banks > 1
    ):
        return memory
    users = [
        (a, b) for a, b in zip(slots[::2], slots[1::2], strict=False) if b[0] in pairs and a[0] == b[0] - 1
    ]
    if not users or 2 * len(users) != len(slots):
        return memory
    words = 1
    while words < memory.layout.words:
        trial = with_ring(memory, words, family)
        if all(holds(trial, memory, pairs[b[0]], a[1], b[1]) for a, b in users):
            return trial
        words *= 2
    return with_ring(memory, 0, family) if memory.ring else memory


def holds(ring: MemoryPlan, memory: MemoryPlan, pair: KernelPair, written: int, read: int) -> bool:
    """Whether each word stays in a ring until it is read.

    Parameters
    ----------
    memory : MemoryPlan
        That for which the times were computed.
    written, read : int
        Buffer of the first and of the second kernel.
    """
    if written not in pair.first.writes or read not in pair.second.reads or read in pair.second.writes:
        return False
    (early, late), (known_early, known_late) = (
        kind_named(each.kind).sampled(each) for each in (ring, memory)
    )
    writes, reads = pair.first.writes[written], pair.second.reads[read]
    last = reads.last + pair.distance + late - known_late
    first = reads.first + pair.distance + early - known_early
    # A read in the cycle of a write gives the word before it.
    return bool((writes.first[ring.ring :] >= last[: -ring.ring]).all() and (writes.last < first).all())
