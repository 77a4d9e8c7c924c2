"""AXI4: a master that only reads, a memory behind it, and its times."""

from __future__ import annotations

from amaranth import Cat, Const, Module, Signal
from amaranth.hdl import Mux, Value
from amaranth.lib.wiring import In, Out

from tg2hdl_top.external.memory_model import MemoryModel
from tg2hdl_top.external.memory_port import ADDRESS_BITS, MemoryPort
from tg2hdl_top.external.modelled_memory import BurstTimes, ModelledMemory

__all__ = ["Axi4Memory", "Axi4ReadPort", "Axi4Times"]


class Axi4ReadPort(MemoryPort):
    """An AXI4 master that only reads: bursts of words, several ahead."""

    name = "m_axi"
    model: MemoryModel

    def __init__(self, model: MemoryModel, beats: int) -> None:
        bus = {
            **{"arvalid": Out(1), "arready": In(1), "arid": Out(1), "araddr": Out(ADDRESS_BITS)},
            **{"arlen": Out(8), "arsize": Out(3), "arburst": Out(2), "arcache": Out(4), "arprot": Out(3)},
            **{"rvalid": In(1), "rready": Out(1), "rid": In(1), "rdata": In(model.bits), "rresp": In(2)},
            "rlast": In(1),
        }
        super().__init__(model, beats, bus)

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m, model = Module(), self.model
        bus = self.bus
        bursts, rest = divmod(self.beats, model.burst)
        total = bursts + (rest > 0)
        left = Signal(range(total + 1))
        flight = Signal(range(model.outstanding + 1))
        size = (model.burst * model.beat_bytes - 1).bit_length()
        address = Signal(ADDRESS_BITS - size)
        length = Const(model.burst - 1, 8)
        last_length = Mux(left == 1, rest - 1, length) if rest else length
        m.d.comb += [
            bus.arvalid.eq((left != 0) & (flight != model.outstanding)),
            bus.araddr.eq(Cat(Const(0, size), address)),
            bus.arlen.eq(last_length),
            bus.arsize.eq((model.beat_bytes - 1).bit_length()),
            bus.arburst.eq(0b01),
            bus.arcache.eq(0b0011),
            self.valid.eq(bus.rvalid & ~bus.rresp[1] & ~self.outside.memory_failed),
            self.data.eq(bus.rdata),
            bus.rready.eq(self.ready),
        ]
        asked, ended = bus.arvalid & bus.arready, bus.rvalid & bus.rready & bus.rlast
        self._failure(m, bus.rvalid & bus.rready & bus.rresp[1])
        m.d.sync += flight.eq(flight + asked - ended)
        with m.If(self.start):
            m.d.sync += [left.eq(total), address.eq(self.outside.memory_base[size:])]
        with m.Elif(asked):
            m.d.sync += [left.eq(left - 1), address.eq(address + 1)]
        return m


class Axi4Memory(ModelledMemory):
    """Requests wait in order; the data of each comes after the latency, and waits until it is taken."""

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m, model, bus = Module(), self.model, self.bus
        refreshes, gap = self._timing(m)
        address, data = self._array(m)
        slots = range(model.outstanding)
        waits = [Signal(range(model.latency + 1), name=f"wait{n}") for n in slots]
        starts = [Signal(len(address), name=f"address{n}") for n in slots]
        lengths = [Signal(8, name=f"length{n}") for n in slots]
        filled = Signal(model.outstanding)
        head, tail = Signal(range(max(2, model.outstanding))), Signal(range(max(2, model.outstanding)))
        beat, held = Signal(8), Signal()
        shift = (model.beat_bytes - 1).bit_length()

        def following(pointer: Signal) -> Value:
            return Mux(pointer == model.outstanding - 1, 0, pointer + 1)

        first, length, due = Signal(len(address)), Signal(8), Signal()
        for n in slots:
            with m.If(waits[n] != 0):
                m.d.sync += waits[n].eq(waits[n] - 1)
            with m.If(head == n):
                m.d.comb += [
                    first.eq(starts[n]),
                    length.eq(lengths[n]),
                    due.eq(filled[n] & (waits[n] == 0)),
                ]
        m.d.comb += [
            bus.arready.eq(~filled.all()),
            address.eq(first + beat),
            bus.rvalid.eq(held | (due & (gap == 0) & ~refreshes)),
            bus.rdata.eq(data),
            bus.rlast.eq(beat == length),
        ]
        m.d.sync += held.eq(bus.rvalid & ~bus.rready)
        with m.If(bus.arvalid & bus.arready):
            m.d.sync += tail.eq(following(tail))
            for n in slots:
                with m.If(tail == n):
                    m.d.sync += [
                        starts[n].eq(bus.araddr[shift:]),
                        lengths[n].eq(bus.arlen),
                        waits[n].eq(model.latency - 1),
                        filled[n].eq(1),
                    ]
        with m.If(bus.rvalid & bus.rready):
            m.d.sync += [beat.eq(beat + 1), gap.eq(model.cycles_per_beat - 1)]
            with m.If(bus.rlast):
                m.d.sync += [beat.eq(0), head.eq(following(head))]
                for n in slots:
                    with m.If(head == n):
                        m.d.sync += filled[n].eq(0)
        return m


class Axi4Times(BurstTimes):
    """Several bursts are requested ahead; the memory holds a beat until it is taken."""

    def __init__(self, model: MemoryModel, beats: int) -> None:
        super().__init__(model, beats)
        self.asked = 0
        self.ends: list[int] = []

    def request(self, begin: int) -> int:
        """First cycle in which the memory could give the first beat of the next burst."""
        model = self.model
        asked = self.asked + 1
        if len(self.ends) >= model.outstanding:
            asked = max(asked, self.ends[-model.outstanding] + 1)
        self.asked = asked
        previous = self.latest + model.cycles_per_beat if self.ends else 0
        return max(asked + model.latency, previous)

    def accepted(self, first: int, begin: int) -> int:
        """Cycle of a beat that could come from `first` on, and that is taken from `begin` on."""
        return max(self.model.after_refresh(first), begin)

    def finish(self) -> None:
        """Take note of the end of a burst."""
        self.ends.append(self.latest)
