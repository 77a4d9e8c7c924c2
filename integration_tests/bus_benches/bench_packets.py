"""cocotb benches of the packet ports: the driver's own packets through a serial line, or a master of SPI."""

import json
import logging
import os
import random
from pathlib import Path

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, Timer, with_timeout

from tg2hdl_host.protocol import Decoder, read, run, synchronize, write

CASE = json.loads(Path(os.environ["TG2HDL_CASE"]).read_text())
BUFFERS = {name: (address, np.dtype(dtype)) for name, _, dtype, _, address, _ in CASE["map"]["buffers"]}
START, STATUS, RUNS, LINK_ERRORS = 0x18, 0x1C, 0x20, 0x2C
DIVISOR = 5
CASES = list(zip(CASE["inputs"][:2], CASE["outputs"][:2], strict=True))


class Uart:
    def __init__(self, dut):
        from cocotbext.uart import UartSink, UartSource

        dut.uart__divisor.value = DIVISOR
        for name in ("rx", "tx"):
            logging.getLogger(f"cocotb.{dut._name}.uart__{name}").setLevel(logging.WARNING)
        baud = 100_000_000 // DIVISOR
        self.source, self.sink = UartSource(dut.uart__rx, baud=baud), UartSink(dut.uart__tx, baud=baud)

    async def send(self, data):
        await self.source.write(data)
        await self.source.wait()

    async def receive(self):
        return bytes(await with_timeout(self.sink.read(1), 100, "us"))

    async def break_off(self, rng):
        await self.send(bytes(rng.randrange(256) for _ in range(rng.randrange(1, 9))))
        await self.send(b"\xc0")


class Spi:
    """A master of mode 0 whose clock is not that of the design, and which may break off a byte anywhere."""

    def __init__(self, dut):
        self.dut, self.random, self.heard = dut, random.Random(5), bytearray()
        dut.spi__cs_n.value, dut.spi__sclk.value, dut.spi__mosi.value = 1, 0, 0

    async def shift(self, byte, bits=8):
        dut, found, half = self.dut, 0, self.random.choice((51, 53, 67))
        if dut.spi__cs_n.value == 1:
            dut.spi__cs_n.value = 0
            await Timer(half, "ns")
        for n in range(bits):
            dut.spi__mosi.value = (byte >> (7 - n)) & 1
            await Timer(half, "ns")
            found = found << 1 | int(dut.spi__miso.value)
            dut.spi__sclk.value = 1
            await Timer(half, "ns")
            dut.spi__sclk.value = 0
        await Timer(half, "ns")
        if bits < 8 or self.random.random() < 0.3:
            dut.spi__cs_n.value = 1
            await Timer(self.random.choice((60, 400)), "ns")
        return found

    async def send(self, data):
        for byte in data:
            self.heard.append(await self.shift(byte))

    async def receive(self):
        heard, self.heard = bytes(self.heard), bytearray()
        return heard or bytes((await self.shift(0xC0),))

    async def break_off(self, rng):
        # Selected for no bit, and for a part of a byte, which is not received.
        for bits in (0, rng.randrange(1, 8), rng.randrange(1, 8)):
            await self.shift(rng.randrange(256), bits)


class Host:
    def __init__(self, dut):
        self.link = {"uart": Uart, "spi": Spi}[CASE["port"]](dut)
        self.sequence, self.decoder, self.replies = 0, Decoder(), []

    async def ask(self, requests):
        answers = []
        for request in requests:
            await self.link.send(request.encode(self.sequence))
            for _ in range(4000):
                if self.replies:
                    break
                self.replies += self.decoder.feed(await self.link.receive())
            reply = self.replies.pop(0)
            assert reply.sequence == self.sequence
            self.sequence = (self.sequence + 1) & 0xFFFF
            answers.append(reply)
        return answers

    async def word(self, address):
        (answer,) = await self.ask(read(address, 4, ""))
        return int.from_bytes(answer.data, "little") if answer.code == 0 else -answer.code

    async def put(self, address, data):
        (answer,) = await self.ask(write(address, data, ""))
        return answer.code

    async def load(self, array):
        return await self.put(BUFFERS["x"][0], np.asarray(array, BUFFERS["x"][1]).tobytes())

    async def start(self):
        return await self.put(START, (await self.word(RUNS)).to_bytes(4, "little"))

    async def result(self):
        """The output; a read while the design runs waits in the device."""
        address, dtype = BUFFERS["output"]
        size = len(CASE["outputs"][0]) * dtype.itemsize
        (answer,) = await self.ask(read(address, size, ""))
        assert answer.code == 0
        return np.frombuffer(answer.data[:size], dtype).tolist()


