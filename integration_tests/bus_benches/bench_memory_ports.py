"""cocotb bench of the ports to memory outside the chip: memories of others or by the rules of the bus, with stalls."""

import logging
import random
from pathlib import Path

import cocotb
from bench_bus_ports import CASE, opened, run, stalls
from cocotb.triggers import ReadOnly, RisingEdge

IMAGE = Path(CASE["image"]).read_bytes()
BASE = 0x2000


def axi_memory(dut):
    from cocotbext.axi import AxiRamRead, AxiReadBus

    logging.getLogger(f"cocotb.{dut._name}.m_axi_").setLevel(logging.WARNING)
    memory = AxiRamRead(AxiReadBus.from_prefix(dut, "m_axi_"), dut.clk, dut.rst, size=1 << 16)
    memory.write(BASE, IMAGE)
    memory.ar_channel.set_pause_generator(stalls(8))
    memory.r_channel.set_pause_generator(stalls(9))


async def wishbone_memory(dut):
    """A slave of classic cycles that holds each word back for a random time, and gives it for one acknowledge."""
    rng = random.Random(8)
    dut.m_wb__ack.value = dut.m_wb__err.value = 0
    while True:
        await RisingEdge(dut.clk)
        dut.m_wb__ack.value = 0
        await ReadOnly()
        asks = dut.m_wb__cyc.value == 1 and dut.m_wb__stb.value == 1
        if asks and rng.random() < 0.6:
            assert dut.m_wb__we.value == 0
            assert dut.m_wb__sel.value.to_unsigned() == 15
            start = 4 * dut.m_wb__adr.value.to_unsigned() - BASE
            word = int.from_bytes(IMAGE[start : start + 4], "little")
            await RisingEdge(dut.clk)
            dut.m_wb__dat_r.value = word
            dut.m_wb__ack.value = 1


@cocotb.test()
async def results_are_right_under_random_stalls_of_the_memory(dut):
    dut.memory_base.value = BASE
    if CASE["memory"] == "axi4":
        axi_memory(dut)
    else:
        cocotb.start_soon(wishbone_memory(dut))
    bus = await opened(dut)
    for x, y in zip(CASE["inputs"], CASE["outputs"], strict=True):
        assert await run(bus, x) == y
    assert dut.memory_failed.value == 0
