"""Elements that are changed in place: a step does not wait for the memory that the steps before are writing."""

from __future__ import annotations

import numpy as np
import pytest

from tg2hdl_ir import evaluate, parse_kernel
from tg2hdl_lower import Layout, LowerOptions, plan_kernel
from tg2hdl_lower.plan.accesses import Load

ADDED = (
    "kernel added\n  b0: {kind}[4] output\n  b1: int8[20]\n  b2: {kind}[20]\nRANGE i0 < 20 reduce\n"
    "%0 = LOAD int8 b1[i0]\n%1 = LOAD {kind} b2[i0]\n%2 = lt bool %0, 4:int8\n"
    "%3 = LOAD {kind} b0[%0] if %2 else {zero}:{kind}\n%4 = {op} {kind} %3, %1\n"
    "STORE {kind} b0[%0] = %4 if %2\nEND i0\n"
)
PLACES = {
    "one": [2] * 20,
    "near and far": [0, 0, 1, 0, 1, 2, 0, 3, 1, 2, 3, 0, 1, 2, 3, 3, 9, 3, 9, 9],
    "outside": [9, 9, 0, 9, 0, 9, 9, 0, 9, 9, 9, 0, 9, 9, 9, 9, 0, 9, 9, 0],
}


@pytest.mark.parametrize("places", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize(
    ("kind", "op", "lanes", "ii", "cycles"),
    [("int32", "add", 1, 1, 26), ("int32", "max", 2, 1, 26)],
)
def test_a_step_each_cycle(places, kind, op, lanes, ii, cycles, same_as_golden):
    kernel = parse_kernel(ADDED.format(kind=kind, op=op, zero="0"))
    plan = plan_kernel(kernel, layouts={0: Layout.linear(4, lanes)})
    assert (plan.ii, plan.cycles()) == (ii, cycles)
    buffers = {0: np.full(4, -3, kind), 1: np.array(places, np.int8), 2: np.arange(20).astype(kind) * 5 % 7}
    expected = buffers[0].copy()
    for place, value in zip(places, buffers[2], strict=True):
        if place < 4:
            expected[place] = expected[place] + value if op == "add" else max(expected[place], value)
    assert evaluate(kernel, buffers)[0].tolist() == expected.tolist()
    same_as_golden(kernel, plan, buffers)
    assert plan.decisions[-1].rewrite == "forward-stores"


def test_the_elements_of_rows(same_as_golden):
    kernel = parse_kernel(
        "kernel rows\n  b0: int32[12] output\n  b1: int8[6]\n  b2: int32[18]\nRANGE i0 < 6 reduce\n"
        "RANGE i1 < 3 loop\n%0 = LOAD int8 b1[i0]\n%1 = mul int32 i0, 3:int32\n%2 = add int32 %1, i1\n"
        "%3 = LOAD int32 b2[%2]\n%4 = cast int32 %0\n%5 = mul int32 %4, 3:int32\n%6 = add int32 %5, i1\n"
        "%7 = LOAD int32 b0[%6]\n%8 = add int32 %7, %3\nSTORE int32 b0[%6] = %8\nEND i1\nEND i0\n"
    )
    plan = plan_kernel(kernel)
    assert plan.ii == 1
    buffers = {
        0: np.zeros(12, np.int32),
        1: np.array([3, 3, 0, 3, 0, 1], np.int8),
        2: np.arange(18, dtype=np.int32),
    }
    same_as_golden(kernel, plan, buffers)


FAR = 9
"""Steps to the farthest one from which an element is wanted again here."""
MEMORIES = {
    "LUT RAM": (16, {}, {}, 4),
    "block RAM": (300, {}, {}, 3),
    "a later word": (300, {}, {"read_latency": 5}, 6),
    "lanes": (50, {0: Layout.linear(50, 3)}, {"stage_levels": 2, "read_latency": 3}, 6),
    "wide words": (300, {0: Layout.linear(300, 32)}, {"read_latency": 3}, 5),
}


@pytest.mark.parametrize("memory", MEMORIES)
def test_the_same_element_after_any_number_of_steps(memory, simulate):
    """Two runs on new contents; compared with numpy."""
    depth, layouts, options, steps = MEMORIES[memory]
    places = [place for far in range(1, FAR + 1) for place in (*range(far), *range(far))]
    kernel = parse_kernel(
        f"kernel added\n  b0: int32[{depth}] output\n  b1: uint8[{len(places)}]\n"
        f"  b2: int32[{len(places)}]\nRANGE i0 < {len(places)} reduce\n%0 = LOAD uint8 b1[i0]\n"
        "%1 = LOAD int32 b2[i0]\n%2 = LOAD int32 b0[%0]\n%3 = add int32 %2, %1\nSTORE int32 b0[%0] = %3\nEND i0\n"
    )
    plan = plan_kernel(kernel, LowerOptions(**options), layouts=layouts)
    assert plan.ii == 1
    assert [load.forwarded for load in plan.all(Load) if load.buffer == 0] == [steps]
    values, expected = np.arange(len(places), dtype=np.int32) * 7 % 23, np.arange(depth, dtype=np.int32)
    buffers = {0: expected.copy(), 1: np.array(places, np.uint8), 2: values}
    np.add.at(expected, places, values)
    found, cycles = simulate(plan, buffers, runs=2, reload=True)
    assert found[0].tolist() == expected.tolist()
    assert cycles == [plan.cycles()] * 2


def test_a_run_starts_without_elements_of_the_one_before(same_as_golden):
    """Its independent outputs could be interleaved, and each would start with registers of its own."""
    kernel = parse_kernel(
        "kernel sums\n  b0: fp16[4] output\n  b1: fp16[32]\n  r0: fp16\nRANGE i0 < 4 loop\nRANGE i1 < 4 reduce\n"
        "SET r0 = 0.0:fp16\nRANGE i2 < 2 reduce\n%0 = mul int32 i0, 8:int32\n%1 = mul int32 i1, 2:int32\n"
        "%2 = add int32 %0, %1\n%3 = add int32 %2, i2\n%4 = LOAD fp16 b1[%3]\n%5 = GET fp16 r0\n"
        "%6 = add fp16 %5, %4\nSET r0 = %6\nEND i2\n%7 = LOAD fp16 b0[i0]\n%8 = GET fp16 r0\n"
        "%9 = add fp16 %7, %8\nSTORE fp16 b0[i0] = %9\nEND i1\nEND i0\n"
    )
    plan = plan_kernel(kernel)
    assert any(load.forwarded for load in plan.all(Load))
    buffers = {0: np.arange(4).astype(np.float16), 1: np.arange(32).astype(np.float16)}
    same_as_golden(kernel, plan, buffers, runs=2, reload=True)


def test_a_reset_amid_a_run(same_as_golden):
    kernel = parse_kernel(ADDED.format(kind="int32", op="add", zero="0"))
    plan = plan_kernel(kernel)
    places = np.array(PLACES["near and far"], np.int8)
    buffers = {0: np.full(4, 5, np.int32), 1: places, 2: np.arange(20, dtype=np.int32)}
    same_as_golden(kernel, plan, buffers, reset_after=12, reload=True)


def test_two_buffers_and_a_bound_at_run_time(same_as_golden):
    """The element of the first one chooses that of the second."""
    kernel = parse_kernel(
        "kernel both\n  b0: uint8[3] output\n  b1: int32[4] output\n  b2: int8[20]\n  $n: int32 1..20\n"
        "RANGE i0 < $n reduce\n%0 = LOAD int8 b2[i0]\n%1 = LOAD uint8 b0[%0]\n%2 = add uint8 %1, 1:uint8\n"
        "STORE uint8 b0[%0] = %2\n%3 = and uint8 %2, 3:uint8\n%4 = LOAD int32 b1[%3]\n"
        "%5 = add int32 %4, i0\nSTORE int32 b1[%3] = %5\nEND i0\n"
    )
    plan = plan_kernel(kernel)
    assert plan.ii == 1
    assert sum(load.forwarded > 0 for load in plan.all(Load)) == 2
    buffers = {0: np.zeros(3, np.uint8), 1: np.zeros(4, np.int32)}
    buffers[2] = np.array([0, 0, 1, 2, 2, 2, 1, 5, -1, 0, 1, 1, 1, 1, 0, 2, 0, 2, 0, 0], np.int8)
    for count in (1, 20):
        same_as_golden(kernel, plan, buffers, {"n": count}, runs=2)