async def reset(dut):
    dut.rst.value = 1
    await ClockCycles(dut.clk, 4)
    dut.rst.value = 0
    await ClockCycles(dut.clk, 2)


async def opened(dut):
    cocotb.start_soon(Clock(dut.clk, 10, "ns").start())
    host = Host(dut)
    await reset(dut)
    await host.link.send(b"\xc0\xc0")
    await host.ask([synchronize()])
    return host


@cocotb.test()
async def results_are_right(dut):
    host = await opened(dut)
    for x, y in CASES:
        assert await host.load(x) == 0
        assert await host.start() == 0
        assert await host.result() == y
    assert await host.word(LINK_ERRORS) == 0


@cocotb.test()
async def refused_accesses_change_nothing(dut):
    host = await opened(dut)
    x, y = BUFFERS["x"][0], BUFFERS["output"][0]
    assert await host.word(y) == -4  # before any run
    assert await host.put(x + 4, bytes(4)) == 2
    assert await host.put(RUNS, bytes(4)) == 1
    assert await host.word(0x7FFFFFF0) == -1  # beyond the map
    assert await host.put(START, b"\x07\0\0\0") == 5  # another number than RUNS
    await host.put(x, bytes(4))
    assert await host.put(START, bytes(4)) == 6  # an input is written in part
    assert await host.load(CASE["inputs"][0]) == 0
    assert await host.start() == 0
    assert await host.put(START, bytes(4)) == 5  # the run that has begun is not begun again
    assert await host.result() == CASE["outputs"][0]
    assert await host.word(RUNS) == 1


@cocotb.test()
async def an_input_and_its_output_are_a_packet_each(dut):
    host = await opened(dut)
    size = len(CASE["outputs"][0]) * BUFFERS["output"][1].itemsize
    for number, (x, y) in enumerate(CASES):
        data = np.asarray(x, BUFFERS["x"][1]).tobytes()
        data += bytes(-len(data) % 4)
        refused = [
            run(number + 1, data, size),
            run(number, data[4:], size),
            run(number, data + bytes(4), size),
        ]
        assert [answer.code for answer in await host.ask(refused)] == [5, 2, 2]
        (answer,) = await host.ask([run(number, data, size)])
        assert answer.code == 0
        assert np.frombuffer(answer.data[:size], BUFFERS["output"][1]).tolist() == y
    assert await host.word(RUNS) == len(CASES)
    assert await host.word(LINK_ERRORS) == 0


@cocotb.test()
async def what_is_broken_off_is_dropped(dut):
    host, rng = await opened(dut), random.Random(3)
    for x, y in CASES:
        await host.link.break_off(rng)
        assert await host.load(x) == 0
        await host.link.break_off(rng)
        assert await host.start() == 0
        assert await host.result() == y


@cocotb.test()
async def a_reset_in_the_middle_leaves_a_working_design(dut):
    host = await opened(dut)
    for cycles in (1, 300):
        await host.link.send(write(BUFFERS["x"][0], bytes(16), "")[0].encode(host.sequence)[:9])
        await ClockCycles(dut.clk, cycles)
        await reset(dut)
        await host.link.send(b"\xc0\xc0")
        host.replies.clear()
        await host.ask([synchronize()])
        assert await host.word(RUNS) == 0
        assert await host.load(CASE["inputs"][1]) == 0
        assert await host.start() == 0
        assert await host.result() == CASE["outputs"][1]
