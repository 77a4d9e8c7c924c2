"""A memory in pieces takes fewer block RAMs, and each port reads what is in it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from amaranth import Module, Signal
from amaranth.sim import Simulator

from random_roms import rom
from tg2hdl_ir import DType
from tg2hdl_lower import Layout, MemoryPlan, kind_named
from tg2hdl_lower.families import GENERIC
from tg2hdl_lower.memory.block import BlockRam
from tg2hdl_lower.memory.blocks import Piece, block_rams, pieces_of
from tg2hdl_lower.memory.lut import luts_of_rom
from tg2hdl_lower.memory.use import MemoryRole, MemoryUse

FIGURES = GENERIC.memory


@pytest.mark.parametrize(
    ("width", "words", "ports", "blocks", "cuts"),
    [
        (128, 1024, 1, (8, 8), [(0, 128, 0, 1024)]),
        # One block RAM less would not be worth the multiplexer.
        (36, 3456, 1, (9, 9), [(0, 36, 0, 3456)]),
        (128, 2304, 1, (32, 19), [(0, 126, 0, 2048), (0, 126, 2048, 256), (126, 2, 0, 2304)]),
        (128, 4064, 2, (32, 29), [(0, 108, 0, 2048), (0, 108, 2048, 2016), (108, 20, 0, 4064)]),
        (8, 40000, 1, (24, 20), [(0, 8, 0, 16384), (0, 8, 16384, 16384), (0, 8, 32768, 7232)]),
    ],
)
def test_pieces_spare_block_rams(width, words, ports, blocks, cuts):
    found = pieces_of(width, words, ports, FIGURES)
    assert found == tuple(Piece(*cut) for cut in cuts)
    counted = sum(block_rams(p.bits, p.words, ports, FIGURES, written=False) for p in found)
    assert (block_rams(width, words, ports, FIGURES, written=False), counted) == blocks
    assert sum(p.bits * p.words for p in found) == width * words


@pytest.mark.parametrize(
    ("width", "words", "ports", "blocks", "cuts"),
    [
        (72, 5120, 1, (36, 20), [(0, 2048), (2048, 2048), (4096, 1024)]),
        (288, 1280, 1, (32, 24), [(0, 1024), (1024, 256)]),
        (288, 2560, 2, (144, 80), [(0, 2048), (2048, 512)]),
        (36, 3456, 1, (9, 9), [(0, 3456)]),
    ],
)
def test_written_words_stay_whole(width, words, ports, blocks, cuts):
    found = pieces_of(width, words, ports, FIGURES, written=True)
    assert found == tuple(Piece(0, width, *cut) for cut in cuts)
    counted = sum(block_rams(width, p.words, ports, FIGURES) for p in found)
    assert (block_rams(width, words, ports, FIGURES), counted) == blocks


def test_only_memories_with_a_register_behind_them_are_cut():
    use = MemoryUse(2304, 128, MemoryRole(*[False] * 4), 2)
    kind = BlockRam()
    assert len(kind.pieces(use, GENERIC, 1)) == 3
    assert len(kind.pieces(replace(use, role=MemoryRole()), GENERIC, 1)) == 2
    for other in (replace(use, latency=1), replace(use, role=MemoryRole(streamed=True))):
        assert kind.pieces(other, GENERIC, 1) == (Piece(0, 128, 0, 2304),)


@pytest.mark.parametrize(("width", "words"), [(128, 2304), (128, 4470), (20, 40000)])
def test_each_port_reads_the_words(width, words):
    memory = rom("table", width, words, 2)
    assert len(memory.pieces) > 1
    m, addresses = Module(), [Signal(memory.layout.address_width) for _ in memory.ports]
    built = kind_named(memory.kind).build(m, memory)
    outputs = [built.read(m, port, address) for port, address in zip(memory.ports, addresses, strict=True)]
    cuts = {a for piece in memory.pieces for a in (piece.word, piece.word + piece.words - 1)}
    chosen = sorted(cuts | {*range(0, words, 997)})
    expected = memory.words()

    async def bench(ctx):
        for one, other in zip(chosen, reversed(chosen), strict=True):
            ctx.set(addresses[0], one)
            ctx.set(addresses[1], other)
            await ctx.tick().repeat(memory.read_latency)
            assert [ctx.get(output) for output in outputs] == [expected[one], expected[other]]

    simulator = Simulator(m)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()


@pytest.mark.parametrize("lanes", [1, 4])
def test_pieces_keep_what_is_written(lanes):
    """Random writes of lanes and reads at two ports, against an array; a read meets the word of before a write."""
    rng, words, ports, width = np.random.default_rng(lanes), 1280, 2, 144 // lanes
    layout, role, dtype = Layout((words, lanes), (1, lanes)), MemoryRole(), DType.from_width(width, False)
    use, kind = MemoryUse(words, 144, role, 2), BlockRam()
    planned = kind.pieces(use, GENERIC, ports), kind.area(use, GENERIC, ports), kind.style(use, ports)
    memory = MemoryPlan("ram", dtype, layout, "block", (), role, (0, 1), 2, *planned)
    assert [piece.words for piece in memory.pieces] == [1024, 256]
    m = Module()
    write, data, enable, *reads = Signal(11), Signal(144), Signal(lanes), Signal(11), Signal(11)
    built = kind.build(m, memory)
    built.write(m, write, data, enable)
    outputs = [built.read(m, port, address) for port, address in enumerate(reads)]
    few = [0, 5, 1023, 1024, 1029, 1279]

    async def bench(ctx):
        held, expected = np.zeros((words, lanes), object), []
        for _ in range(300):
            word, chosen = int(rng.choice(few)), [int(at) for at in rng.choice(few, 2)]
            lane, value = int(rng.integers(1 << lanes)), [int(v) for v in rng.integers(0, 1 << 30, lanes)]
            ctx.set(write, word)
            ctx.set(data, sum(v << n * width for n, v in enumerate(value)))
            ctx.set(enable, lane)
            for address, at in zip(reads, chosen, strict=True):
                ctx.set(address, at)
            expected.append([sum(v << n * width for n, v in enumerate(held[at])) for at in chosen])
            for n, v in enumerate(value):
                if lane >> n & 1:
                    held[word, n] = v
            await ctx.tick()
            if len(expected) > 1:
                assert [ctx.get(output) for output in outputs] == expected[-2]

    simulator = Simulator(m)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()


def test_a_port_may_read_the_first_pieces_only():
    """Regions of shared memories that begin at 0 have addresses of fewer bits."""
    memory = rom("table", 128, 2304, 1)
    m, address = Module(), Signal(11)
    output = kind_named(memory.kind).build(m, memory).read(m, 0, address)
    expected = memory.words()

    async def bench(ctx):
        for word in (0, 1, 2047):
            ctx.set(address, word)
            await ctx.tick().repeat(memory.read_latency)
            assert ctx.get(output) == expected[word]

    simulator = Simulator(m)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()


def test_luts_of_a_rom():
    # Two bits are equal, one never changes, and one is that of another with other words.
    assert luts_of_rom([0b0011, 0b1000, 0b0000], 4) == 2
    assert luts_of_rom([n & 1 for n in range(40)], 2) == 3
