"""Read-only memories that are deeper than a block RAM, with the choice of the block behind its register."""

from __future__ import annotations

from amaranth import Elaboratable, Module, Signal, unsigned
from amaranth.hdl import Value
from amaranth.lib.memory import Memory

from tg2hdl_lower.memory.kinds import DEEPEST_BLOCK

__all__ = ["Banks"]


class Banks(Elaboratable):
    """Contents in memories of at most `DEEPEST_BLOCK` words.

    In one memory of that depth the choice would stand between the blocks and their registers, which could then not
    move into the blocks.

    Parameters
    ----------
    width : int
        Bits of a word.
    contents : sequence of int
    """

    def __init__(self, width: int, contents: list[int]) -> None:
        self.width = width
        self.contents = contents
        self.ports: list[tuple[Signal, Signal, int]] = []

    def read(self, m: Module, address: Value, latency: int) -> Value:
        """Data of a new port, `latency` cycles (2 or more) after the address."""
        number = len(self.ports)
        port = Signal(range(len(self.contents)), name=f"address_{number}")
        data = Signal(self.width, name=f"data_{number}")
        m.d.comb += port.eq(address)
        self.ports.append((port, data, latency))
        return data

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        starts = range(0, len(self.contents), DEEPEST_BLOCK)
        banks = []
        for number, start in enumerate(starts):
            words = self.contents[start : start + DEEPEST_BLOCK]
            memory = Memory(
                shape=unsigned(self.width), depth=len(words), init=words, attrs={"ram_style": "block"}
            )
            m.submodules[f"bank_{number}"] = memory
            banks.append(memory)
        low = (DEEPEST_BLOCK - 1).bit_length()
        for number, (address, data, latency) in enumerate(self.ports):
            chosen: Value = address[low:]
            for stage in range(latency):
                later = Signal.like(chosen, name=f"bank_{number}_{stage}", reset_less=True)
                m.d.sync += later.eq(chosen)
                chosen = later
            with m.Switch(chosen):
                for bank, memory in enumerate(banks):
                    port = memory.read_port()
                    m.d.comb += port.addr.eq(address[:low])
                    word: Value = port.data
                    for stage in range(latency - 1):
                        register = Signal(self.width, name=f"r{number}_{bank}_{stage}", reset_less=True)
                        m.d.sync += register.eq(word)
                        word = register
                    with m.Case(bank):
                        m.d.comb += data.eq(word)
        return m
