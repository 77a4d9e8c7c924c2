"""Products of branches that a counter chooses between."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tg2hdl_ir import IROp, evaluate, operands, parse_kernel, values_below
from tg2hdl_ir.passes.merge_branches import merge_branches

ROTATION = (Path(__file__).parent / "ir" / "merge-branches.ir").read_text()
# The square of a product: a product of products in both branches.
SQUARES = ROTATION.replace("%10 = add fp32 %8, %9", "%10 = mul fp32 %8, %8").replace(
    "%13 = sub fp32 %11, %12", "%13 = mul fp32 %11, %12"
)
# One of the products is needed in both branches and stays.
COMMON = ROTATION.replace("%13 = sub fp32 %11, %12", "%13 = sub fp32 %11, %8")
# Three parts, by two conditions.
NESTED = ROTATION.replace(
    "%14 = where fp32 %7, %10, %13",
    "%15 = lt bool i0, 3:int32\n %16 = mul fp32 %2, %3\n %17 = where fp32 %15, %13, %16\n"
    " %14 = where fp32 %7, %10, %17",
)
BY_DATA = ROTATION.replace("%7 = ne bool i1, 0:int32", "%7 = lt bool %2, 0.0:fp32")
TWO_STORES = ROTATION.replace("fp32[12] output", "fp32[12] output\n  b3 more: fp32[12] output").replace(
    "STORE fp32 b0[%6] = %14", "STORE fp32 b0[%6] = %14\n      STORE fp32 b3[%6] = %10"
)
AS_ADDRESS = """\
kernel gathered
  b0 output: int32[8] output
  b1 x: int32[8]
  0  RANGE i0 < 8 loop
  1    %0 = LOAD int32 b1[i0]
  2    %1 = mul int32 %0, %0
  3    %2 = mod int32 %1, 8:int32
  4    %3 = LOAD int32 b1[%2]
  5    %4 = lt bool i0, 4:int32
  6    %5 = mul int32 %3, %0
  7    %6 = where int32 %4, %1, %5
  8    STORE int32 b0[i0] = %6
  9  END i0
"""


def products(kernel):
    stored = (v for s in kernel.loop_tree.statements() for v in operands(s))
    return sum(isinstance(v, IROp) and v.op == "mul" for v in values_below(stored))


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [(ROTATION, 4, 2), (SQUARES, 5, 3), (COMMON, 3, 2), (NESTED, 5, 2), (BY_DATA, 4, 4), (TWO_STORES, 4, 4)],
)
def test_products_of_branches_are_merged_and_bits_are_kept(text, before, after):
    kernel = parse_kernel(text)
    merged = merge_branches(kernel)
    assert (products(kernel), products(merged)) == (before, after)
    assert (merged is kernel) == (before == after)
    given = {n: np.random.default_rng(n).standard_normal(12).astype(np.float32) for n in (1, 2)}
    given[1][:4] = np.nan, np.inf, -0.0, 0.0
    for before_, after_ in zip(
        evaluate(kernel, given).values(), evaluate(merged, given).values(), strict=True
    ):
        np.testing.assert_array_equal(before_, after_)


def test_a_rotation_is_that_of_numpy():
    merged = merge_branches(parse_kernel(ROTATION))
    x, w = (np.random.default_rng(n).integers(-9, 9, 12).astype(np.float32) for n in (1, 2))
    expected = (x[::2] + 1j * x[1::2]) * (w[::2] + 1j * w[1::2])
    found = evaluate(merged, {1: x, 2: w})[0]
    np.testing.assert_array_equal(found[::2] + 1j * found[1::2], expected)


def test_a_product_in_an_address_is_needed_always():
    kernel = parse_kernel(AS_ADDRESS)
    assert merge_branches(kernel) is kernel
