"""The chip in hardware, with an image: part of a design only to simulate it. It obeys; `SdramRules` checks."""

from __future__ import annotations

from amaranth import Array, Cat, Module, Signal
from amaranth.hdl import unsigned
from amaranth.lib.memory import Memory

from tg2hdl_top.external.memory_port import SimulatedMemory
from tg2hdl_top.external.sdram.controller import ACTIVATE, READ, ROW_BITS, WRITE
from tg2hdl_top.external.sdram.model import BURST, SdramModel

__all__ = ["SdramChip"]


class SdramChip(SimulatedMemory):
    """Opens rows, reads bursts and writes words; its contents are the image from address 0 on."""

    model: SdramModel

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m, model, pins = Module(), self.model, self.bus
        words = [*self.words, *[0] * (-len(self.words) % BURST)]
        m.submodules.words = array = Memory(shape=unsigned(model.bits), depth=len(words), init=words)
        port = array.read_port(domain="comb")
        rows = Array(Signal(ROW_BITS, name=f"row{n}") for n in range(4))
        code = Cat(pins.we_n, pins.cas_n, pins.ras_n)
        columns = (model.columns - 1).bit_length()
        place = Signal(ROW_BITS + 2 + columns)
        store = array.write_port()
        m.d.comb += [
            place.eq(Cat(pins.a[:columns], pins.ba, rows[pins.ba])),
            store.addr.eq(place),
            store.data.eq(pins.dq_o),
            store.en.eq((code == WRITE) & (place < len(words))),
        ]
        word, left = Signal(range(len(words))), Signal(range(BURST + 1))
        with m.If(left != 0):
            m.d.sync += [left.eq(left - 1), word[:3].eq(word[:3] + 1)]
        with m.If(code == ACTIVATE):
            m.d.sync += rows[pins.ba].eq(pins.a)
        with m.If(code == READ):
            m.d.sync += [word.eq(place), left.eq(BURST)]
        m.d.comb += port.addr.eq(word)
        data = port.data
        for number in range(model.cas_latency - 1):
            stage = Signal(model.bits, name=f"data{number}")
            m.d.sync += stage.eq(data)
            data = stage
        m.d.comb += pins.dq_i.eq(data)
        return m
