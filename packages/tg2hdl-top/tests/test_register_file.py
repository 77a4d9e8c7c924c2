"""Reads of registers and of the description, each answered in a fixed cycle, and of addresses that have none."""

import json

from amaranth.sim import Simulator

from tg2hdl_ir.nodes import IRVariable
from tg2hdl_lower.memory.host import HostShape
from tg2hdl_top.ports.register_file import RegisterFile

SHAPE = HostShape(
    True, 1, (IRVariable("n", 0, 9),), (), (0, 0), program="net", identity="123456789abcdef0", cycles=700
)
WRITE, READ = 3, 4
"""Cycles of an access; a value that was read comes out of a register of its own."""


def accesses(*wanted):
    """Value, code and cycles of reads (an address) and writes (address and data), one after the other."""
    file, found = RegisterFile(SHAPE, waits=False), []
    bus = file.bus

    async def bench(ctx):
        for address, *data in wanted:
            ctx.set(bus.address, address)
            ctx.set(bus.write, bool(data))
            ctx.set(bus.data, data[0] if data else 0)
            ctx.set(bus.valid, 1)
            cycles = 1
            while not ctx.get(bus.ready):
                await ctx.tick()
                cycles += 1
            found.append((ctx.get(bus.value), ctx.get(bus.code), cycles))
            await ctx.tick()
            ctx.set(bus.valid, 0)
            await ctx.tick()

    sim = Simulator(file)
    sim.add_clock(1e-8)
    sim.add_testbench(bench)
    sim.run()
    return found


def test_registers():
    (magic, low, high, variable, after, end) = accesses(
        (0x00,), (0x08,), (0x0C,), (0x40, 7), (0x40,), (0x48,)
    )
    assert magic == (0x48324754, 0, READ)
    assert (low, high) == ((0x9ABCDEF0, 0, READ), (0x12345678, 0, READ))
    assert (variable, after) == ((0, 0, WRITE), (7, 0, READ))
    assert end == (0, 0, READ), "the end of the second kernel"


def test_the_description():
    (start, _, _), (size, _, _) = accesses((0x10,), (0x14,))
    words = accesses(*((start + 4 * n,) for n in range(-(-size // 4))))
    assert {(code, cycles) for _, code, cycles in words} == {(0, READ)}
    text = b"".join(value.to_bytes(4, "little") for value, _, _ in words)[:size]
    assert json.loads(text)["design"] == "net"


def test_refused_addresses():
    """START cannot be read, nor what follows the last register; MAGIC cannot be written; ERROR keeps the code."""
    found = accesses((0x18,), (0x4C,), (0x00, 1), (0x28,), (0x28, 0), (0x28,))
    assert found == [(0, 1, WRITE)] * 3 + [(1, 0, READ), (0, 0, WRITE), (0, 0, READ)]
