"""A single word that is constant while a kernel reads it."""

from __future__ import annotations

from amaranth import Module
from amaranth.hdl import Value

from tg2hdl_ir import Area, FamilyDef
from tg2hdl_lower.memory.kind import ArrayStyle, BuiltMemory, MemoryKind
from tg2hdl_lower.memory.plan import MemoryPlan
from tg2hdl_lower.memory.ram import Ram
from tg2hdl_lower.memory.use import MemoryUse

__all__ = ["RunConstant"]


class RunConstant(MemoryKind):
    """A register or a constant: no kernel changes it, so that reading takes no registers."""

    def suits(self, use: MemoryUse, family: FamilyDef) -> bool:
        """Whether there is one word, which the host does not read and no kernel updates."""
        return use.words == 1 and not use.role.host_reads and not use.role.in_place

    def sampled(self, memory: MemoryPlan) -> tuple[int, int]:
        """When the word is used, since no register keeps it."""
        return memory.read_latency, memory.read_latency

    def area(self, use: MemoryUse, family: FamilyDef, ports: int) -> Area:
        """A flip-flop for each bit that something writes."""
        return Area(ff=use.width if use.role.written or use.role.host_writes else 0)

    def style(self, use: MemoryUse, ports: int) -> ArrayStyle:
        """Logic by attribute."""
        return ArrayStyle("logic")

    def build(self, m: Module, memory: MemoryPlan) -> BuiltMemory:
        """Add an array of one word."""
        return _Word(m, memory)


class _Word(Ram):
    def read(self, m: Module, number: int, address: Value) -> Value:
        """The word, without registers; of several regions or banks that of the run."""
        port = self.ram.read_port(domain="comb")
        if self.memory.depth > 1:
            m.d.comb += port.addr.eq(address)
        return port.data
