"""Testbench: a planned kernel with its memories in Amaranth's simulator."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest
from amaranth.hdl import ResetInserter, Signal
from amaranth.sim import Simulator

from tg2hdl_ir import evaluate
from tg2hdl_lower import CompiledKernel

# Amaranth raises the limit when a design is elaborated; a change inside a test is an error for hypothesis.
sys.setrecursionlimit(10000)


def _words(layout, dtype, array):
    width = dtype.bit_width
    rows = layout.pack(array, dtype)
    return [sum(int(bits) << (n * width) for n, bits in enumerate(row)) for row in rows]


def run(plan, buffers, variables=None, *, runs=1, reset_after=None, reload=False):
    """Contents of all buffers after the run, and the cycles from start to done.

    A first run may be ended by a reset some cycles after its start; `reload` writes the buffers before each run.
    """
    dut = CompiledKernel(plan)
    reset = Signal()
    variables = variables or {}
    limit = plan.cycles(variables) + 20
    result, cycles = {}, []

    async def load(ctx):
        words = {}
        for idx, layout in plan.layouts.items():
            meta = plan.kernel.buffer(idx)
            array = buffers.get(idx, np.zeros(meta.depth, meta.dtype.numpy()))
            words[idx] = _words(layout, plan.storage[idx], array)
        for address in range(max(map(len, words.values()))):
            for idx, port in dut.buf_write_ports.items():
                ctx.set(port["wen"], address < len(words[idx]))
                if address < len(words[idx]):
                    ctx.set(port["waddr"], address)
                    ctx.set(port["wdata"], words[idx][address])
            await ctx.tick()
        for port in dut.buf_write_ports.values():
            ctx.set(port["wen"], 0)

    async def read(ctx):
        sizes = {idx: layout.words for idx, layout in plan.layouts.items()}
        packed = {idx: np.zeros((n, plan.layouts[idx].lanes), np.uint64) for idx, n in sizes.items()}
        for cycle in range(max(sizes.values()) + max(plan.latencies.values())):
            for idx, port in dut.buf_read_ports.items():
                if cycle < sizes[idx]:
                    ctx.set(port["raddr"], cycle)
                address = cycle - plan.latencies[idx]
                if 0 <= address < sizes[idx]:
                    word, width = ctx.get(port["rdata"]), plan.storage[idx].bit_width
                    for lane in range(plan.layouts[idx].lanes):
                        packed[idx][address, lane] = (word >> (lane * width)) & ((1 << width) - 1)
            await ctx.tick()
        for idx, layout in plan.layouts.items():
            result[idx] = layout.unpack(packed[idx], plan.storage[idx])

    async def bench(ctx):
        for name, value in variables.items():
            ctx.set(getattr(dut.variables, name), value)
        await load(ctx)
        if reset_after is not None:
            ctx.set(dut.start, 1)
            await ctx.tick()
            ctx.set(dut.start, 0)
            await ctx.tick().repeat(reset_after)
            ctx.set(reset, 1)
            await ctx.tick()
            ctx.set(reset, 0)
            assert not ctx.get(dut.busy), "idle after a reset"
        for number in range(runs):
            if reload and (number or reset_after is not None):
                await load(ctx)
            ctx.set(dut.start, 1)
            await ctx.tick()
            ctx.set(dut.start, 0)
            count = 1
            while not ctx.get(dut.done):
                assert ctx.get(dut.busy), "busy until done"
                assert count < limit, "the kernel does not end"
                await ctx.tick()
                count += 1
            cycles.append(count)
            await ctx.tick()
            assert not ctx.get(dut.busy), "idle after done"
        await read(ctx)

    sim = Simulator(ResetInserter(reset)(dut))
    sim.add_clock(1e-8)
    sim.add_testbench(bench)
    sim.run()
    return result, cycles


def check(kernel, plan, buffers, variables=None, *, runs=1, reset_after=None, reload=False):
    """Simulated bits are the golden ones, and simulated cycles are the predicted ones."""
    expected = {idx: np.asarray(a).reshape(-1) for idx, a in buffers.items()}
    for _ in range(1 if reload else runs):
        expected |= evaluate(kernel, expected, variables)
    actual, cycles = run(plan, buffers, variables, runs=runs, reset_after=reset_after, reload=reload)
    for idx, array in expected.items():
        dtype = kernel.buffer(idx).dtype
        found, wanted = dtype.array_to_bits(actual[idx].astype(dtype.numpy())), dtype.array_to_bits(array)
        if not np.array_equal(found, wanted):
            np.testing.assert_array_equal(found, wanted, err_msg=f"buffer {idx}\n{plan.format()}")
    assert cycles == [plan.cycles(variables)] * runs


@pytest.fixture(scope="session")
def simulate():
    return run


@pytest.fixture(scope="session")
def same_as_golden():
    return check


@pytest.fixture
def expect():
    """Compare text with a file in tests/expect, or rewrite it when UPDATE_EXPECT=1 is in the environment."""

    def compare(name: str, text: str) -> None:
        path = Path(__file__).parent / "expect" / name
        if os.environ.get("UPDATE_EXPECT") == "1":
            path.parent.mkdir(exist_ok=True)
            path.write_text(text + "\n")
        assert text + "\n" == path.read_text()

    return compare
