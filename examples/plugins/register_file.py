"""A kind of memory: flip-flops, with a port for every read."""

from __future__ import annotations

from typing import Any

from tg2hdl_ir import Area, FamilyDef, MemoryKindDef, hookimpl
from tg2hdl_lower import MemoryKind
from tg2hdl_lower.memory.kind import ArrayStyle, MemoryUse
from tg2hdl_lower.memory.ram import Ram


class RegisterFile(MemoryKind):
    """Small buffers that no kernel updates in place."""

    def suits(self, use: MemoryUse, family: FamilyDef) -> bool:
        return use.bits <= 256 and not use.role.in_place

    def read_ports(self, use: MemoryUse, family: FamilyDef) -> int:
        return 64

    def area(self, use: MemoryUse, family: FamilyDef, ports: int) -> Area:
        return Area(lut=ports * use.bits // 2, ff=use.bits)

    def extra_latency(self, use: MemoryUse, family: FamilyDef) -> int:
        return 1  # the register of the address

    def style(self, use: MemoryUse, ports: int) -> ArrayStyle:
        return ArrayStyle("logic", address_register=True)

    def build(self, m: Any, memory: Any) -> Ram:
        return Ram(m, memory)


@hookimpl
def tg2hdl_memory_kinds() -> list[MemoryKindDef]:
    """The highest priority among the kinds that suit a buffer wins; the built-in ones have 0 to 30."""
    return [MemoryKindDef("register-file", "flip-flops, for very small buffers", RegisterFile, priority=99)]
