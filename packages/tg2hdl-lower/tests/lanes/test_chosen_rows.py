"""Rows that data or a quotient chooses: lanes along a row read its words once."""

from __future__ import annotations

import numpy as np
import pytest

from tg2hdl_ir import evaluate, parse_kernel
from tg2hdl_lower import Layout, plan_kernel
from tg2hdl_lower.lanes.demand import buffer_accesses
from tg2hdl_lower.plan.accesses import Load, PickedLane

LOOKUP = parse_kernel(
    """kernel lookup
  b0 out: int32[48] output
  b1 index: uint8[6]
  b2 table: int32[128]
RANGE i0 < 6 loop
%0 = LOAD uint8 b1[i0]
%1 = cast int32 %0
%2 = and int32 %1, 15:int32
%3 = mul int32 %2, 8:int32
RANGE i1 < 8 loop
%4 = add int32 %3, i1
%5 = LOAD int32 b2[%4]
%6 = mul int32 i0, 8:int32
%7 = add int32 %6, i1
STORE int32 b0[%7] = %5
END i1
END i0
"""
)

COLUMNS = parse_kernel(
    """kernel columns
  b0 out: int32[40] output
  b1 x: int32[32]
RANGE i0 < 4 loop
RANGE i1 < 10 loop
%0 = mul int32 i1, 3:int32
%1 = div int32 %0, 4:int32
%2 = mul int32 i0, 8:int32
%3 = add int32 %1, %2
%4 = lt bool %1, 8:int32
%5 = LOAD int32 b1[%3] if %4 else 0:int32
%6 = mul int32 i0, 10:int32
%7 = add int32 %6, i1
STORE int32 b0[%7] = %5
END i1
END i0
"""
)


def loaded(kernel, lanes, layouts, buffer):
    """Words of a buffer that a step reads, as estimated and as planned, and the lanes from which elements come."""
    complete = {b.idx: layouts.get(b.idx, Layout.linear(b.depth)) for b in kernel.buffers}
    estimated = buffer_accesses(kernel)[buffer].use(lanes, complete[buffer])
    plan = plan_kernel(kernel, lanes=lanes, layouts=complete)
    found = sum(n.buffer == buffer for n in plan.all(Load))
    picked = [len(n.choices) for n in plan.all(PickedLane)]
    memories = {
        b.idx: np.random.default_rng(b.idx).integers(0, 256, b.depth).astype(b.dtype.numpy())
        for b in kernel.buffers
    }
    assert np.array_equal(evaluate(plan.kernel, memories)[0], evaluate(kernel, memories)[0])
    return estimated.reads, found, picked


@pytest.mark.parametrize(
    ("lanes", "layout", "words", "picked"),
    [
        ({1: 4}, Layout.linear(128, 4), 1, []),
        ({1: 8}, Layout((16, 8), (1, 8)), 1, []),
        # Two indices, each with its row.
        ({0: 2, 1: 4}, Layout.linear(128, 4), 2, []),
        # A word holds four rows, and the index chooses one.
        ({1: 2}, Layout((16, 8), (4, 2)), 1, [4, 4]),
        # Nothing is packed along the row.
        ({1: 4}, Layout.linear(128), 4, []),
    ],
)
def test_rows_of_a_table(lanes, layout, words, picked) -> None:
    assert loaded(LOOKUP, lanes, {2: layout}, 2) == (words, words, picked)


@pytest.mark.parametrize(
    ("lanes", "layout", "words", "picked"),
    [
        # All rows of a column are in a word.
        ({0: 4}, Layout((4, 8), (4, 1)), 1, []),
        # A word holds a whole row, and each lane takes its own element.
        ({1: 5}, Layout((4, 8), (1, 8)), 1, [8] * 5),
        ({0: 2, 1: 5}, Layout((4, 8), (2, 8)), 1, [8] * 10),
        # Half a row: each lane has a word of its own.
        ({1: 5}, Layout((4, 8), (1, 4)), 5, [4] * 5),
    ],
)
def test_columns_that_a_quotient_chooses(lanes, layout, words, picked) -> None:
    assert loaded(COLUMNS, lanes, {1: layout}, 1) == (words, words, picked)
