"""Sliding windows: words that an earlier step has read come from delay lines."""

from __future__ import annotations

import numpy as np
import pytest
from amaranth import Module, Signal, unsigned
from amaranth.sim import Simulator
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from tg2hdl_ir.dtype import DType
from tg2hdl_ir.nodes import (
    BufferMeta,
    IRBufLoad,
    IRBufStore,
    IRConst,
    IRCounter,
    IROp,
    IRRegLoad,
    IRRegStore,
    KernelIR,
    LoopIR,
    RegisterMeta,
)
from tg2hdl_lower import Layout, plan_kernel
from tg2hdl_lower.delay_lines import delayed

I32, I8, BOOL = DType.INT32, DType.INT8, DType.BOOL


def number(value):
    return IRConst(value, I32)


def add(*terms):
    total, *rest = terms
    for term in rest:
        total = IROp("add", I32, (total, term))
    return total


def times(value, factor):
    return IROp("mul", I32, (value, number(factor)))


def inside(place, size):
    return IROp("and", BOOL, (IROp("lt", BOOL, (number(-1), place)), IROp("lt", BOOL, (place, number(size)))))


def convolution(channels, height, width, rows, columns, top, left):
    """Sums of windows, of which `top` rows and `left` columns lie outside of the image at its first pixel."""
    y, x = IRCounter(height, 0, 0), IRCounter(width, 1, 1)
    c, ky, kx = IRCounter(channels, 2, 2), IRCounter(rows, 3, 3), IRCounter(columns, 4, 4)
    line, column = add(y, ky, number(-top)), add(x, kx, number(-left))
    gate = IROp("and", BOOL, (inside(line, height), inside(column, width)))
    place = add(times(c, height * width), times(line, width), column)
    load = IRBufLoad(0, place, I8, gate, IRConst(0, I8))
    weight = IRBufLoad(1, add(times(c, rows * columns), times(ky, columns), kx), I8)
    before, after = IRRegLoad(I32), IRRegLoad(I32)
    product = IROp("mul", I32, tuple(IROp("cast", I32, (v,)) for v in (load, weight)))
    items = (load, weight, before, IRRegStore(add(before, product)))
    for counter in (kx, ky, c):
        items = (LoopIR.from_items(items, counter=counter, axis_type="reduce"),)
    store = IRBufStore(2, add(times(y, width), x), after, I32)
    inner = LoopIR.from_items((IRRegStore(number(0)), *items, after, store), counter=x)
    buffers = (
        BufferMeta(0, channels * height * width, I8, False),
        BufferMeta(1, channels * rows * columns, I8, False),
        BufferMeta(2, height * width, I32, True),
    )
    root = LoopIR.from_items((LoopIR.from_items((inner,), counter=y),))
    return KernelIR(buffers, root, (RegisterMeta(0, I32),), name="convolution")


def contents(kernel):
    rng = np.random.default_rng(0)
    return {
        b.idx: rng.integers(b.dtype.min_value, b.dtype.max_value, b.depth, b.dtype.numpy(), endpoint=True)
        for b in kernel.buffers
    }


def reads_of(plan, buffer=0):
    nodes = [plan.nodes[n] for leaf in plan.leaves for n in leaf.nodes]
    loads = [n for n in nodes if n.kind == "load" and n.buffer == buffer]
    return len(loads), sorted(n.value for n in nodes if n.kind == "reuse")


@pytest.mark.parametrize(
    ("channels", "top", "left", "loads", "steps"),
    [
        (1, 1, 1, 4, [1, 1, 1, 5, 5]),
        (2, 1, 1, 4, [2, 2, 2, 10, 10]),
        (1, 2, 2, 1, [1, 1, 1, 1, 1, 1, 5, 5]),
        (1, 2, 0, 3, [5, 5, 5, 5, 5, 5]),
        (1, 0, 0, 9, []),
    ],
)
def test_ports_of_a_padded_window(channels, top, left, loads, steps, same_as_golden):
    kernel = convolution(channels, 6, 5, 3, 3, top, left)
    plan = plan_kernel(kernel, lanes={3: 3, 4: 3}, layouts={1: Layout.linear(9 * channels, 9)})
    assert plan.ii == 1
    assert reads_of(plan) == (loads, steps)
    same_as_golden(kernel, plan, contents(kernel), runs=2)


@settings(
    deadline=None,
    derandomize=True,
    max_examples=25,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)
@given(
    channels=st.integers(1, 3),
    size=st.tuples(st.integers(1, 6), st.integers(1, 6)),
    window=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    data=st.data(),
)
def test_windows_of_all_shapes(channels, size, window, data, same_as_golden):
    (height, width), (rows, columns) = size, window
    top, left = data.draw(st.integers(0, rows - 1)), data.draw(st.integers(0, columns - 1))
    kernel = convolution(channels, height, width, rows, columns, top, left)
    lanes = {0: 1, 1: data.draw(st.integers(1, min(3, width))), 3: rows, 4: columns}
    layouts = {0: Layout.linear(channels * height * width, data.draw(st.integers(1, 3)))}
    plan = plan_kernel(kernel, lanes=lanes, layouts=layouts)
    assume(plan.cycles() <= 300)
    same_as_golden(kernel, plan, contents(kernel), runs=2)


@pytest.mark.parametrize("cycles", [0, 1, 4, 5, 6, 40, 130])
@pytest.mark.parametrize("width", [1, 32])
def test_delay_lines(cycles, width):
    m = Module()
    value = Signal(unsigned(width))
    line = delayed(m, value, cycles, "line")
    m.d.sync += Signal().eq(value[0])
    values = [int(v) for v in np.random.default_rng(1).integers(0, 1 << width, 3 * cycles + 9, np.uint64)]
    seen = []

    async def bench(ctx):
        for v in values:
            ctx.set(value, v)
            seen.append(ctx.get(line))
            await ctx.tick()

    sim = Simulator(m)
    sim.add_clock(1e-8)
    sim.add_testbench(bench)
    sim.run()
    assert seen[cycles:] == values[: len(values) - cycles]
