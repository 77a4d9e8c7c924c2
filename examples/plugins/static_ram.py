"""A memory port: an asynchronous static RAM at pins, with its weights; a word every two cycles."""

from __future__ import annotations

from typing import Any

from amaranth import Cat, Module, Signal
from amaranth.hdl import unsigned
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from tg2hdl_ir import MemoryPortDef, hookimpl
from tg2hdl_top import MemoryModel
from tg2hdl_top.external.memory_port import BeatTimes, MemoryPort, SimulatedMemory


def static_ram() -> MemoryModel:
    """What the hardware, the prediction and the simulation are made of."""
    return MemoryModel(bits=16, latency=1, cycles_per_beat=2, refresh_cycles=0, burst=1)


class StaticRamPort(MemoryPort):
    """Holds each address for the time of an access, and until the word is taken."""

    name = "sram"

    def __init__(self, model: MemoryModel, beats: int) -> None:
        super().__init__(model, beats, {"address": Out(20), "data": In(model.bits), "oe_n": Out(1)})

    def elaborate(self, platform: Any) -> Module:
        m, bus = Module(), self.bus
        left, held = Signal(range(self.beats + 1)), Signal(range(self.model.cycles_per_beat))
        m.d.comb += [
            self.valid.eq((left != 0) & (held == self.model.cycles_per_beat - 1)),
            self.data.eq(bus.data),
            bus.oe_n.eq(left == 0),
        ]
        self._failure(m, Cat(self.outside.memory_base[21:]).any())
        with m.If(self.start):
            m.d.sync += [left.eq(self.beats), held.eq(0), bus.address.eq(self.outside.memory_base[1:])]
        with m.Elif(self.valid & self.ready):
            m.d.sync += [left.eq(left - 1), held.eq(0), bus.address.eq(bus.address + 1)]
        with m.Elif((left != 0) & ~self.valid):
            m.d.sync += held.eq(held + 1)
        return m


class StaticRamChip(SimulatedMemory):
    """The chip, to simulate."""

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        shape = unsigned(self.model.bits)
        m.submodules.words = words = Memory(shape=shape, depth=len(self.words), init=self.words)
        port = words.read_port(domain="comb")
        m.d.comb += [port.addr.eq(self.bus.address), self.bus.data.eq(port.data)]
        return m


class StaticRamTimes(BeatTimes):
    """The prediction; simulation compares."""

    def take(self, beats: int, begin: int) -> int:
        for _ in range(beats):
            self.latest = max(self.latest + self.model.cycles_per_beat, begin)
        return self.latest


@hookimpl
def tg2hdl_memory_ports() -> list[MemoryPortDef]:
    """For ``--weights external --memory-port sram``."""
    return [
        MemoryPortDef(
            "sram", "asynchronous static RAM", StaticRamPort, StaticRamChip, StaticRamTimes, static_ram
        )
    ]
