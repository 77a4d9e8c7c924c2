"""Values that a kernel computes again and again, and the kernel that computes each once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tg2hdl_ir import evaluate, parse_kernel
from tg2hdl_ir.passes.producers import producer_forms

PADDED = (Path(__file__).parent / "ir" / "producers.ir").read_text()
UNPADDED = """\
kernel rows
  b0 output: fp32[15] output
  b1 x: fp32[4]
  b2 y: fp32[4]
  b3 w: fp32[20]
  r0: fp32
  0  RANGE i0 < 5 loop
  1    SET r0 = 0.0:fp32
  2    RANGE i1 < 4 reduce
  3      %2 = shl int32 i0, 2:int32
  4      %3 = add int32 %2, i1
  5      %0 = LOAD fp32 b1[i1]
  6      %1 = LOAD fp32 b2[i1]
  7      %4 = LOAD fp32 b3[%3]
  8      %5 = GET fp32 r0
  9      %6 = mul fp32 %0, %1
 10      %7 = mul fp32 %6, %4
 11      %8 = add fp32 %5, %7
 12      SET r0 = %8
 13    END i1
 14    %9 = GET fp32 r0
 15    STORE fp32 b0[i0] = %9
 16  END i0
"""
ONE_FACTOR = UNPADDED.replace("%6 = mul fp32 %0, %1", "%6 = add fp32 %0, %1")
CONSTANT = UNPADDED.replace("%6 = mul fp32 %0, %1", "%6 = mul fp32 %0, 3.0:fp32")
WRITTEN = UNPADDED.replace("  b1 x: fp32[4]", "  b1 x: fp32[5] output").replace(
    "STORE fp32 b0[i0]", "STORE fp32 b1[i0]"
)
# The counter of the inner loop is not known where the product's operands are loaded.
OUTSIDE = """\
kernel outside
  b0 output: fp32[12] output
  b1 x: fp32[2]
  0  RANGE i0 < 3 loop
  1    %0 = LOAD fp32 b1[1:int32]
  2    RANGE i1 < 4 loop
  3      %1 = mul fp32 %0, %0
  4      %2 = lt bool i1, 2:int32
  5      %3 = where fp32 %2, %1, 0.0:fp32
  6      %4 = shl int32 i0, 2:int32
  7      %5 = add int32 %4, i1
  8      STORE fp32 b0[%5] = %3
  9    END i1
 10  END i0
"""


def results(kernels, given):
    held = dict(given)
    for kernel in kernels:
        held |= evaluate(kernel, {b.idx: held[b.idx] for b in kernel.buffers if b.idx in held})
    return held[0]


def contents(kernel):
    rng = np.random.default_rng(5)
    return {
        b.idx: rng.standard_normal(b.depth).astype(b.dtype.numpy())
        if b.dtype.is_float
        else rng.integers(-128, 128, b.depth).astype(b.dtype.numpy())
        for b in kernel.buffers
        if not b.is_output
    }


@pytest.mark.parametrize(("text", "elements"), [(PADDED, [8]), (UNPADDED, [4]), (OUTSIDE, [1])])
def test_each_value_is_computed_once_and_has_its_bits(text, elements):
    kernel = parse_kernel(text)
    (form,) = producer_forms(kernel)
    assert [part.buffers[-1].depth for part in form[:-1]] == elements
    given = contents(kernel)
    np.testing.assert_array_equal(results(form, given), results([kernel], given))


def test_the_padding_of_a_convolution_is_the_alternative_of_the_load():
    (form,) = producer_forms(parse_kernel(PADDED))
    given = contents(parse_kernel(PADDED))
    x, g, w = given[1].reshape(2, 4).astype(int), given[2].astype(int), given[3].reshape(3, 2, 3).astype(int)
    padded = np.pad(x * g[:, None], ((0, 0), (1, 1)), constant_values=7)
    expected = [[(padded[:, n : n + 3] * taps).sum() for n in range(4)] for taps in w]
    np.testing.assert_array_equal(results(form, given).reshape(3, 4), expected)


@pytest.mark.parametrize(
    "text",
    [
        ONE_FACTOR,
        CONSTANT,
        WRITTEN,
        UNPADDED.replace("i0 < 5", "i0 < 1"),
        # As many values as products.
        UNPADDED.replace("LOAD fp32 b2[i1]", "LOAD fp32 b3[%3]").replace("b1[i1]", "b3[%3]"),
    ],
)
def test_nothing_is_gained(text):
    assert producer_forms(parse_kernel(text)) == []
