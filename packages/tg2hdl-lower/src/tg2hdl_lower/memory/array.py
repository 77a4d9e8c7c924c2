"""Buffers in one memory, each in a region of it; regions whose contents are never needed together may overlap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from math import gcd
from operator import add

import numpy as np

from tg2hdl_ir import DType, FamilyDef, InputError
from tg2hdl_lower.memory.choose import with_kind
from tg2hdl_lower.memory.kind import choose_kind, kind_named
from tg2hdl_lower.memory.layout import Layout
from tg2hdl_lower.memory.plan import MemoryPlan, Slot
from tg2hdl_lower.memory.use import MemoryRole, MemoryUse, region_words

__all__ = ["RING", "MemoryArray", "array_words", "joined_array", "plan_array", "union_of_roles"]

RING = 2
"""Regions of an array whose members are streamed: one that is used, and one that arrives."""

_STRIDES = 8
"""Least strides of the smallest region where regions follow each other: fewer bits to add, and little is lost."""

_READ_ONLY_LANE = 32
"""Bits that the width of a lane divides if nothing writes the memory."""


@dataclass(frozen=True, eq=False)
class MemoryArray:
    """An array of regions.

    Parameters
    ----------
    members : tuple of str
        Names of the memories that are its regions, in order.  Streamed ones are used in this order, and take turns in
        `RING` regions.
    stride : int
        Words of the smallest region, rounded up to a power of two.
    memory : MemoryPlan
        The array itself.
    bases : tuple of int
        Where each region begins, in strides: a multiple of its own words, rounded up to a power of two, so that the
        address in the region has zeros where the base has ones.
    adds : bool
        Whether regions begin at any stride instead, without gaps, so that the base is added to the address.
    """

    members: tuple[str, ...]
    stride: int
    memory: MemoryPlan
    bases: tuple[int, ...]
    adds: bool = False

    def region(self, name: str) -> int:
        """Where a member begins, in strides."""
        return self.bases[self.members.index(name)]

    def format(self) -> str:
        """One line."""
        memory = self.memory
        members = ", ".join(self.members)
        if memory.role.streamed:
            members = f"{self.members[0]} to {self.members[-1]} ({len(self.members)} tiles) in turn"
        places = f"every {self.stride} words"
        if self.bases != tuple(range(len(self.bases))) and not memory.role.streamed:
            places = f"at words {', '.join(str(base * self.stride) for base in self.bases)}"
        return (
            f"{memory.name}: {members} {places}; {memory.kind}, "
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
        is_state=any(r.is_state for r in roles),
        streamed=streamed,
    )


def plan_array(name: str, regions: Sequence[MemoryPlan], family: FamilyDef) -> MemoryArray:
    """The array of memories that were planned as its regions.

    Parameters
    ----------
    name : str
        Of the array.
    regions : sequence of MemoryPlan
        In the order of their numbers.
    family : FamilyDef

    Raises
    ------
    InputError
        When they have other latencies than the array.
    """
    first, sizes = regions[0], [memory.layout.words for memory in regions]
    stride = min(region_words(memory.layout) for memory in regions)
    role = union_of_roles([memory.role for memory in regions])
    lanes = first.layout.lanes
    bases = [n % RING * stride for n in range(len(regions))] if role.streamed else _places(sizes)
    words = RING * stride if role.streamed else max(map(add, bases, sizes))
    close = _close_places(sizes, MemoryUse(words, first.word_width, role, first.read_latency), family)
    adds = close is not None
    if close is not None:
        stride, bases = close
        words = max(map(add, bases, sizes))
    contents = None
    if not role.streamed and any(memory.contents is not None for memory in regions):
        packed = np.zeros((words, lanes), np.uint64)
        for base, size, memory in zip(bases, sizes, regions, strict=True):
            if memory.contents is not None:
                packed[base : base + size] = memory.layout.pack(memory.contents, memory.dtype)
        contents = first.dtype.bits_to_array(packed.reshape(-1))
    use = MemoryUse(words, first.word_width, role, first.read_latency)
    chosen = first.kind if len(set(sizes)) == 1 else choose_kind(use, family)
    latencies = {memory.read_latency for memory in regions}
    names = ", ".join(memory.name for memory in regions)
    if len(latencies) > 1 or (chosen != first.kind and kind_named(chosen).extra_latency(use, family)):
        raise InputError(
            f"an array of {names} has another latency than they were planned for",
            hint="plan the kernels of a design together with compile_program",
        )
    array = replace(
        first,
        name=name,
        layout=Layout((words, lanes), (1, lanes)),
        slots=tuple(slot for memory in regions for slot in memory.slots),
        role=role,
        ports=tuple(sorted({port for memory in regions for port in memory.ports})),
        contents=contents,
    )
    places = tuple(base // stride for base in bases)
    members = tuple(memory.name for memory in regions)
    return MemoryArray(members, stride, with_kind(array, chosen, family), places, adds)


def joined_array(
    name: str,
    members: Sequence[MemoryPlan],
    bases: Sequence[int],
    ports: int,
    routes: tuple[tuple[Slot, int, int], ...],
    family: FamilyDef,
    *,
    adds: bool,
) -> MemoryArray:
    """The memory that buffers share, whose words may have other widths, from where each begins (words).

    A narrower element of a buffer that is written takes the lower bits of a lane; a narrower word of one that is only
    read takes the lower bits of a word.

    Parameters
    ----------
    ports : int
        Read ports.
    routes : tuple of (slot, int, int)
        As in `MemoryPlan`.
    """
    role = replace(union_of_roles([member.role for member in members]), regions=1)
    words = max(base + member.layout.words for base, member in zip(bases, members, strict=True))
    widest = max(members, key=lambda m: m.dtype.bit_width)
    dtype, lanes, contents = widest.dtype, max(m.layout.lanes for m in members), None
    if role.is_rom:
        width = max(member.word_width for member in members)
        dtype = DType.from_width(gcd(_READ_ONLY_LANE, *(member.word_width for member in members)), False)
        lanes = width // dtype.bit_width
        packed, taken = np.zeros((words, lanes), np.uint64), np.zeros(words, np.int64)
        for base, member in zip(bases, members, strict=True):
            taken[base : base + member.layout.words] += 1
            for number, word in enumerate(member.words()):
                packed[base + number] = _lanes_of(word, lanes, dtype.bit_width)
        assert taken.max() == 1, "each word of a ROM belongs to one buffer"
        contents = dtype.bits_to_array(packed.reshape(-1))
    stride = min(_power(member.layout.words) for member in members)
    if adds and any(bases):
        stride = gcd(*bases) & -gcd(*bases)
    memory = replace(
        members[0],
        name=name,
        dtype=dtype,
        layout=Layout((words, lanes), (1, lanes)),
        slots=tuple(sorted({slot for member in members for slot in member.slots})),
        role=role,
        ports=tuple(range(ports)),
        contents=contents,
        routes=routes,
    )
    places = tuple(base // stride for base in bases)
    made = with_kind(memory, memory.kind, family)
    return MemoryArray(tuple(member.name for member in members), stride, made, places, adds)


def _lanes_of(word: int, lanes: int, width: int) -> list[int]:
    mask = (1 << width) - 1
    return [word >> (n * width) & mask for n in range(lanes)]


def _power(words: int) -> int:
    return 1 << (words - 1).bit_length()


def array_words(sizes: Sequence[int]) -> int:
    """Words of an array of regions with so many words, wherever they begin."""
    return max(base + size for base, size in zip(_places(sizes), sizes, strict=True))


def _close_places(sizes: Sequence[int], use: MemoryUse, family: FamilyDef) -> tuple[int, list[int]] | None:
    """Stride and first words of regions without gaps, where this spares a block of a read-only memory."""
    stride = 1 << (max(1, min(sizes) // _STRIDES).bit_length() - 1)
    spaces = [-(-size // stride) * stride for size in sizes]
    bases = [0, *accumulate(spaces[:-1])]
    spared = replace(use, words=use.words - bases[-1] - sizes[-1])
    kind = choose_kind(use, family)
    if not use.role.is_rom or spared.bits < family.memory.block_bits or kind != "block":
        return None
    return stride, bases


def _places(sizes: Sequence[int]) -> list[int]:
    """First words of regions with so many words: the largest one first, each in the first gap for it."""
    placed: dict[int, int] = {}
    for number in sorted(range(len(sizes)), key=lambda n: -sizes[n]):
        words, base = sizes[number], 0
        while any(base < at + sizes[n] and at < base + words for n, at in placed.items()):
            base += 1 << (words - 1).bit_length()
        placed[number] = base
    return [placed[n] for n in range(len(sizes))]
