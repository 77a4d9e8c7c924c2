"""Buffers of one layout in one array; a run of a kernel uses one of them, a region."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tg2hdl_ir.plugins.descriptors import FamilyDef
from tg2hdl_lower.memory.kind import kind_named
from tg2hdl_lower.memory.layout import Layout
from tg2hdl_lower.memory.plan import MemoryPlan
from tg2hdl_lower.memory.use import MemoryRole, MemoryUse, region_words

__all__ = ["RING", "MemoryArray", "plan_array", "union_of_roles"]

RING = 2
"""Regions of an array whose members are streamed: one that is used, and one that arrives."""


@dataclass(frozen=True, eq=False)
class MemoryArray:
    """An array of regions.

    Parameters
    ----------
    members : tuple of str
        Names of the memories that are its regions, in order; region N begins at word ``N * stride``.  Streamed ones
        are used in this order, and take turns in `RING` regions.
    stride : int
        Words from one region to the next, a power of two.
    memory : MemoryPlan
        The array itself.
    """

    members: tuple[str, ...]
    stride: int
    memory: MemoryPlan

    def region(self, name: str) -> int:
        """Region of a member."""
        number = self.members.index(name)
        return number % RING if self.memory.role.streamed else number

    def format(self) -> str:
        """One line."""
        memory = self.memory
        members = ", ".join(self.members)
        if memory.role.streamed:
            members = f"{self.members[0]} to {self.members[-1]} ({len(self.members)} tiles) in turn"
        return (
            f"{memory.name}: {members} every {self.stride} words; {memory.kind}, "
            f"{memory.layout.words} words of {memory.word_width} bits, {len(memory.ports)} read ports, {memory.style}"
        )


def union_of_roles(roles: Sequence[MemoryRole]) -> MemoryRole:
    """Role of an array of regions with these roles."""
    streamed = any(r.streamed for r in roles)
    return MemoryRole(
        written=any(r.written for r in roles),
        in_place=any(r.in_place for r in roles),
        host_writes=any(r.host_writes for r in roles),
        host_reads=any(r.host_reads for r in roles),
        regions=RING if streamed else len(roles),
        streamed=streamed,
    )


def plan_array(name: str, regions: Sequence[MemoryPlan], family: FamilyDef) -> MemoryArray:
    """The array of memories that were planned as its regions."""
    first, stride = regions[0], region_words(regions[0].layout)
    role = union_of_roles([memory.role for memory in regions])
    lanes = first.layout.lanes
    layout = Layout((role.regions * stride, lanes), (1, lanes))
    contents = None
    if not role.streamed and any(memory.contents is not None for memory in regions):
        words = np.zeros((len(regions), stride, lanes), np.uint64)
        for n, memory in enumerate(regions):
            if memory.contents is not None:
                words[n, : memory.layout.words] = memory.layout.pack(memory.contents, memory.dtype)
        contents = first.dtype.bits_to_array(words.reshape(-1))
    ports = tuple(sorted({port for memory in regions for port in memory.ports}))
    use = MemoryUse.of(first.layout, first.dtype.bit_width, role, first.read_latency)
    kind = kind_named(first.kind)
    array = replace(
        first,
        name=name,
        layout=layout,
        slots=tuple(slot for memory in regions for slot in memory.slots),
        role=role,
        ports=ports,
        bank_words=kind.bank_words(use, family),
        area=kind.area(use, family, len(ports)),
        style=kind.style(use, len(ports)),
        contents=contents,
    )
    return MemoryArray(tuple(memory.name for memory in regions), stride, array)
