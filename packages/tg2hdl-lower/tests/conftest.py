"""Testbench: a planned kernel with its memories in Amaranth's simulator."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from amaranth.sim import Simulator

from tg2hdl_ir.golden import evaluate
from tg2hdl_lower import CompiledKernel

# Amaranth raises the limit when a design is elaborated; a change inside a test is an error for hypothesis.
sys.setrecursionlimit(10000)


def pytest_addoption(parser):
    parser.addoption("--update-expected", action="store_true", help="write the .expect files anew")


def _words(layout, dtype, array):
    width = dtype.bit_width
    rows = layout.pack(array, dtype)
    return [sum(int(bits) << (n * width) for n, bits in enumerate(row)) for row in rows]


def run(plan, buffers, variables=None, *, runs=1):
    """Contents of all buffers after the run, and the cycles from start to done."""
    dut = CompiledKernel(plan)
    variables = variables or {}
    limit = plan.cycles(variables) + 20
    result, cycles = {}, []

    async def bench(ctx):
        for name, value in variables.items():
            ctx.set(getattr(dut, f"var_{name}"), value)
        for idx, layout in plan.layouts.items():
            meta = plan.kernel.buffer(idx)
            array = buffers.get(idx, np.zeros(meta.depth, meta.dtype.numpy()))
            port = dut.buf_write_ports[idx]
            ctx.set(port["wen"], 1)
            for address, word in enumerate(_words(layout, plan.storage[idx], array)):
                ctx.set(port["waddr"], address)
                ctx.set(port["wdata"], word)
                await ctx.tick()
            ctx.set(port["wen"], 0)
        for _ in range(runs):
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
        for idx, layout in plan.layouts.items():
            port = dut.buf_read_ports[idx]
            width = plan.storage[idx].bit_width
            words = []
            for address in range(layout.words):
                ctx.set(port["raddr"], address)
                await ctx.tick().repeat(plan.read_latency)
                words.append(ctx.get(port["rdata"]))
            packed = np.array(
                [[(w >> (n * width)) & ((1 << width) - 1) for n in range(layout.lanes)] for w in words],
                dtype=np.uint64,
            )
            result[idx] = layout.unpack(packed, plan.storage[idx])

    sim = Simulator(dut)
    sim.add_clock(1e-8)
    sim.add_testbench(bench)
    sim.run()
    return result, cycles


def check(kernel, plan, buffers, variables=None, *, runs=1):
    """Simulated bits are the golden ones, and simulated cycles are the predicted ones."""
    expected = {idx: np.asarray(a).reshape(-1) for idx, a in buffers.items()}
    for _ in range(runs):
        expected |= evaluate(kernel, expected, variables)
    actual, cycles = run(plan, buffers, variables, runs=runs)
    for idx, array in expected.items():
        dtype = kernel.buffer(idx).dtype
        np.testing.assert_array_equal(
            dtype.array_to_bits(actual[idx].astype(dtype.numpy())),
            dtype.array_to_bits(array),
            err_msg=f"buffer {idx}\n{plan.format()}",
        )
    assert cycles == [plan.cycles(variables)] * runs


@pytest.fixture(scope="session")
def simulate():
    return run


@pytest.fixture(scope="session")
def same_as_golden():
    return check


@pytest.fixture
def expect(request):
    """Compare a text with ``expected/NAME.expect``; ``--update-expected`` writes it."""

    def compare(name, text):
        path = request.path.parent / "expected" / f"{name}.expect"
        if request.config.getoption("--update-expected"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text + "\n")
        assert text + "\n" == path.read_text()

    return compare
