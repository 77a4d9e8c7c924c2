"""Block RAM."""

from __future__ import annotations

from amaranth import Module

from tg2hdl_ir.plugins.descriptors import Area, FamilyDef
from tg2hdl_lower.memory.blocks import block_rams
from tg2hdl_lower.memory.kind import ArrayStyle, BuiltMemory, MemoryKind
from tg2hdl_lower.memory.plan import MemoryPlan
from tg2hdl_lower.memory.ram import Ram
from tg2hdl_lower.memory.use import MemoryUse

__all__ = ["BlockRam"]


class BlockRam(MemoryKind):
    """One array in block RAM; deeper than a block, a register follows the multiplexer of the blocks."""

    def suits(self, use: MemoryUse, family: FamilyDef) -> bool:
        """Whether the memory is too large for LUT RAM."""
        return use.bits > family.memory.lut_bits and use.words > family.memory.lut_words

    def extra_latency(self, use: MemoryUse, family: FamilyDef) -> int:
        """A register for the multiplexer of the blocks."""
        return int(use.words > family.memory.block_words)

    def sampled(self, memory: MemoryPlan) -> tuple[int, int]:
        """In the cycle of the address."""
        return 0, 0

    def area(self, use: MemoryUse, family: FamilyDef, ports: int) -> Area:
        """Blocks of all arrays."""
        size, role = self.bank_words(use, family), use.role
        written = role.written or role.host_writes or role.streamed
        banks = [min(size, use.words - start) for start in range(0, use.words, size)]
        counts = [
            block_rams(use.width, words, ports, family.memory, written=written, lane=use.lane)
            for words in banks
        ]
        return Area(bram=sum(counts))

    def style(self, use: MemoryUse, ports: int) -> ArrayStyle:
        """Block RAM by attribute."""
        return ArrayStyle("block")

    def build(self, m: Module, memory: MemoryPlan) -> BuiltMemory:
        """Add an array."""
        return Ram(m, memory)
