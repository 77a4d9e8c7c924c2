"""Elements in the order of the model to the words of a memory and back, against `Layout.pack`."""

import numpy as np
import pytest
from amaranth import Module
from amaranth.lib.memory import Memory
from amaranth.sim import Simulator

from tg2hdl_ir.dtype import DType
from tg2hdl_lower import Layout
from tg2hdl_lower.memory.host import HostBuffer
from tg2hdl_top.ports.element_bytes import ElementBytes
from tg2hdl_top.ports.element_walk import ElementWalk, merged
from tg2hdl_top.ports.elements import ElementReader, ElementWriter

LAYOUTS = [
    Layout((1,), (1,)),
    Layout((10,), (4,)),
    Layout((3, 5), (2, 2)),
    Layout((1, 8, 8), (1, 1, 4)),
    Layout((4, 6), (4, 6)),
    Layout((3, 7, 5), (1, 3, 2)),
    Layout((4, 1, 6), (2, 1, 1)),
    Layout((2, 40), (1, 20)),
    Layout((1, 6), (3, 2)),
]


def simulated(top, bench):
    sim = Simulator(top)
    sim.add_clock(1e-8)
    sim.add_testbench(bench)
    sim.run()


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_merged_dimensions_are_the_same_places(layout):
    elements = np.arange(layout.depth)
    for found, expected in zip(merged(layout).place(elements), layout.place(elements), strict=True):
        assert found.tolist() == expected.tolist()
    assert len(merged(layout).dims) <= len(layout.dims)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_a_walk_visits_every_place_twice_in_order(layout):
    walk, seen = ElementWalk(layout), []

    async def bench(ctx):
        ctx.set(walk.step, 1)
        for _ in range(2 * layout.depth):
            seen.append((ctx.get(walk.word), ctx.get(walk.lane), ctx.get(walk.last)))
            await ctx.tick()

    simulated(walk, bench)
    word, lane = layout.place(np.arange(layout.depth))
    last = np.arange(layout.depth) == layout.depth - 1
    once = [(int(w), int(k), int(e)) for w, k, e in zip(word, lane, last, strict=True)]
    assert seen == once * 2


def host_buffer(layout, dtype, latency):
    width = layout.lanes * dtype.bit_width
    return HostBuffer("b", layout.words, width, True, True, latency, layout, dtype)


@pytest.mark.parametrize("latency", [1, 2])
@pytest.mark.parametrize("dtype", [DType.BOOL, DType.INT8, DType.INT32], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_what_is_written_is_packed_and_is_read_again_at_full_rate(layout, dtype, latency):
    buffer = host_buffer(layout, dtype, latency)
    m = Module()
    m.submodules.writer = writer = ElementWriter(buffer)
    m.submodules.reader = reader = ElementReader(buffer)
    m.submodules.memory = memory = Memory(shape=buffer.width, depth=max(2, layout.words), init=[])
    write = memory.write_port(granularity=dtype.bit_width if layout.lanes > 1 else None)
    read = memory.read_port()
    m.d.comb += [write.addr.eq(writer.waddr), write.en.eq(writer.wen)]
    m.d.comb += [write.data.eq(writer.wdata.replicate(layout.lanes)), read.addr.eq(reader.raddr)]
    data = read.data
    if latency == 2:
        from amaranth import Signal

        data = Signal.like(read.data)
        m.d.sync += data.eq(read.data)
    m.d.comb += reader.rdata.eq(data)
    rng = np.random.default_rng(1)
    bits = rng.integers(0, 1 << dtype.bit_width, layout.depth, dtype=np.uint64)
    words, found, ends = [], [], []

    async def bench(ctx):
        # A first beginning that is given up leaves nothing behind.
        ctx.set(writer.valid, 1)
        await ctx.tick()
        ctx.set(writer.restart, 1)
        ctx.set(writer.valid, 0)
        await ctx.tick()
        ctx.set(writer.restart, 0)
        for value in bits:
            ctx.set(writer.element, int(value))
            ctx.set(writer.valid, int(rng.integers(0, 2)))
            while not ctx.get(writer.valid):
                await ctx.tick()
                ctx.set(writer.valid, 1)
            await ctx.tick()
        ctx.set(writer.valid, 0)
        await ctx.tick()
        words.extend(ctx.get(memory.data[n]) for n in range(layout.words))
        for attempt in range(2):  # the second one after a restart in the middle
            ctx.set(reader.restart, 1)
            await ctx.tick()
            ctx.set(reader.restart, 0)
            ctx.set(reader.take, 1)
            waited = 0
            found.clear()
            while len(found) < (layout.depth if attempt else layout.depth // 2):
                if ctx.get(reader.valid):
                    found.append(ctx.get(reader.element))
                    ends.append(ctx.get(reader.last))
                else:
                    waited += 1
                await ctx.tick()
            assert waited < 12  # only until the first element

    simulated(m, bench)
    packed = layout.pack(dtype.bits_to_array(bits), dtype)
    assert words == [sum(int(v) << (n * dtype.bit_width) for n, v in enumerate(row)) for row in packed]
    assert found == bits.tolist()
    assert ends[-layout.depth :] == [0] * (layout.depth - 1) + [1]


@pytest.mark.parametrize("size", [1, 2, 8])
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_bytes_of_elements(layout, size):
    dtype = {1: DType.INT8, 2: DType.INT16, 8: DType.INT64}[size]
    width = dtype.bit_width
    buffer = HostBuffer("b", layout.words, width * layout.lanes, False, True, 1, layout, dtype)
    values = np.random.default_rng(0).integers(0, 256, (layout.depth, size), dtype=np.uint8)
    words = [0] * layout.words
    places = zip(*layout.place(np.arange(layout.depth)), strict=True)
    for (word, lane), value in zip(places, values, strict=True):
        words[word] |= int.from_bytes(value.tobytes(), "little") << int(lane) * width
    m = Module()
    m.submodules.memory = memory = Memory(shape=buffer.width, depth=len(words), init=words)
    m.submodules.reader = reader = ElementBytes(buffer)
    port = memory.read_port()
    m.d.comb += [port.addr.eq(reader.raddr), reader.rdata.eq(port.data)]

    async def bench(ctx):
        for count in (min(2, layout.depth), layout.depth):  # begins again
            found = []
            ctx.set(reader.restart, 1)
            await ctx.tick()
            ctx.set(reader.restart, 0)
            for n in range(count):
                await ctx.tick().repeat(reader.delay)
                assert ctx.get(reader.last) == (n == layout.depth - 1)
                for byte in range(size):
                    found.append(ctx.get(reader.byte))
                    ctx.set(reader.next, 1)
                    ctx.set(reader.step, byte == size - 1)
                    await ctx.tick()
                    ctx.set(reader.next, 0)
                    ctx.set(reader.step, 0)
            assert bytes(found) == values[:count].tobytes()

    simulated(m, bench)
