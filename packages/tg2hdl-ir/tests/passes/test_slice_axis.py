"""A share of the iterations of a loop: its results are those of the whole loop, from its own elements."""

from __future__ import annotations

import numpy as np
import pytest

from tg2hdl_ir import IRVariable, evaluate, parse_kernel, verify
from tg2hdl_ir.passes.slice_axis import slice_axis, sliceable_axes

PRODUCT = """kernel product
  b0 y: int32[12] output
  b1 w: int8[60]
  b2 x: int8[10]
  r0: int32
  0  RANGE i0 < 2 loop
  1    RANGE i1 < 6 loop
  2      SET r0 = 0:int32
  3      RANGE i2 < 5 reduce
  4        %0 = mul int32 i2, {stride}:int32
  5        %1 = mul int32 i1, {along}:int32
  6        %2 = add int32 %0, %1
  7        %3 = LOAD int8 b1[%2]
  8        %4 = mul int32 i0, 5:int32
  9        %5 = add int32 %4, i2
  10       %6 = LOAD int8 b2[%5]
  11       %7 = cast int32 %3
  12       %8 = cast int32 %6
  13       %9 = mul int32 %7, %8
  14       %10 = GET int32 r0
  15       %11 = add int32 %10, %9
  16       SET r0 = %11
  17     END i2
  18     %12 = GET int32 r0
  19     %13 = mul int32 i0, 6:int32
  20     %14 = add int32 %13, i1
  21     STORE int32 b0[%14] = %12
  22   END i1
  23 END i0
"""

BIASED = """kernel biased
  b0 y: fp32[5] output
  b1 w: fp32[5]
  b2 bias: fp32[5]
  0  RANGE i0 < 5 loop
  1    %0 = LOAD fp32 b1[i0]
  2    %1 = LOAD fp32 b2[i0]
  3    %2 = add fp32 %0, %1
  4    STORE fp32 b0[i0] = %2
  5  END i0
"""


def kernel(stride: int, along: int, depth: int):
    text = PRODUCT.format(stride=stride, along=along).replace("int8[60]", f"int8[{depth}]")
    return verify(parse_kernel(text))


@pytest.mark.parametrize("by_rows", [False, True])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_slices_of_a_product(by_rows: bool, count: int):
    rng = np.random.default_rng(1)
    whole = kernel(1, 5, 30) if by_rows else kernel(6, 1, 30)
    w = rng.integers(-128, 128, 30).astype(np.int8)
    x = rng.integers(-128, 128, 10).astype(np.int8)
    matrix = w.reshape(6, 5).T if by_rows else w.reshape(5, 6)
    expected = x.reshape(2, 5).astype(int) @ matrix
    (axis,) = sliceable_axes(whole, [1])
    assert (axis.axis, axis.bound) == (1, 6)
    y = np.zeros(12, np.int32)
    for first in range(0, 6, count):
        part = verify(slice_axis(whole, axis, first, count))
        elements = axis.elements(1, 30, first, count)
        assert part.buffer(1).depth == len(elements) == 5 * count
        y = evaluate(part, {0: y, 1: w[elements], 2: x})[0]
    np.testing.assert_array_equal(y.reshape(2, 6), expected)


@pytest.mark.parametrize("by_rows", [False, True])
@pytest.mark.parametrize("count", [4, 5])
def test_the_last_slice_may_be_shorter(by_rows: bool, count: int):
    rng = np.random.default_rng(2)
    whole = kernel(1, 5, 30) if by_rows else kernel(6, 1, 30)
    w = rng.integers(-128, 128, 30).astype(np.int8)
    x = rng.integers(-128, 128, 10).astype(np.int8)
    (axis,) = sliceable_axes(whole, [1])
    part = verify(slice_axis(whole, axis, IRVariable("slice", 0, 1), count))
    y = np.zeros(12, np.int32)
    for run in range(2):
        elements = axis.elements(1, 30, run * count, count)
        assert part.buffer(1).depth == len(elements) == 5 * count
        # What is beyond the loop reaches no result.
        y = evaluate(part, {0: y, 1: np.where(elements < 0, 99, w[elements]), 2: x}, {"slice": run})[0]
    matrix = w.reshape(6, 5).T if by_rows else w.reshape(5, 6)
    np.testing.assert_array_equal(y.reshape(2, 6), x.reshape(2, 5).astype(int) @ matrix)


def test_loads_beyond_the_loop_are_gated():
    whole = verify(parse_kernel(BIASED))
    (axis,) = sliceable_axes(whole, [1])
    part = verify(slice_axis(whole, axis, IRVariable("slice", 0, 1), 3))
    w, bias = np.arange(5, dtype=np.float32), 10 * np.arange(5, dtype=np.float32)
    y = np.zeros(5, np.float32)
    for run in range(2):
        elements = axis.elements(1, 5, 3 * run, 3)
        y = evaluate(part, {0: y, 1: np.where(elements < 0, 0, w[elements]), 2: bias}, {"slice": run})[0]
    np.testing.assert_array_equal(y, w + bias)


def test_elements_that_iterations_share_cannot_be_cut():
    # i1 and i2 both step by one: their elements overlap.
    assert sliceable_axes(kernel(1, 1, 30), [1]) == []
    # x is used by all iterations of i1, and by a block of each of i0.
    assert [a.axis for a in sliceable_axes(kernel(6, 1, 30), [2])] == [0]
    assert sliceable_axes(kernel(6, 1, 30), [1, 2]) == []
