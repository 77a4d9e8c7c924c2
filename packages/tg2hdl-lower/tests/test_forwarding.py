"""Elements that are changed in place: a step does not wait for the memory that the steps before are writing."""

from __future__ import annotations

import numpy as np
import pytest

from tg2hdl_ir.golden import evaluate
from tg2hdl_ir.parser import parse_kernel
from tg2hdl_lower import Layout, plan_kernel

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
