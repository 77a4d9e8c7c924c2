"""Memory outside the chip as a `MemoryModel` behaves: part of a design only to simulate it."""

from __future__ import annotations

from amaranth import Module, Signal
from amaranth.hdl import Mux, Value, unsigned
from amaranth.lib.memory import Memory

from tg2hdl_top.external.memory_model import MemoryModel
from tg2hdl_top.external.memory_port import SimulatedMemory

__all__ = ["ModelledMemory"]


class ModelledMemory(SimulatedMemory):
    """The parts that memories behind different buses have in common; refreshes are counted from `restart`."""

    model: MemoryModel

    def _timing(self, m: Module) -> tuple[Value, Signal]:
        """Whether the memory refreshes, and cycles until the next beat may come; both in this cycle."""
        model = self.model
        phase = Signal(range(max(model.refresh_every, 2)))
        m.d.sync += phase.eq(Mux(phase == model.refresh_every - 1, 0, phase + 1))
        with m.If(self.restart):
            m.d.sync += phase.eq(1 % model.refresh_every)
        gap = Signal(range(model.cycles_per_beat + 1))
        with m.If(gap != 0):
            m.d.sync += gap.eq(gap - 1)
        pauses: Value = phase >= model.refresh_every - model.refresh_cycles
        return pauses if model.refresh_cycles else pauses & 0, gap

    def _array(self, m: Module) -> tuple[Signal, Signal]:
        """Address and data of the words."""
        m.submodules.array = array = Memory(
            shape=unsigned(self.model.bits), depth=len(self.words), init=self.words
        )
        port = array.read_port(domain="comb")
        address = Signal(range(max(len(self.words), 2)))
        m.d.comb += port.addr.eq(address)
        return address, port.data
