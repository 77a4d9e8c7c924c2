"""Sliding windows: words that an earlier step has read come from delay lines."""

from __future__ import annotations

import numpy as np
import pytest
from amaranth import Module, Signal, unsigned
from amaranth.sim import Simulator
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from tg2hdl_ir.testing.samples import padded_convolution
from tg2hdl_ir.testing.strategies import arrays
from tg2hdl_lower import Layout, plan_kernel
from tg2hdl_lower.delay_lines import delayed
from tg2hdl_lower.memories import SMALL_BITS


def contents(kernel):
    return {b.idx: arrays(b.dtype, b.depth, b.idx) for b in kernel.buffers}


def reads_of(plan):
    """Loads of the image, and the lengths of its delay lines (steps)."""
    nodes = [plan.nodes[n] for leaf in plan.leaves for n in leaf.nodes]
    loads = [n for n in nodes if n.kind == "load" and n.buffer == 1]
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
    kernel = padded_convolution(channels, (6, 5), (3, 3), (top, left))
    plan = plan_kernel(kernel, lanes={3: 3, 4: 3}, layouts={2: Layout.linear(9 * channels, 9)})
    assert plan.ii == 1
    assert reads_of(plan) == (loads, steps)
    same_as_golden(kernel, plan, contents(kernel), runs=2)


def test_a_long_line_is_block_ram(same_as_golden):
    kernel = padded_convolution(1, (3, 260), (3, 1), (1, 0))
    plan = plan_kernel(kernel, lanes={3: 3}, layouts={2: Layout.linear(3, 3)})
    assert reads_of(plan) == (2, [260])
    assert SMALL_BITS < 260 * 8
    same_as_golden(kernel, plan, contents(kernel))


@pytest.mark.parametrize(
    ("lanes", "products"),
    [({1: 4, 3: 3, 4: 3}, 36 - 6), ({0: 3, 1: 4, 3: 3, 4: 3}, 108 - 3 * 6 - 2 * 12 + 4)],
)
def test_lanes_in_the_padding_take_no_multiplier(lanes, products, same_as_golden):
    kernel = padded_convolution(2, (3, 4), (3, 3), (1, 1))
    plan = plan_kernel(kernel, lanes=lanes, layouts={1: Layout.linear(24, 12), 2: Layout.linear(18, 9)})
    assert plan.multipliers == products
    same_as_golden(kernel, plan, contents(kernel))


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
    outside = data.draw(st.integers(0, rows - 1)), data.draw(st.integers(0, columns - 1))
    kernel = padded_convolution(channels, size, window, outside)
    lanes = {1: data.draw(st.integers(1, min(3, width))), 3: rows, 4: columns}
    layouts = {1: Layout.linear(channels * height * width, data.draw(st.integers(1, 3)))}
    plan = plan_kernel(kernel, lanes=lanes, layouts=layouts)
    assume(plan.cycles() <= 300)
    same_as_golden(kernel, plan, contents(kernel), runs=2)


@pytest.mark.parametrize("cycles", [0, 1, 4, 5, 6, 40, 130])
@pytest.mark.parametrize("width", [1, 32])
def test_delay_lines(cycles, width):
    m = Module()
    value = Signal(unsigned(width))
    line = delayed(m, value, cycles, "line")
    # The clock is there even when the line has no register.
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
