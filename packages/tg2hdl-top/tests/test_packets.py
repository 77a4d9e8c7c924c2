"""Packets: undamaged requests pass, anything else is dropped; replies are marked and checked."""

import zlib

import numpy as np
import pytest
from amaranth.sim import Simulator

from tg2hdl_ir import IRVariable
from tg2hdl_lower import HostShape
from tg2hdl_top.ports.packet_bridge import PacketBridge
from tg2hdl_top.ports.packets import OP_READ, OP_WRITE, PacketReceiver, PacketSender


def marked(body: bytes) -> bytes:
    body += zlib.crc32(body).to_bytes(4, "little")
    return body.replace(b"\xdb", b"\xdb\xdd").replace(b"\xc0", b"\xdb\xdc") + b"\xc0"


def request(operation: int, count: int, data: bytes = b"", sequence: int = 7) -> bytes:
    return sequence.to_bytes(2, "little") + bytes((operation, count, 4, 0, 0, 0)) + data


def received(stream: bytes, size: int = 256, broken: int = -1, bits: int = 8) -> tuple[bytes, int]:
    receiver, found, dropped = PacketReceiver(size, check_bits=bits), bytearray(), 0

    async def bench(ctx):
        nonlocal dropped
        for number, byte in enumerate(stream + bytes(4)):
            ctx.set(receiver.byte, byte)
            ctx.set(receiver.valid, number < len(stream))
            ctx.set(receiver.broken, number == broken)
            await ctx.tick()
            dropped += ctx.get(receiver.dropped)
            if bits < 8:  # a slow link
                ctx.set(receiver.valid, 0)
                ctx.set(receiver.broken, 0)
                for _ in range(8 // bits):
                    await ctx.tick()
                    dropped += ctx.get(receiver.dropped)
        for _ in range(4 * size):
            take = ctx.get(receiver.available)
            if take:
                found.append(ctx.get(receiver.out))
            ctx.set(receiver.take, take)
            await ctx.tick()
            ctx.set(receiver.take, 0)

    sim = Simulator(receiver)
    sim.add_clock(1e-8)
    sim.add_testbench(bench)
    sim.run()
    return bytes(found), dropped


GOOD = request(OP_WRITE, 2, b"\xc0\xdb\xdc\xdd\xc0\xc0\x00\xff")
OTHER = request(OP_READ, 3)


def with_check(body: bytes) -> bytes:
    return body + zlib.crc32(body).to_bytes(4, "little")


@pytest.mark.parametrize("bits", [1, 4, 8])
def test_undamaged_requests_pass(bits):
    sent = marked(GOOD) + b"\xc0\xc0" + marked(OTHER)
    assert received(sent, bits=bits) == (with_check(GOOD) + with_check(OTHER), 0)
    assert received(marked(GOOD)[:-2] + b"\xc0" + marked(OTHER), bits=bits) == (with_check(OTHER), 1)


@pytest.mark.parametrize(
    "damaged",
    [
        marked(GOOD)[1:],
        marked(GOOD)[:-2] + b"\xc0",
        marked(GOOD)[:9] + b"\x55" + marked(GOOD)[9:],
        bytes((marked(GOOD)[0] ^ 1,)) + marked(GOOD)[1:],
        b"\xdb\x00\xc0",
        marked(request(OP_WRITE, 3, bytes(8))),  # a length that is not that of the count
        marked(request(OP_READ, 3, bytes(4))),
        marked(b"\x01"),
        marked(request(OP_WRITE, 255, bytes(1020))),  # more than there is room for
    ],
)
def test_a_damaged_request_is_dropped_and_the_next_one_passes(damaged):
    assert received(damaged + marked(OTHER)) == (with_check(OTHER), 1)


def test_a_byte_that_the_line_calls_broken_drops_the_request():
    assert received(marked(GOOD) + marked(OTHER), broken=3) == (with_check(OTHER), 1)


@pytest.mark.parametrize("bits", [1, 4, 8])
def test_replies_are_marked_and_checked(bits):
    bodies = [b"\xc0\xdb\x00", bytes(range(0xB8, 0xE0)), b"\x01\x02\xdb", b"\xc0"]
    sender, found = PacketSender(bits), bytearray()
    rng = np.random.default_rng(0)
    done = False

    async def send(ctx):
        nonlocal done
        for body in bodies:
            for number, byte in enumerate(body):
                ctx.set(sender.data, byte)
                ctx.set(sender.last, number == len(body) - 1)
                ctx.set(sender.valid, 1)
                await ctx.tick().until(sender.ready)
                ctx.set(sender.valid, 0)
                await ctx.tick().repeat(int(rng.integers(0, 3)) + 1)
        done = True

    async def receive(ctx):
        quiet = 0
        while not done or quiet < 80:
            ctx.set(sender.byte_ready, int(rng.integers(0, 2)) or quiet > 3)
            sampled = ctx.tick().sample(sender.byte_valid, sender.byte_ready, sender.byte)
            *_, valid, ready, byte = await sampled
            quiet = 0 if valid else quiet + 1
            if valid and ready:
                found.append(byte)

    sim = Simulator(sender)
    sim.add_clock(1e-8)
    sim.add_testbench(receive)
    sim.add_testbench(send)
    sim.run()
    assert bytes(found) == b"".join(marked(body) for body in bodies)


def replies_of(*requests: bytes) -> list[bytes]:
    """What a bridge answers to requests in their order: bodies without the marks and the check."""
    shape = HostShape(True, 1, (IRVariable("n", -9, 9),), (), (0,), program="net", identity="1", cycles=9)
    bridge, found = PacketBridge(shape), [bytearray()]

    async def send(ctx):
        ctx.set(bridge.ready_out, 1)
        for byte in b"".join(map(marked, requests)):
            ctx.set(bridge.valid_in, 1)
            ctx.set(bridge.byte_in, byte)
            await ctx.tick()
        ctx.set(bridge.valid_in, 0)
        while len(found) <= len(requests):
            await ctx.tick()

    async def receive(ctx):
        async for *_, valid, byte in ctx.tick().sample(bridge.valid_out, bridge.byte_out):
            if valid and byte == 0xC0:
                found.append(bytearray())
            elif valid:
                found[-1].append(byte)

    sim = Simulator(bridge)
    sim.add_clock(1e-8)
    sim.add_testbench(send)
    sim.add_testbench(receive, background=True)
    sim.run()
    return [bytes(reply[3:-4]) for reply in found[:-1]]


@pytest.mark.parametrize(("value", "code", "after"), [(-9, 0, -9), (9, 0, 9), (-10, 7, 0), (256 + 5, 7, 0)])
def test_a_variable_is_a_word_with_a_sign(value, code, after):
    data, address = value.to_bytes(4, "little", signed=True), 0x40
    write, read = (
        number.to_bytes(2, "little") + bytes((operation, 1, address, 0, 0, 0)) + given
        for number, operation, given in ((0, 1, data), (1, 2, b""))
    )
    expected = after.to_bytes(4, "little", signed=True) + b"\x00"
    assert replies_of(write, read) == [bytes((code,)), expected]
