"""LUT RAM, and ROM made of LUTs."""

from __future__ import annotations

from amaranth import Module

from tg2hdl_ir.plugins.descriptors import Area, FamilyDef
from tg2hdl_lower.memory.kind import MemoryKind
from tg2hdl_lower.memory.plan import MemoryPlan
from tg2hdl_lower.memory.ram import Ram
from tg2hdl_lower.memory.use import MemoryUse

__all__ = ["LutRam"]

_ROW = 16
"""Words that one LUT holds a bit of."""
_TWO_PORTS = 2
"""Read ports up to which synthesis may choose block RAM; with more it tries all combinations, until out of memory."""


class LutRam(MemoryKind):
    """Small memories: reading takes most of a cycle, so the first register holds the address."""

    def suits(self, use: MemoryUse, family: FamilyDef) -> bool:
        """Any memory, where no other kind is better."""
        return True

    def sampled(self, memory: MemoryPlan) -> tuple[int, int]:
        """In the cycle of the address, or in the next one where a register keeps the address."""
        cycle = int(_has_address_register(memory))
        return cycle, cycle

    def area(self, use: MemoryUse, family: FamilyDef, ports: int) -> Area:
        """A LUT for each bit of a row, twice that where it is written."""
        rows = -(-use.words // _ROW)
        written = use.role.written or use.role.host_writes
        return Area(lut=max(1, ports) * rows * use.width * (2 if written else 1), ff=ports * use.width)

    def build(self, m: Module, memory: MemoryPlan) -> Ram:
        """Add an array; the attribute asks for LUT RAM where kernels write it and synthesis might choose otherwise."""
        role = memory.role
        shallow = memory.layout.words <= _ROW or len(memory.ports) > _TWO_PORTS
        style = "distributed" if role.written and shallow else ""
        return Ram(m, memory, style, address_register=_has_address_register(memory))


def _has_address_register(memory: MemoryPlan) -> bool:
    return not memory.role.in_place and memory.read_latency > 1
