"""The scratchpad: two banks of block RAM, each with two read ports and one write port."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.memory import Memory, MemoryData
from amaranth.lib.wiring import In, Out

from tg2hdl_tpu.config import Config

__all__ = ["Vmem"]


class Vmem(wiring.Component):
    """Rows of lanes.

    Members
    -------
    a_row, b_row : In
        Rows that the pipeline reads; `a_data` and `b_data` have them in the next cycle, or one more with
        `Config.read_registers`.
    constant, word : In
        In that next cycle: `b_data` is this word for all lanes.
    uses_b : In(2)
        The pipeline reads a row of this bank through port B; else the DMA store does.
    store_row : In
        The row that it reads.
    written, row, data, mask : In
        In which bank the pipeline writes, its row, with an enable for each lane.
    load_row, load_data, loaded : In
        The row that the DMA load or the host writes, and to which bank, if the pipeline does not write there.
    a_data, b_data, store_data : Out
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        bits = (config.vmem_rows - 1).bit_length()
        self.banks = [
            MemoryData(shape=config.row_bits, depth=config.vmem_rows // 2, init=[]) for _ in range(2)
        ]
        word = config.row_bits
        super().__init__(
            {
                "a_row": In(bits),
                "b_row": In(bits),
                "constant": In(1),
                "word": In(32),
                "uses_b": In(2),
                "store_row": In(bits),
                "written": In(2),
                "row": In(bits),
                "data": In(word),
                "mask": In(config.lanes),
                "load_row": In(bits),
                "load_data": In(word),
                "loaded": In(2),
                "a_data": Out(word),
                "b_data": Out(word),
                "store_data": Out(word),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Build the banks."""
        m = Module()
        reads: dict[str, list[Any]] = {"a": [], "b": []}
        for number, contents in enumerate(self.banks):
            m.submodules[f"bank{number}"] = memory = Memory(contents)
            a, b = memory.read_port(), memory.read_port()
            write = memory.write_port(granularity=32)
            written, loaded = self.written[number], self.loaded[number]
            m.d.comb += [
                a.addr.eq(self.a_row[:-1]),
                b.addr.eq(Mux(self.uses_b[number], self.b_row[:-1], self.store_row[:-1])),
                write.addr.eq(Mux(written, self.row[:-1], self.load_row[:-1])),
                write.data.eq(Mux(written, self.data, self.load_data)),
                write.en.eq(Mux(written, self.mask, loaded.replicate(self.config.lanes))),
            ]
            reads["a"].append(a.data)
            reads["b"].append(b.data)
        selects = Signal(3)
        m.d.sync += selects.eq(Cat(self.a_row[-1], self.b_row[-1], self.store_row[-1]))
        # Of port B: a bank, or each bit of a word.
        constant, which = self.constant, Mux(self.constant, self.word, selects[1].replicate(32))
        if self.config.read_registers:
            # A register that takes only the output of a bank is part of the block RAM.
            reads = {
                port: [_registered(m, data, f"{port}{n}") for n, data in enumerate(found)]
                for port, found in reads.items()
            }
            selects, constant, which = (
                _registered(m, v, name)
                for v, name in ((selects, "selects_"), (constant, "constant_"), (which, "which_"))
            )
        which = Cat([which] * self.config.lanes)
        of_banks = (reads["b"][1] & which) | (reads["b"][0] & ~which)
        m.d.comb += [
            self.a_data.eq(Mux(selects[0], reads["a"][1], reads["a"][0])),
            self.b_data.eq(Mux(constant, which, of_banks)),
            self.store_data.eq(Mux(selects[2], reads["b"][1], reads["b"][0])),
        ]
        return m


def _registered(m: Module, value: Any, name: str) -> Signal:
    register = Signal(len(Value.cast(value)), name=name, reset_less=True)
    m.d.sync += register.eq(value)
    return register
