"""cocotb bench of the port axi-stream: a source and a sink of others, with random stalls, resets and wrong TLAST."""

import json
import logging
import os
import random
from pathlib import Path

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge, with_timeout

CASE = json.loads(Path(os.environ["TG2HDL_CASE"]).read_text())
RUNS = list(zip(CASE["packets_in"], CASE["packets_out"], strict=True))


def stalls(seed, probability):
    rng = random.Random(seed)
    while True:
        yield rng.random() < probability


class Streams:
    def __init__(self, dut):
        from cocotbext.axi import AxiStreamBus, AxiStreamSink, AxiStreamSource

        self.dut, self.dropped = dut, 0
        for name in ("s_axis_", "m_axis_"):
            logging.getLogger(f"cocotb.{dut._name}.{name}").setLevel(logging.WARNING)
        self.source = AxiStreamSource(
            AxiStreamBus.from_prefix(dut, "s_axis_"), dut.clk, dut.rst, byte_size=len(dut.s_axis__tdata)
        )
        self.sink = AxiStreamSink(
            AxiStreamBus.from_prefix(dut, "m_axis_"), dut.clk, dut.rst, byte_size=len(dut.m_axis__tdata)
        )
        cocotb.start_soon(self.count())

    def stall(self, inward, outward, seed):
        self.source.set_pause_generator(stalls(seed, inward))
        self.sink.set_pause_generator(stalls(seed + 1, outward))

    async def count(self):
        while True:
            await RisingEdge(self.dut.clk)
            self.dropped += self.dut.status__dropped.value == 1

    async def received(self):
        frame = await with_timeout(self.sink.recv(), 200, "us")
        return list(frame.tdata)


async def reset(dut):
    dut.rst.value = 1
    await ClockCycles(dut.clk, 4)
    dut.rst.value = 0
    await ClockCycles(dut.clk, 2)


async def opened(dut):
    cocotb.start_soon(Clock(dut.clk, 10, "ns").start())
    streams = Streams(dut)
    await reset(dut)
    return streams


@cocotb.test()
async def results_are_right_under_random_stalls(dut):
    streams = await opened(dut)
    for seed, (inward, outward) in enumerate([(0, 0), (0.6, 0), (0, 0.8), (0.5, 0.5)]):
        streams.stall(inward, outward, seed)
        for packet, _ in RUNS:
            await streams.source.send(packet)
        for _, expected in RUNS:
            assert await streams.received() == expected
    assert streams.dropped == 0


@cocotb.test()
async def a_sink_that_takes_nothing_for_long_loses_nothing(dut):
    streams = await opened(dut)
    streams.sink.pause = True
    for packet, _ in 3 * RUNS:
        await streams.source.send(packet)
    await ClockCycles(dut.clk, 3000)
    assert dut.s_axis__tready.value == 0
    streams.sink.pause = False
    for _, expected in 3 * RUNS:
        assert await streams.received() == expected


@cocotb.test()
async def packets_of_another_length_are_dropped(dut):
    streams = await opened(dut)
    streams.stall(0.3, 0.3, 7)
    (packet, expected), (other, found) = RUNS[:2]
    for wrong in (packet[:1], packet[:-1], [*packet, 1], packet + packet, packet[: len(packet) // 2]):
        await streams.source.send(wrong)
        await streams.source.send(other)
        assert await streams.received() == found
    assert streams.dropped == 5
    await streams.source.send(packet)
    assert await streams.received() == expected
    await ClockCycles(dut.clk, 300)
    assert streams.sink.empty()


@cocotb.test()
async def a_reset_in_the_middle_leaves_a_working_design(dut):
    streams = await opened(dut)
    (packet, _), (other, expected) = RUNS[:2]
    for cycles in (3, len(packet) + 2, len(packet) + 20, len(packet) + 45, len(packet) + 70):
        await streams.source.send(packet)
        await ClockCycles(dut.clk, cycles)
        await reset(dut)
        streams.source.clear()
        streams.sink.clear()
        await streams.source.send(other)
        assert await streams.received() == expected
