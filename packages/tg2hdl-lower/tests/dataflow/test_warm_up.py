"""Windows that start inside of their data: loops begin early where that saves more cycles than it takes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from tg2hdl_ir import evaluate, parse_kernel
from tg2hdl_ir.analysis.axes import analyze_axes
from tg2hdl_ir.passes.flatten import flatten
from tg2hdl_ir.passes.unroll import unroll
from tg2hdl_ir.pipeline import canonicalize
from tg2hdl_ir.testing.strategies import arrays
from tg2hdl_lower import Layout, plan_kernel
from tg2hdl_lower.dataflow.warm_up import with_warm_up
from tg2hdl_lower.plan.accesses import Load, Replay

CROSS = ((0, 1), (1, 0), (1, 2), (2, 1))
SQUARE = tuple((r, c) for r in range(3) for c in range(3))


def stencil(taps, size, channels=1, dtype="int16"):
    """Sums of some elements of a window, over all channels."""
    height, width = size
    rows, columns = (max(t[n] for t in taps) for n in range(2))
    lines = [
        f"kernel stencil\n  b0 out: {dtype}[{(height - rows) * (width - columns)}] output",
        f"  b1 x: {dtype}[{channels * height * width}]\n  r0: {dtype}",
        f"RANGE i0 < {height - rows} loop\nRANGE i1 < {width - columns} loop",
        f"SET r0 = 0:{dtype}\nRANGE i2 < {channels} reduce",
        f"%0 = mul int32 i2, {height * width}:int32\n%1 = mul int32 i0, {width}:int32",
        f"%2 = add int32 %0, %1\n%3 = add int32 %2, i1\n%4 = GET {dtype} r0",
    ]
    last = 4
    for row, column in taps:
        lines += [
            f"%{last + 1} = add int32 %3, {row * width + column}:int32",
            f"%{last + 2} = LOAD {dtype} b1[%{last + 1}]",
            f"%{last + 3} = add {dtype} %{last}, %{last + 2}",
        ]
        last += 3
    lines += [
        f"SET r0 = %{last}\nEND i2",
        f"%{last + 1} = mul int32 i0, {width - columns}:int32\n%{last + 2} = add int32 %{last + 1}, i1",
        f"%{last + 3} = GET {dtype} r0\nSTORE {dtype} b0[%{last + 2}] = %{last + 3}\nEND i1\nEND i0\n",
    ]
    return parse_kernel("\n".join(lines))


def contents(kernel):
    return {b.idx: arrays(b.dtype, b.depth, b.idx) for b in kernel.buffers}


def reads_of(plan):
    return len(plan.all(Load)), sorted(n.steps for n in plan.all(Replay))


@pytest.mark.parametrize(
    ("taps", "size", "steps", "loads", "lines"),
    [
        # four ports: one direction is enough, that of the shorter way
        (SQUARE, (20, 10), 20 * 8, 3, [8] * 6),
        (SQUARE, (10, 20), 8 * 20, 3, [1] * 6),
        # two ports: columns as well
        (SQUARE, (20, 80), 20 * 80, 1, [1] * 6 + [80] * 2),
        (CROSS, (20, 80), 20 * 80, 2, [2, 160]),
        # a dilated window
        (tuple((0, 2 * n) for n in range(5)), (16, 100), 16 * 100, 1, [2] * 4),
        # as many ports as words
        (CROSS, (20, 20), 18 * 18, 4, []),
        # beginning 16 rows early would take longer than to read twice
        (tuple((4 * n, 0) for n in range(5)), (18, 14), 2 * 14, 5, []),
    ],
)
def test_a_window_without_padding_is_read_once_where_that_saves_cycles(
    taps, size, steps, loads, lines, same_as_golden
):
    kernel = stencil(taps, size)
    plan = plan_kernel(kernel)
    assert (plan.steps(), *reads_of(plan)) == (steps, loads, lines)
    assert any(note.startswith("warm-up") for note in plan.notes) == bool(lines)
    same_as_golden(kernel, plan, contents(kernel), runs=2 if steps < 500 else 1)


def test_channels_and_packed_lanes(same_as_golden):
    kernel = stencil(SQUARE, (20, 18), channels=3)
    layouts = {0: Layout((18, 16), (1, 4)), 1: Layout((60, 18), (1, 4))}
    plan = plan_kernel(kernel, lanes={1: 4}, layouts=layouts)
    assert (plan.ii, *reads_of(plan)) == (1, 2, [12] * 4)
    same_as_golden(kernel, plan, contents(kernel))


@settings(
    deadline=None,
    derandomize=True,
    max_examples=15,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)
@given(
    taps=st.sets(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=6),
    size=st.tuples(st.integers(5, 7), st.integers(5, 9)),
    channels=st.integers(1, 2),
    data=st.data(),
)
def test_windows_of_all_shapes(taps, size, channels, data, same_as_golden):
    kernel = stencil(sorted(taps), size, channels)
    info = analyze_axes(canonicalize(kernel))
    lanes = {1: data.draw(st.integers(1, 3))}
    layouts = {1: Layout((channels * size[0], size[1]), (1, data.draw(st.integers(1, 3))))}
    starts = list(with_warm_up(unroll(flatten(canonicalize(kernel)), info, lanes), info))
    assume(starts)
    before = contents(kernel)
    expected = evaluate(kernel, before)[0]
    for _, early in starts:
        np.testing.assert_array_equal(evaluate(early, before)[0], expected)
    plan = plan_kernel(data.draw(st.sampled_from(starts))[1], layouts=layouts)
    assume(plan.cycles() <= 400)
    same_as_golden(kernel, plan, before, runs=2)
