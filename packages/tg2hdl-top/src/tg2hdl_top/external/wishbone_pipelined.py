"""Wishbone with pipelined cycles: requests do not wait for the answers to earlier ones."""

from __future__ import annotations

from collections import deque

from amaranth import Module, Signal
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In

from tg2hdl_top.external.memory_model import MemoryModel
from tg2hdl_top.external.memory_port import ADDRESS_BITS, BeatTimes, MemoryPort
from tg2hdl_top.external.modelled_memory import ModelledMemory
from tg2hdl_top.external.wishbone import read_signals

__all__ = ["WishbonePipelinedMemory", "WishbonePipelinedReadPort", "WishbonePipelinedTimes"]


class WishbonePipelinedReadPort(MemoryPort):
    """A Wishbone (B4) master that only reads, in pipelined mode; `adr` counts words.

    Answers cannot be held back: a queue of `model.burst` words has a place for each that is requested.
    """

    name = "m_wb"
    model: MemoryModel

    def __init__(self, model: MemoryModel, beats: int) -> None:
        super().__init__(model, beats, {**read_signals(model), "stall": In(1)})

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m, model, bus = Module(), self.model, self.bus
        low = (model.beat_bytes - 1).bit_length()
        m.submodules.queue = queue = SyncFIFO(width=model.bits, depth=model.burst)
        left, expected = Signal(range(self.beats + 1)), Signal(range(self.beats + 1))
        places = Signal(range(model.burst + 1), init=model.burst)
        address = Signal(ADDRESS_BITS - low)
        asked, taken = Signal(), Signal()
        m.d.comb += [
            bus.cyc.eq(expected != 0),
            bus.stb.eq((left != 0) & (places != 0) & ~self.outside.memory_failed),
            bus.adr.eq(address),
            bus.sel.eq(-1),
            asked.eq(bus.stb & ~bus.stall),
            queue.w_data.eq(bus.dat_r),
            queue.w_en.eq(bus.cyc & bus.ack),
            self.valid.eq(queue.r_rdy & ~self.outside.memory_failed),
            self.data.eq(queue.r_data),
            taken.eq(self.valid & self.ready),
            queue.r_en.eq(taken),
        ]
        self._failure(m, bus.cyc & bus.err)
        m.d.sync += places.eq(places - asked + taken)
        with m.If(self.start):
            m.d.sync += [
                left.eq(self.beats),
                expected.eq(self.beats),
                address.eq(self.outside.memory_base[low:]),
            ]
        with m.Else():
            m.d.sync += [
                left.eq(left - asked),
                expected.eq(expected - queue.w_en),
                address.eq(address + asked),
            ]
        return m


class WishbonePipelinedMemory(ModelledMemory):
    """Each request is answered after the latency, in order, a word a cycle at most."""

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m, model, bus = Module(), self.model, self.bus
        refreshes, gap = self._timing(m)
        address, data = self._array(m)
        m.submodules.queue = queue = SyncFIFO(width=len(bus.adr), depth=model.burst)
        asked = Signal()
        waiting, due = Signal(model.latency), Signal(range(model.burst + 1))
        m.d.comb += [
            bus.stall.eq(~queue.w_rdy),
            asked.eq(bus.cyc & bus.stb & ~bus.stall),
            queue.w_en.eq(asked),
            queue.w_data.eq(bus.adr),
            address.eq(queue.r_data),
            bus.dat_r.eq(data),
            bus.ack.eq(((due != 0) | waiting[-1]) & (gap == 0) & ~refreshes),
            queue.r_en.eq(bus.ack),
        ]
        m.d.sync += [waiting.eq((waiting << 1) | asked), due.eq(due + waiting[-1] - bus.ack)]
        with m.If(bus.ack):
            m.d.sync += gap.eq(model.cycles_per_beat - 1)
        return m


class WishbonePipelinedTimes(BeatTimes):
    """A word is requested when the queue has a place for it."""

    model: MemoryModel

    def __init__(self, model: MemoryModel, beats: int) -> None:
        super().__init__(model, beats)
        self.asked = self.answered = 0
        self.taken = deque([0] * model.burst, maxlen=model.burst)

    def take(self, beats: int, begin: int) -> int:
        """Cycle of the last of the next beats."""
        model, rate = self.model, self.model.cycles_per_beat
        for _ in range(beats):
            self.asked = max(self.asked, self.taken[0]) + 1
            # The first answer follows none.
            gap = self.answered + rate if self.answered else 0
            self.answered = model.after_refresh(max(self.asked + model.latency, gap))
            self.latest = max(self.answered, self.latest, begin - 1) + 1
            self.taken.append(self.latest)
        return self.latest
