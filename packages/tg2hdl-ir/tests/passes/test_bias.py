"""Sums that start at their bias."""

from __future__ import annotations

import numpy as np
import pytest

from tg2hdl_ir import evaluate, parse_kernel, verify
from tg2hdl_ir.passes.bias import start_at_bias

LAYER = """\
kernel layer
  b0 output: fp32[4] output
  b1 x: fp32[5]
  b2 w: fp32[20]
  b3 bias: fp32[4]
  r0: fp32
  0  RANGE i0 < 4 loop
  1    SET r0 = 0.0:fp32
  2    RANGE i1 < 5 reduce
  3      %0 = LOAD fp32 b1[i1]
  4      %1 = mul int32 i0, 5:int32
  5      %2 = add int32 %1, i1
  6      %3 = LOAD fp32 b2[%2]
  7      %4 = GET fp32 r0
  8      %5 = mul fp32 %0, %3
  9      %6 = add fp32 %4, %5
 10      SET r0 = %6
 11    END i1
 12    %7 = GET fp32 r0
 13    %8 = LOAD fp32 b3[i0]
 14    %9 = add fp32 %7, %8
 15    %10 = max fp32 0.0:fp32, %9
 16    STORE fp32 b0[i0] = %10
 17  END i0
"""


def layer(old: str = "", new: str = ""):
    assert old in LAYER
    return verify(parse_kernel(LAYER.replace(old, new) if old else LAYER))


def buffers() -> dict[int, np.ndarray]:
    rng = np.random.default_rng(0)
    return {n: rng.normal(size=size).astype(np.float32) for n, size in enumerate((4, 5, 20, 4))}


@pytest.mark.parametrize("constant", [False, True])
def test_terms_are_added_to_the_bias(constant: bool) -> None:
    kernel = layer("%9 = add fp32 %7, %8", "%9 = add fp32 0.75:fp32, %7") if constant else layer()
    started = verify(start_at_bias(kernel))
    memories = buffers()
    sums = np.full(4, 0.75, np.float32) if constant else memories[3].copy()
    for k in range(5):
        sums = sums + memories[1][k] * memories[2].reshape(4, 5)[:, k]
    assert sums.dtype == np.float32
    assert (evaluate(started, memories)[0] == np.maximum(sums, np.float32(0))).all()
    assert start_at_bias(started) is started


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("SET r0 = 0.0:fp32", "SET r0 = 1.0:fp32"),
        ("%6 = add fp32 %4, %5", "%6 = max fp32 %4, %5"),
        ("%6 = add fp32 %4, %5", "%6 = add fp32 %4, %4"),
        ("%5 = mul fp32 %0, %3", "%5 = mul fp32 %4, %3"),
        ("%9 = add fp32 %7, %8", "%9 = add fp32 %7, %7"),
        ("%9 = add fp32 %7, %8", "%9 = mul fp32 %7, %8"),
        ("max fp32 0.0:fp32, %9", "max fp32 %7, %9"),
        ("%8 = LOAD fp32 b3[i0]", "%8 = LOAD fp32 b0[i0]"),
    ],
    ids=["start", "maximum", "doubled", "power", "self", "product", "used-twice", "in-place"],
)
def test_what_is_no_sum_with_a_bias_stays(old: str, new: str) -> None:
    kernel = layer(old, new)
    assert start_at_bias(kernel) is kernel
