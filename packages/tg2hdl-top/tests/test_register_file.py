"""Reads of registers and of the description, each answered in a fixed cycle, and of addresses that have none."""

import json

from amaranth.sim import Simulator

from tg2hdl_ir.nodes import IRVariable
from tg2hdl_lower.memory.host import HostShape
from tg2hdl_top.ports.axi_lite import AxiLiteErrorPort, AxiLitePort
from tg2hdl_top.ports.register_file import RegisterFile
from tg2hdl_top.ports.wishbone import WishboneErrorPort, WishbonePort
from tg2hdl_top.register_map import RegisterMap

SHAPE = HostShape(
    True, 1, (IRVariable("n", 0, 9),), (), (0, 0), program="net", identity="123456789abcdef0", cycles=700
)
ACCESS = 3
"""Cycles of an access."""


def accesses(*wanted):
    """Value (0 of a write), code and cycles of reads (an address) and writes (address and data), in order."""
    file, found = RegisterFile(SHAPE), []
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
            found.append((0 if data else ctx.get(bus.value), ctx.get(bus.code), cycles))
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
    assert magic == (0x48324754, 0, ACCESS)
    assert (low, high) == ((0x9ABCDEF0, 0, ACCESS), (0x12345678, 0, ACCESS))
    assert (variable, after) == ((0, 0, ACCESS), (7, 0, ACCESS))
    assert end == (0, 0, ACCESS), "the end of the second kernel"


def test_the_description():
    (start, _, _), (size, _, _) = accesses((0x10,), (0x14,))
    words = accesses(*((start + 4 * n,) for n in range(-(-size // 4))))
    assert {(code, cycles) for _, code, cycles in words} == {(0, ACCESS)}
    text = b"".join(value.to_bytes(4, "little") for value, _, _ in words)[:size]
    assert json.loads(text)["design"] == "net"


def test_refused_addresses():
    """START cannot be read, nor what follows the last register; MAGIC cannot be written; ERROR keeps the code."""
    found = accesses((0x18,), (0x4C,), (0x00, 1), (0x28,), (0x28, 0), (0x28,))
    assert found == [(0, 1, ACCESS)] * 3 + [(1, 0, ACCESS), (0, 0, ACCESS), (0, 0, ACCESS)]


def axi_answers(port):
    """Responses of a write of RUNS, which is refused, and of a read of an address that has nothing."""
    axi, found = port.outside.s_axil, []

    async def bench(ctx):
        for name in ("bready", "rready"):
            ctx.set(getattr(axi, name), 1)
        for channels, address, response in (("aw w", 0x20, "b"), ("ar", 0xF0, "r"), ("aw w", 0x28, "b")):
            ctx.set(axi.wstrb, 15)
            for channel in channels.split():
                ctx.set(getattr(axi, f"{channel}valid"), 1)
                if channel != "w":
                    ctx.set(getattr(axi, f"{channel}addr"), address)
            await ctx.tick().until(getattr(axi, f"{channels[:2]}ready"))
            for channel in channels.split():
                ctx.set(getattr(axi, f"{channel}valid"), 0)
            await ctx.tick().until(getattr(axi, f"{response}valid"))
            found.append(ctx.get(getattr(axi, f"{response}resp")))

    sim = Simulator(port)
    sim.add_clock(1e-8)
    sim.add_testbench(bench)
    sim.run()
    return found


def test_refused_accesses_are_slverr_by_option_only():
    assert axi_answers(AxiLitePort(SHAPE)) == [0, 0, 0]
    assert axi_answers(AxiLiteErrorPort(SHAPE)) == [2, 2, 0]


def wishbone_answers(port):
    """ACK and ERR of a write of RUNS and a read of an empty address, which are refused, and of a write of ERROR."""
    wb, found = port.outside.wb, []

    async def bench(ctx):
        for address, write in ((0x20, 1), (0xF0, 0), (0x28, 1)):
            for name, value in {"adr": address >> 2, "we": write, "sel": 15, "cyc": 1, "stb": 1}.items():
                ctx.set(getattr(wb, name), value)
            found.append(await ctx.tick().sample(wb.ack, wb.err).until(wb.ack | wb.err))
            ctx.set(wb.stb, 0)
            await ctx.tick()

    sim = Simulator(port)
    sim.add_clock(1e-8)
    sim.add_testbench(bench)
    sim.run()
    return found


def test_refused_accesses_are_err_by_option_only():
    assert wishbone_answers(WishbonePort(SHAPE)) == [(1, 0)] * 3
    assert wishbone_answers(WishboneErrorPort(SHAPE)) == [(0, 1), (0, 1), (1, 0)]


def test_registers_of_a_bus():
    clear, enabled, enable, back, pending, refused, again, cleared = accesses(
        (0x28, 0), (0x38,), (0x38, 3), (0x38,), (0x3C,), (0x20, 1), (0x3C,), (0x3C, 2)
    )
    assert [a[0] for a in (enabled, back, pending, again)] == [0, 3, 0, 2]
    assert [a[1] for a in (clear, enable, refused, cleared)] == [0, 0, 1, 0]
    assert {a.name for a in RegisterMap(SHAPE, has_bus=True).registers} - {
        a.name for a in RegisterMap(SHAPE).registers
    } == {"GO", "IRQ_ENABLE", "IRQ_PENDING"}
