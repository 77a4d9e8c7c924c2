"""Deep ROMs take few blocks and few multiplexers where slices over the whole depth would be too many blocks."""

import random
from dataclasses import replace

import pytest
from amaranth import Module, Signal, unsigned
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from tg2hdl_synth import synthesize
from tg2hdl_synth.families.ecp5.memory_pieces import pieces
from tg2hdl_synth.netlist_simulation import open_netlist
from tg2hdl_synth.parts import part_named

WIDTH, DEPTH = 36, 3456


class Table(wiring.Component):
    """A memory with contents, which the outside writes or nothing does."""

    def __init__(self, *, written: bool = False) -> None:
        rng = random.Random(0)
        self.words = [rng.getrandbits(WIDTH) for _ in range(DEPTH)]
        self.written = written
        super().__init__({"address": In(range(DEPTH)), "wen": In(1), "word": Out(WIDTH)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        memory = Memory(shape=unsigned(WIDTH), depth=DEPTH, init=self.words, attrs={"ram_style": "block"})
        m.submodules.memory_table = memory
        port = memory.read_port()
        address = Signal.like(self.address)
        m.d.sync += [address.eq(self.address), self.word.eq(port.data)]
        m.d.comb += port.addr.eq(address)
        if self.written:
            write = memory.write_port()
            m.d.comb += [write.addr.eq(address), write.data.eq(0), write.en.eq(self.wen)]
        return m


@pytest.mark.parametrize(
    ("depth", "expected"),
    [
        (1, [1]),
        (512, [512]),
        (720, [720]),
        (1152, [1024, 128]),
        (2304, [2048, 256]),
        (DEPTH, [2048, 1024, 384]),
        (4096, [4096]),
        (16384, [16384]),
        (20000, [16384, 3616]),
    ],
)
def test_a_piece_more_spares_blocks(depth: int, expected: list[int]) -> None:
    assert pieces(128, depth) == expected


def test_pieces_hold_the_words_in_the_blocks_of_the_part() -> None:
    table = Table()
    small = replace(part_named("ecp5-45k"), bram=8)
    result = synthesize(table, small, place=False)
    # 4, 2 and 1 blocks, and a multiplexer of three words.
    assert result.cells["bram"] == 4 + 2 + 1
    assert result.cells["comb"] <= 2 * WIDTH
    with open_netlist(result) as simulation:
        for n in [*range(0, DEPTH, 37), 2047, 2048, 3071, 3072, DEPTH - 1]:
            simulation.set("address", n)
            simulation.step(3)
            assert simulation.get("word") == table.words[n], n


def test_what_is_written_or_fits_in_slices_stays() -> None:
    part = part_named("ecp5-45k")
    sliced = synthesize(Table(), part, place=False)
    assert (sliced.cells["bram"], sliced.cells["comb"]) == (9, 0)
    written = synthesize(Table(written=True), replace(part, bram=8), place=False)
    assert written.cells["bram"] <= 8
