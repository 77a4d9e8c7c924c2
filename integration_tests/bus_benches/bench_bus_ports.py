"""cocotb benches of the bus ports: masters of others on the emitted Verilog, with random stalls and resets."""

import json
import logging
import os
import random
from pathlib import Path

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge

CASE = json.loads(Path(os.environ["TG2HDL_CASE"]).read_text())
BUFFERS = {name: (address, np.dtype(dtype)) for name, _, dtype, _, address, _ in CASE["map"]["buffers"]}
START, STATUS, RUNS, ERROR = 0x18, 0x1C, 0x20, 0x28
GO, IRQ_ENABLE, IRQ_PENDING = 0x34, 0x38, 0x3C


def stalls(seed):
    rng = random.Random(seed)
    while True:
        yield rng.random() < 0.4


class Axi:
    def __init__(self, dut):
        from cocotbext.axi import AxiLiteBus, AxiLiteMaster, AxiResp

        logging.getLogger(f"cocotb.{dut._name}.s_axil_").setLevel(logging.WARNING)
        self.okay = AxiResp.OKAY
        self.master = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil_"), dut.clk, dut.rst)
        channels = (
            self.master.write_if.aw_channel,
            self.master.write_if.w_channel,
            self.master.write_if.b_channel,
        )
        channels += (self.master.read_if.ar_channel, self.master.read_if.r_channel)
        for number, channel in enumerate(channels):
            channel.set_pause_generator(stalls(number))

    async def write(self, address, word):
        answer = await self.master.write(address, word.to_bytes(4, "little"))
        return answer.resp == self.okay

    async def write_bytes(self, address, data):
        answer = await self.master.write(address, data)
        assert answer.resp == self.okay

    async def read(self, address):
        answer = await self.master.read(address, 4)
        return int.from_bytes(answer.data, "little") if answer.resp == self.okay else None


class Wishbone:
    """A master of classic cycles, with random pauses."""

    def __init__(self, dut):
        from cocotbext.wishbone import driver

        # Icarus does not carry immediate values on into instances.
        driver.set_immediate = lambda signal, value: setattr(signal, "value", value)
        names = {"datwr": "dat_w", "datrd": "dat_r"}
        names |= {name: name for name in ("cyc", "stb", "we", "adr", "ack", "sel", "err")}
        self.master = driver.WishboneMaster(dut, "wb_", dut.clk, timeout=200, signals_dict=names)
        self.operation, self.random = driver.WBOp, random.Random(0)

    async def access(self, address, word=None, sel=None):
        pause = self.random.randrange(3)
        operation = self.operation(address >> 2, word, sel=sel, idle=pause, acktimeout=200)
        (answer,) = await self.master.send_cycle([operation])
        return answer

    async def write(self, address, word):
        return (await self.access(address, word)).ack == 1

    async def write_bytes(self, address, data):
        for place, byte in enumerate(data, address):
            assert (await self.access(place, byte << 8 * (place % 4), 1 << place % 4)).ack == 1

    async def read(self, address):
        answer = await self.access(address)
        return int(answer.datrd) if answer.ack == 1 else None


async def reset(dut):
    dut.rst.value = 1
    await ClockCycles(dut.clk, 4)
    dut.rst.value = 0
    await ClockCycles(dut.clk, 2)


async def opened(dut):
    cocotb.start_soon(Clock(dut.clk, 10, "ns").start())
    bus = {"axi-lite": Axi, "wishbone": Wishbone}[CASE["port"]](dut)
    await reset(dut)
    return bus


async def load(bus, array, words=None):
    raw = np.asarray(array, BUFFERS["x"][1]).tobytes()
    raw += bytes(-len(raw) % 4)
    for n, word in enumerate(np.frombuffer(raw, "<u4")[:words].tolist()):
        assert await bus.write(BUFFERS["x"][0] + 4 * n, word)


