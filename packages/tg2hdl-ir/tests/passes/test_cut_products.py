"""Cutting a kernel between its products."""

from __future__ import annotations

import numpy as np
import pytest

from tg2hdl_ir import evaluate, parse_kernel
from tg2hdl_ir.passes.cut_products import cut_products, product_cuts

CHAIN = """\
kernel chain
  b0 output: fp32[12] output
  b1 x: fp32[12]
  b2 w: fp32[4]
  0  RANGE i0 < 3 loop
  1    RANGE i1 < 4 loop
  2      %0 = mul int32 i0, 4:int32
  3      %1 = add int32 %0, i1
  4      %2 = LOAD fp32 b1[%1]
  5      %3 = LOAD fp32 b2[i1]
  6      %4 = mul fp32 %2, %2
  7      %5 = mul fp32 %4, %3
  8      %6 = mul fp32 %5, 0.5:fp32
  9      %7 = add fp32 %6, %2
 10      %8 = exp2 fp32 %7
 11      %9 = mul fp32 %8, %2
 12      STORE fp32 b0[%1] = %9
 13    END i1
 14  END i0
"""
DIRECT = CHAIN.replace("%4 = mul fp32 %2, %2", "%4 = add fp32 %2, %2").replace(
    "%7 = add fp32 %6, %2", "%7 = add fp32 %6, %4"
)


def arrays():
    rng = np.random.default_rng(3)
    return {n: rng.uniform(-1, 1, size).astype(np.float32) for n, size in ((1, 12), (2, 4))}


def run(kernels):
    contents = arrays()
    for kernel in kernels:
        given = {b.idx: contents[b.idx] for b in kernel.buffers if b.idx in contents}
        contents |= evaluate(kernel, given)
    return contents[0]


def test_each_place_keeps_every_bit():
    kernel = parse_kernel(CHAIN)
    whole = run([kernel])
    x, w = (arrays()[n].astype(np.float64) for n in (1, 2))
    inner = (x.reshape(3, 4) ** 2 * w * 0.5).reshape(-1) + x
    np.testing.assert_allclose(whole, np.exp2(inner) * x, rtol=1e-6)
    places = list(product_cuts(kernel))
    assert [place.op for place in places] == ["mul", "exp2"]
    for place in places:
        first, second, between = cut_products(kernel, place)
        assert between.depth == 12
        assert between in first.buffers
        np.testing.assert_array_equal(run([first, second]), whole)


def test_what_only_the_first_kernel_needs_is_not_read_again():
    kernel = parse_kernel(CHAIN)
    *_, last = product_cuts(kernel)
    first, second, between = cut_products(kernel, last)
    assert [b.idx for b in first.buffers] == [1, 2, between.idx]
    assert [b.idx for b in second.buffers] == [0, 1, between.idx]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (CHAIN.replace("%9 = mul fp32 %8, %2", "%9 = mul fp32 %8, 3.0:fp32"), 1),
        (CHAIN.replace("%9 = mul fp32 %8, %2", "%9 = mul fp32 %8, %4"), 1),
        (CHAIN.replace("b1[%1]", "b0[%1]").replace("  b1 x: fp32[12]\n", ""), 0),
        (CHAIN.replace("= %9", "= %9 if %10").replace(" 12 ", "      %10 = lt bool i1, 3:int32\n 12 "), 0),
        (DIRECT, 1),
        (CHAIN.replace("fp32", "int32").replace("exp2 int32 %7", "neg int32 %7").replace("0.5", "5"), 0),
    ],
    ids=[
        "a constant is not a product",
        "two values cross, one place is left",
        "written in place",
        "a gated store",
        "a sum crosses, one place is left",
        "integers",
    ],
)
def test_kernels_with_fewer_places(text, count):
    kernel = parse_kernel(text)
    places = list(product_cuts(kernel))
    assert len(places) == count
    for place in places:
        np.testing.assert_array_equal(run(cut_products(kernel, place)[:2]), run([kernel]))
