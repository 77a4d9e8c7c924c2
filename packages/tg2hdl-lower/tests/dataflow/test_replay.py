"""Sliding windows: words already fetched are replayed from delay lines."""

from __future__ import annotations

import numpy as np
import pytest
from amaranth import Module, Signal, unsigned
from amaranth.sim import Simulator
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from tg2hdl_ir import Affine
from tg2hdl_ir.testing.samples import padded_convolution
from tg2hdl_ir.testing.strategies import arrays
from tg2hdl_lower import Layout, plan_kernel
from tg2hdl_lower.families import GENERIC
from tg2hdl_lower.lanes.candidates import packed_layouts
from tg2hdl_lower.lanes.demand import buffer_accesses
from tg2hdl_lower.memory.layout import MovingDigit, Row
from tg2hdl_lower.plan.accesses import Load, Replay
from tg2hdl_lower.plan.delay_line import DelayLine


def contents(kernel):
    return {b.idx: arrays(b.dtype, b.depth, b.idx) for b in kernel.buffers}


def reads_of(plan):
    """Loads of the image, and the lengths of its delay lines (steps)."""
    loads = [n for n in plan.all(Load) if n.buffer == 1]
    return len(loads), sorted(n.steps for n in plan.all(Replay))


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
    assert GENERIC.memory.lut_bits < 260 * 8
    same_as_golden(kernel, plan, contents(kernel))


@pytest.mark.parametrize(
    ("split", "lanes", "words"),
    [
        (4, {1: 4}, 2),  # an unaligned word is in two
        (4, {1: 4, 4: 3}, 2),  # outputs 4 apart begin with a word: 6 elements of two
        (6, {1: 4}, 2),
        (3, {1: 5}, 3),
        (2, {1: 6}, 4),
        (8, {1: 2}, 2),
        (4, {1: 2, 3: 2}, 4),  # two rows
        (5, {1: 3, 3: 3, 4: 3}, 6),
    ],
)
def test_elements_in_a_row_share_two_words(split, lanes, words, same_as_golden):
    kernel = padded_convolution(1, (3, 12), (3, 3), (0, 0))
    layouts = {1: Layout((3, 12), (1, split))}
    assert buffer_accesses(kernel)[1].use(lanes, layouts[1]).reads == words
    plan = plan_kernel(kernel, lanes=lanes, layouts=layouts)
    assert reads_of(plan)[0] == words
    same_as_golden(kernel, plan, contents(kernel), runs=2)


def test_lines_that_are_no_multiple_of_their_lanes_begin_with_a_word(same_as_golden):
    kernel = padded_convolution(1, (3, 13), (3, 3), (1, 1))
    lines, lanes = buffer_accesses(kernel)[0], {1: 4}
    best = min(packed_layouts(lines.found, lanes, 39), key=lambda layout: lines.use(lanes, layout).writes)
    assert (str(best), lines.use(lanes, best).writes) == ("3x13/4", 1)
    assert lines.use(lanes, Layout.linear(39, 4)).writes == 4
    plan = plan_kernel(kernel, lanes=lanes, layouts={0: best, 1: best})
    assert plan.ii == 1
    same_as_golden(kernel, plan, contents(kernel))


@given(
    consts=st.sets(st.integers(-20, 20), min_size=1, max_size=8),
    split=st.integers(2, 8),
    data=st.data(),
)
def test_every_element_of_a_row_is_in_one_of_its_words(consts, split, data):
    step = data.draw(st.sampled_from([n for n in range(1, split) if split % n == 0]))
    span = Row(Affine(0), MovingDigit(Affine(0), split, step, 1, 1)).span(consts)
    start, words = span.start, span.words
    alone = len({c - c % step for c in consts})
    assert words == alone if start is None else words < alone
    if start is not None:
        needed = {(position + c - start) // split for c in consts for position in range(0, split, step)}
        assert (start % step, len(needed)) == (0, words)


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
    max_examples=15,
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
    line = DelayLine.of(cycles, width).build(m, value, "line")
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
