"""LUT RAM, and ROM made of LUTs."""

from __future__ import annotations

from collections.abc import Sequence

from amaranth import Module

from tg2hdl_ir import Area, FamilyDef
from tg2hdl_lower.memory.kind import ArrayStyle, BuiltMemory, MemoryKind
from tg2hdl_lower.memory.plan import MemoryPlan
from tg2hdl_lower.memory.ram import Ram
from tg2hdl_lower.memory.use import MemoryUse

__all__ = ["LutRam", "luts_of_rom"]

_ROW = 16
"""Words that one LUT holds a bit of."""
_CHOSEN_ROWS = 8
"""Rows that dedicated multiplexers choose among."""
_TWO_PORTS = 2
"""Read ports up to which synthesis may choose block RAM for a memory that kernels write."""
_LOGIC_BITS = 2048
"""Bits above which synthesis would make a block RAM of a ROM."""
_MANY_PORTS = 8
"""Read ports above which Yosys' search among all kinds of RAM takes gigabytes."""


class LutRam(MemoryKind):
    """Small memories: reading takes most of a cycle, so the first register holds the address."""

    def suits(self, use: MemoryUse, family: FamilyDef) -> bool:
        """Any memory, where no other kind is better."""
        return True

    def sampled(self, memory: MemoryPlan) -> tuple[int, int]:
        """In the cycle of the address, or in the next one where a register keeps the address."""
        cycle = int(memory.style.address_register)
        return cycle, cycle

    def area(self, use: MemoryUse, family: FamilyDef, ports: int) -> Area:
        """A LUT for each bit of a row, twice that where it is written."""
        rows = -(-use.words // _ROW)
        written = use.role.written or use.role.host_writes
        return Area(lut=max(1, ports) * rows * use.width * (2 if written else 1), ff=ports * use.width)

    def style(self, use: MemoryUse, ports: int) -> ArrayStyle:
        """LUT RAM by attribute where it is written and synthesis might choose otherwise."""
        small = use.role.written and (use.words <= _ROW or ports > _TWO_PORTS)
        many = use.role.host_writes and ports > _MANY_PORTS
        address_register = not use.role.in_place and use.latency > 1
        if use.role.is_rom and use.bits > _LOGIC_BITS:
            return ArrayStyle("logic", address_register)
        return ArrayStyle("distributed" if small or many else "", address_register)

    def build(self, m: Module, memory: MemoryPlan) -> BuiltMemory:
        """Add an array."""
        return Ram(m, memory)


def luts_of_rom(words: Sequence[int], width: int) -> int:
    """LUTs of a read port of a ROM with these words: equal bits are made once, and bits that never change not at all.

    The multiplexers behind the LUTs take none up to 128 words.

    Parameters
    ----------
    words : sequence of int
        Contents.
    width : int
        Bits of a word.
    """
    columns = {tuple(word >> bit & 1 for word in words) for bit in range(width)}
    rows = -(-len(words) // _ROW)
    return (rows + (rows - 1) // _CHOSEN_ROWS) * sum(len(set(column)) > 1 for column in columns)
