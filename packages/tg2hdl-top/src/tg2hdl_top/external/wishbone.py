"""Wishbone with classic cycles: a master that only reads, a memory behind it, and its times."""

from __future__ import annotations

from typing import Any

from amaranth import Const, Module, Signal
from amaranth.hdl import Mux
from amaranth.lib.wiring import In, Out

from tg2hdl_top.external.memory_model import MemoryModel
from tg2hdl_top.external.memory_port import ADDRESS_BITS, MemoryPort
from tg2hdl_top.external.modelled_memory import BurstTimes, ModelledMemory

__all__ = ["WishboneMemory", "WishboneReadPort", "WishboneTimes", "read_signals"]


def read_signals(model: MemoryModel) -> dict[str, Any]:
    """Signals of a master that only reads, in either mode; `adr` counts words."""
    low = (model.beat_bytes - 1).bit_length()
    return {
        **{"cyc": Out(1), "stb": Out(1), "we": Out(1), "adr": Out(ADDRESS_BITS - low)},
        **{"sel": Out(model.beat_bytes), "dat_r": In(model.bits), "ack": In(1), "err": In(1)},
    }


class WishboneReadPort(MemoryPort):
    """A Wishbone (B4) master that only reads: classic cycles with incrementing bursts; `adr` counts words."""

    name = "m_wb"
    model: MemoryModel

    def __init__(self, model: MemoryModel, beats: int) -> None:
        super().__init__(model, beats, {**read_signals(model), "cti": Out(3), "bte": Out(2)})

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m, model, bus = Module(), self.model, self.bus
        low = (model.beat_bytes - 1).bit_length()
        left = Signal(range(self.beats + 1))
        address = Signal(ADDRESS_BITS - low)
        burst = (model.burst - 1).bit_length()
        last = (left == 1) | address[:burst].all() if burst else Const(1)
        m.d.comb += [
            bus.cyc.eq(left != 0),
            bus.stb.eq((left != 0) & self.ready & ~self.outside.memory_failed),
            bus.adr.eq(address),
            bus.sel.eq(-1),
            bus.cti.eq(Mux(last, 0b111, 0b010)),
            self.valid.eq(bus.stb & bus.ack),
            self.data.eq(bus.dat_r),
        ]
        self._failure(m, bus.stb & bus.err)
        with m.If(self.start):
            m.d.sync += [left.eq(self.beats), address.eq(self.outside.memory_base[low:])]
        with m.Elif(self.valid):
            m.d.sync += [left.eq(left - 1), address.eq(address + 1)]
        return m


class WishboneMemory(ModelledMemory):
    """A burst is answered after the latency, a word a cycle then, until the master says that it ends."""

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m, model, bus = Module(), self.model, self.bus
        refreshes, gap = self._timing(m)
        address, data = self._array(m)
        asks = bus.cyc & bus.stb
        wait, opened = Signal(range(model.latency + 1), init=model.latency), Signal()
        m.d.comb += [
            address.eq(bus.adr),
            bus.dat_r.eq(data),
            opened.eq(wait == 0),
            bus.ack.eq(asks & opened & (gap == 0) & ~refreshes),
        ]
        with m.If((asks | (wait != model.latency)) & ~opened):
            m.d.sync += wait.eq(wait - 1)
        with m.If(bus.ack):
            m.d.sync += gap.eq(model.cycles_per_beat - 1)
            with m.If(bus.cti == 0b111):
                m.d.sync += wait.eq(model.latency)
        return m


class WishboneTimes(BurstTimes):
    """A burst is requested when its first word is wanted."""

    def request(self, begin: int) -> int:
        """First cycle in which the memory could give the first beat of the next burst."""
        gap = self.latest + self.model.cycles_per_beat if self.latest else 0
        return max(max(self.latest + 1, begin) + self.model.latency, gap)

    def accepted(self, first: int, begin: int) -> int:
        """Cycle of a beat that could come from `first` on, and that is taken from `begin` on."""
        return self.model.after_refresh(max(first, begin))