async def run(bus, array):
    await load(bus, array)
    assert await bus.write(START, await bus.read(RUNS))
    while not await bus.read(STATUS) & 2:
        pass
    address, dtype = BUFFERS["output"]
    size = len(CASE["outputs"][0])
    words = [await bus.read(address + 4 * n) for n in range(-(-size * dtype.itemsize // 4))]
    return np.array(words, "<u4").view(dtype)[:size].tolist()


@cocotb.test()
async def results_are_right_under_random_stalls(dut):
    bus = await opened(dut)
    for x, y in zip(CASE["inputs"], CASE["outputs"], strict=True):
        assert await run(bus, x) == y
    assert await bus.read(ERROR) == 0


async def refused(bus, code, access):
    """An access is answered as others, and its code is in ERROR."""
    assert await access in (0, True)
    assert await bus.read(ERROR) == code
    assert await bus.write(ERROR, 0)
    assert await bus.read(ERROR) == 0


@cocotb.test()
async def refused_accesses_change_nothing(dut):
    bus = await opened(dut)
    x, y = BUFFERS["x"][0], BUFFERS["output"][0]
    await refused(bus, 4, bus.read(y))  # before any run
    for address, code in ((x + 4, 2), (RUNS, 1), (y, 1), (0xFC, 1)):
        await refused(bus, code, bus.write(address, 0))
    await refused(bus, 5, bus.write(START, 7))  # another number than RUNS
    await load(bus, CASE["inputs"][0], words=1)
    await refused(bus, 6, bus.write(START, 0))  # an input is written in part
    await refused(bus, 6, bus.write(GO, 0))
    await load(bus, CASE["inputs"][0])
    assert await bus.write(START, 0)
    await bus.write(START, 1)  # while it runs
    await refused(bus, 3, bus.write(x, 0))
    assert await bus.read(RUNS) == 1
    while not await bus.read(STATUS) & 2:
        pass
    assert await run(bus, CASE["inputs"][1]) == CASE["outputs"][1]


@cocotb.test()
async def bytes_and_repeated_words_as_memcpy_writes_them(dut):
    bus, rng = await opened(dut), random.Random(7)
    base, dtype = BUFFERS["x"]
    for x, y in zip(CASE["inputs"], CASE["outputs"], strict=True):
        raw, done = np.asarray(x, dtype).tobytes(), 0
        while done < len(raw):
            some = rng.randint(1, 7)
            if rng.random() < 0.5:  # other values first, in the same word
                await bus.write_bytes(base + done, bytes(b ^ 255 for b in raw[done : done // 4 * 4 + 4]))
            await bus.write_bytes(base + done, raw[done : done + some])
            done += some
        assert await bus.write(GO, rng.getrandbits(32))
        while not await bus.read(STATUS) & 2:
            pass
        address, output = BUFFERS["output"]
        words = []
        for n in range(-(-len(y) * output.itemsize // 4)):
            words.append(await bus.read(address + 4 * n))
            assert await bus.read(address + 4 * n) == words[-1]  # a word of bytes is read once for each
        assert np.array(words, "<u4").view(output)[: len(y)].tolist() == y
    assert await bus.read(ERROR) == 0
    await bus.write_bytes(base, b"\1\2")  # two bytes are missing
    await refused(bus, 2, bus.write(base + 4, 0))
    await refused(bus, 6, bus.write(GO, 0))


@cocotb.test()
async def interrupts(dut):
    bus = await opened(dut)
    await run(bus, CASE["inputs"][0])
    assert await bus.read(IRQ_PENDING) == 1
    assert dut.irq.value == 0  # not enabled
    assert await bus.write(IRQ_PENDING, 1)
    assert await bus.write(IRQ_ENABLE, 3)
    assert await bus.read(IRQ_ENABLE) == 3
    assert dut.irq.value == 0
    await load(bus, CASE["inputs"][0])
    assert await bus.write(GO, 0)
    await RisingEdge(dut.irq)
    assert await bus.read(STATUS) & 2
    assert await bus.write(IRQ_PENDING, 2)  # another bit
    assert dut.irq.value == 1
    assert await bus.write(IRQ_PENDING, 1)
    assert await bus.read(IRQ_PENDING) == 0
    assert dut.irq.value == 0
    await bus.write(RUNS, 0)
    assert dut.irq.value == 1
    assert await bus.read(IRQ_PENDING) == 2


@cocotb.test()
async def a_reset_in_the_middle_leaves_a_working_design(dut):
    bus = await opened(dut)
    for cycles in (1, 20, 60):
        await load(bus, CASE["inputs"][0])
        assert await bus.write(START, await bus.read(RUNS))
        await ClockCycles(dut.clk, cycles)
        await reset(dut)
        assert await bus.read(RUNS) == 0
        assert await bus.read(STATUS) == 0
        assert await run(bus, CASE["inputs"][2]) == CASE["outputs"][2]
