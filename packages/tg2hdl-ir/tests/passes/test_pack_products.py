"""Two products in one multiplier: every pair of factors, and kernels against numpy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tg2hdl_ir import IROp, evaluate, parse_kernel, verify
from tg2hdl_ir.passes.pack_products import pack_products, packing_axes, packing_shift

INT4, INT8, UINT8 = (-8, 7), (-128, 127), (0, 255)


@pytest.mark.parametrize(
    ("narrow", "factor", "shift"),
    [
        (INT4, INT8, 12),
        ((-7, 7), (-127, 127), 11),
        (INT4, UINT8, 12),
        ((-15, 15), (-127, 127), 12),
        ((0, 7), INT8, 11),
    ],
)
def test_both_products_are_in_one(narrow, factor, shift):
    assert packing_shift(narrow, narrow, factor, 18) == shift
    values = range(narrow[0], narrow[1] + 1)
    for low, high in itertools.product(values, repeat=2):
        x = np.arange(factor[0], factor[1] + 1)
        packed = (high << shift) + low
        assert -(1 << 17) <= packed < 1 << 17
        product = packed * x
        first = (product & ((1 << shift) - 1)) - ((product >> (shift - 1) & 1) << shift)
        np.testing.assert_array_equal(first, low * x)
        np.testing.assert_array_equal((product >> shift) + (product >> (shift - 1) & 1), high * x)


@pytest.mark.parametrize(
    ("narrow", "factor"), [(INT8, INT8), ((-16, 15), INT8), ((-32, 31), INT8), (INT4, (-8192, 8191))]
)
def test_what_does_not_fit(narrow, factor):
    assert packing_shift(narrow, narrow, factor, 18) is None


KERNEL = """kernel k
  b0: int32[{count}] output
  b1: int8[6]
  b2: int8[{weights}]
  0  RANGE i0 < 6 loop
{body}
  {last}  END i0
"""


def lanes(count):
    """Outputs that each step of a loop gives: products of one element with as many weights."""
    lines = [
        "    1      %0 = LOAD int8 b1[i0]",
        "    2      %1 = cast int32 %0",
        "    3      %2 = mul int32 i0, 4:int32",
    ]
    value = 3
    for n in range(count):
        lines += [
            f"    {len(lines) + 1}      %{value} = add int32 %2, {n}:int32",
            f"    {len(lines) + 2}      %{value + 1} = LOAD int8 b2[%{value}]",
            f"    {len(lines) + 3}      %{value + 2} = cast int32 %{value + 1}",
            f"    {len(lines) + 4}      %{value + 3} = mul int32 %1, %{value + 2}",
            f"    {len(lines) + 5}      STORE int32 b0[%{value}] = %{value + 3}",
        ]
        value += 4
    body = "\n".join(lines)
    return parse_kernel(KERNEL.format(count=24, weights=24, body=body, last=len(lines) + 1))


def products(kernel):
    seen, stack = set(), [s.value for s in kernel.loop_tree.statements() if hasattr(s, "value")]
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            stack.extend(getattr(node, "srcs", ()))
    return sum(isinstance(n, IROp) and n.op == "mul" for n in seen)


@pytest.mark.parametrize(("limit", "count"), [(1, 2), (2, 2), (3, 3), (4, 4)])
def test_as_many_pairs_as_the_limit_takes(limit, count):
    kernel = lanes(4)
    packed = verify(pack_products(kernel, limit, {1: INT8, 2: INT4}))
    assert products(packed) == count
    rng = np.random.default_rng(limit)
    x, w = rng.integers(-128, 128, 6).astype(np.int8), rng.integers(-8, 8, 24).astype(np.int8)
    found = evaluate(packed, {0: np.zeros(24, np.int32), 1: x, 2: w})[0]
    np.testing.assert_array_equal(found, (w.reshape(6, 4).astype(int) * x[:, None]).reshape(-1))


def test_wide_factors_stay_as_they_are():
    kernel = lanes(4)
    assert pack_products(kernel, 2, {1: INT8, 2: INT8}) is kernel


def test_axes_along_which_a_factor_is_shared():
    text = """kernel k
  b0: int32[6] output
  b1: int8[4]
  b2: int8[24]
  r0: int32
  0  RANGE i0 < 6 loop
  1    SET r0 = 0:int32
  2    RANGE i1 < 4 reduce
  3      %0 = mul int32 i0, 4:int32
  4      %1 = add int32 %0, i1
  5      %2 = LOAD int8 b1[i1]
  6      %3 = LOAD int8 b2[%1]
  7      %4 = cast int32 %2
  8      %5 = cast int32 %3
  9      %6 = mul int32 %4, %5
  10      %7 = GET int32 r0
  11      %8 = add int32 %7, %6
  12      SET r0 = %8
  13    END i1
  14    %9 = GET int32 r0
  15    STORE int32 b0[i0] = %9
  16  END i0
"""
    kernel = parse_kernel(text)
    assert packing_axes(kernel, {1: INT8, 2: INT4}) == {0}
    assert packing_axes(kernel, {1: INT4, 2: INT8}) == frozenset()
    assert packing_axes(kernel, {1: INT8, 2: INT8}) == frozenset()


def test_leaves_with_nothing_to_pack_keep_their_statements():
    text = """kernel k
  b0: int32[4] output
  b1: int8[4]
  b2: int8[4]
  r0: int32
  r1: int32
  0  RANGE i0 < 2 loop
  1    RANGE i1 < 2 reduce
  2      %0 = eq bool i1, 0:int32
  3      SET r0 = 0:int32 if %0
  4      SET r1 = 0:int32 if %0
  5      %1 = LOAD int8 b1[i1]
  6      %2 = mul int32 i0, 2:int32
  7      %3 = LOAD int8 b2[i1]
  8      %4 = add int32 i1, 2:int32
  9      %5 = LOAD int8 b2[%4]
  10      %6 = cast int32 %1
  11      %7 = cast int32 %3
  12      %8 = cast int32 %5
  13      %9 = mul int32 %6, %7
  14      %10 = mul int32 %6, %8
  15      %11 = GET int32 r0
  16      %12 = add int32 %11, %9
  17      SET r0 = %12
  18      %13 = GET int32 r1
  19      %14 = add int32 %13, %10
  20      SET r1 = %14
  21    END i1
  22    RANGE i2 < 1 loop
  23      %15 = GET int32 r0
  24      STORE int32 b0[%2] = %15
  25      %16 = GET int32 r1
  26      %17 = add int32 %2, 1:int32
  27      STORE int32 b0[%17] = %16
  28    END i2
  29  END i0
"""
    kernel = parse_kernel(text)
    packed = verify(pack_products(kernel, 1, {1: INT8, 2: INT4}))
    assert (products(kernel), products(packed)) == (2, 1)
    x, w = np.array([3, -4, 0, 0], np.int8), np.array([5, 6, -7, 7], np.int8)
    found = evaluate(packed, {0: np.zeros(4, np.int32), 1: x, 2: w})[0]
    np.testing.assert_array_equal(found, [3 * 5 - 4 * 6, -3 * 7 - 4 * 7] * 2)
