"""Read-only memories that are deeper than a block RAM."""

from __future__ import annotations

from amaranth import Elaboratable, Module, Signal, unsigned
from amaranth.hdl import Value
from amaranth.lib.memory import Memory

from tg2hdl_ir.plugins.descriptors import FamilyDef
from tg2hdl_lower.memory.block import BlockRam
from tg2hdl_lower.memory.kind import BuiltMemory
from tg2hdl_lower.memory.plan import MemoryPlan
from tg2hdl_lower.memory.ram import registered
from tg2hdl_lower.memory.use import MemoryUse

__all__ = ["BankedRom"]


class BankedRom(BlockRam):
    """ROM in banks of one block's depth, multiplexed after their output registers.

    In one array of that depth the multiplexer would stand between the blocks and their registers, which could then
    not move into the blocks.
    """

    def suits(self, use: MemoryUse, family: FamilyDef) -> bool:
        """Whether a read-only memory is deeper than a block, and there is a cycle for output registers."""
        return use.words > family.memory.block_words and use.role.is_rom and use.latency > 1

    def bank_words(self, use: MemoryUse, family: FamilyDef) -> int:
        """Words of one block."""
        return family.memory.block_words

    def build(self, m: Module, memory: MemoryPlan) -> BuiltMemory:
        """Add the banks."""
        banks = _Banks(memory)
        m.submodules[f"memory_{memory.name}"] = banks
        return banks


class _Banks(Elaboratable, BuiltMemory):
    def __init__(self, memory: MemoryPlan) -> None:
        self.memory = memory
        self.ports: list[tuple[Signal, Signal]] = []

    def write(self, m: Module, address: Value, data: Value, enable: Value) -> None:
        raise AssertionError("banks are read-only")

    def read(self, m: Module, number: int, address: Value) -> Value:
        port = Signal(self.memory.layout.address_width, name=f"address_{number}")
        data = Signal(self.memory.word_width, name=f"data_{number}")
        m.d.comb += port.eq(address)
        self.ports.append((port, data))
        return data

    def elaborate(self, platform: object) -> Module:
        m = Module()
        width, latency = self.memory.word_width, self.memory.read_latency
        contents = self.memory.words() or [0] * self.memory.depth
        depth = self.memory.bank_words
        banks = []
        for number, start in enumerate(range(0, len(contents), depth)):
            words = contents[start : start + depth]
            bank = Memory(
                shape=unsigned(width),
                depth=len(words),
                init=words,
                attrs={"ram_style": self.memory.style.ram_style},
            )
            m.submodules[f"bank_{number}"] = bank
            banks.append(bank)
        low = (depth - 1).bit_length()
        for number, (address, data) in enumerate(self.ports):
            chosen = registered(m, address[low:], latency, f"bank_{number}")
            with m.Switch(chosen):
                for n, bank in enumerate(banks):
                    port = bank.read_port()
                    m.d.comb += port.addr.eq(address[:low])
                    word = registered(m, port.data, latency - 1, f"r{number}_{n}")
                    with m.Case(n):
                        m.d.comb += data.eq(word)
        return m
