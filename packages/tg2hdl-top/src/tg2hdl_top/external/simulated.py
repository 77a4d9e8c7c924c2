"""Memory outside the chip as its model behaves, with its image: part of a design only to simulate it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amaranth import Module, Signal
from amaranth.hdl import Mux, Value, unsigned
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In

from tg2hdl_lower.component import Component
from tg2hdl_top.external.memory_model import MemoryModel
from tg2hdl_top.external.memory_ports import memory_port
from tg2hdl_top.external.plan import memory_image

if TYPE_CHECKING:
    from tg2hdl_top.design import Design

__all__ = ["SimulatedMemory", "simulated_memory"]


class SimulatedMemory(Component):
    """A memory behind a bus.

    Parameters
    ----------
    model : MemoryModel
    words : list of int
        Beats from address 0 on.
    bus : Signature
        As its master drives it.

    Members
    -------
    bus : In(bus)
    restart : In(1)
        The cycle from which refreshes are counted.
    """

    def __init__(self, model: MemoryModel, words: list[int], bus: wiring.Signature) -> None:
        self.model = model
        self.words = words
        super().__init__({"bus": In(bus), "restart": In(1)})

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


class _AxiMemory(SimulatedMemory):
    """Requests wait in order; the data of each comes after the latency, and waits until it is taken."""

    def elaborate(self, platform: object) -> Module:
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


class _WishboneMemory(SimulatedMemory):
    """A burst is answered after the latency, a word a cycle then, until the master says that it ends."""

    def elaborate(self, platform: object) -> Module:
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


_MEMORIES: dict[str, type[SimulatedMemory]] = {"axi4": _AxiMemory, "wishbone": _WishboneMemory}


def simulated_memory(design: Design) -> SimulatedMemory:
    """The memory of a design, with its image."""
    plan = design.external
    assert plan is not None, "it has tiles"
    image = memory_image(design)
    beats = image.reshape(-1, plan.model.beat_bytes)
    words = [int.from_bytes(row.tobytes(), "little") for row in beats]
    bus = memory_port(plan.port, plan.model, plan.beats).bus
    return _MEMORIES[plan.port](plan.model, words, bus.signature)
