"""Cutting a kernel at a reduction."""

from __future__ import annotations

import numpy as np
import pytest

from tg2hdl_ir import evaluate, parse_kernel
from tg2hdl_ir.passes.cut_kernel import cut_kernel, cut_places

FUSED = """\
kernel fused
  b0 output: fp32[4] output
  b1 x: fp32[6]
  b2 w: fp32[30]
  b3 v: fp32[5]
  b4 c: fp32[4]
  r0: fp32
  r1: fp32
  0  RANGE i0 < 4 loop
  1    %0 = LOAD fp32 b4[i0]
  2    SET r1 = 0.0:fp32
  3    RANGE i1 < 5 reduce
  4      SET r0 = 0.0:fp32
  5      RANGE i2 < 6 reduce
  6        %1 = LOAD fp32 b1[i2]
  7        %2 = mul int32 i1, 6:int32
  8        %3 = add int32 %2, i2
  9        %4 = LOAD fp32 b2[%3]
 10        %5 = GET fp32 r0
 11        %6 = mul fp32 %1, %4
 12        %7 = add fp32 %5, %6
 13        SET r0 = %7
 14      END i2
 15      %8 = LOAD fp32 b3[i1]
 16      %9 = GET fp32 r0
 17      %10 = GET fp32 r1
 18      %11 = mul fp32 %9, %0
 19      %12 = max fp32 %11, %8
 20      %13 = add fp32 %10, %12
 21      SET r1 = %13
 22    END i1
 23    %14 = GET fp32 r1
 24    %15 = sqrt fp32 %14
 25    STORE fp32 b0[i0] = %15
 26  END i0
"""


def arrays():
    rng = np.random.default_rng(3)
    return {n: rng.uniform(0, 1, size).astype(np.float32) for n, size in ((1, 6), (2, 30), (3, 5), (4, 4))}


def run(kernels, contents):
    for kernel in kernels:
        given = {b.idx: contents[b.idx] for b in kernel.buffers if b.idx in contents}
        contents |= evaluate(kernel, given)
    return contents[0]


def test_both_reductions_of_a_nest_can_be_cut_off():
    kernel = parse_kernel(FUSED)
    whole = run([kernel], arrays())
    places = list(cut_places(kernel))
    assert [p.registers for p in places] == [(1,), (0,)]
    for place in places:
        first, second, between = cut_kernel(kernel, place)
        assert [b.depth for b in between] == [4 if place.registers == (1,) else 20]
        np.testing.assert_array_equal(run([first, second], arrays()), whole)
    x, w, v, c = (arrays()[n].astype(np.float64) for n in (1, 2, 3, 4))
    expected = np.sqrt(np.maximum((w.reshape(5, 6) @ x) * c[:, None], v).sum(1))
    np.testing.assert_allclose(whole, expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("STORE fp32 b0[i0] = %15", "STORE fp32 b0[i0] = %14"),
        ("%0 = LOAD fp32 b4[i0]", "%0 = LOAD fp32 b0[i0]"),
    ],
    ids=["nothing to do after it", "written in place"],
)
def test_kernels_that_stay_whole(old, new):
    text = FUSED.replace(old, new)
    places = list(cut_places(parse_kernel(text)))
    assert [p.registers for p in places] == ([(0,)] if "b4[i0]" in text else [])


LOADED_BETWEEN = """\
kernel two
  b0 output: fp32[4] output
  b1 x: fp32[6]
  b2 c: fp32[4]
  r0: fp32
  r1: fp32
  0  RANGE i0 < 4 loop
  1    SET r1 = 0.0:fp32
  2    RANGE i1 < 6 reduce
  3      %0 = LOAD fp32 b1[i1]
  4      %1 = GET fp32 r1
  5      %2 = add fp32 %1, %0
  6      SET r1 = %2
  7    END i1
  8    %3 = LOAD fp32 b2[i0]
  9    SET r0 = 0.0:fp32
 10    RANGE i2 < 6 reduce
 11      %4 = LOAD fp32 b1[i2]
 12      %5 = GET fp32 r0
 13      %6 = mul fp32 %4, %3
 14      %7 = add fp32 %5, %6
 15      SET r0 = %7
 16    END i2
 17    %8 = GET fp32 r0
 18    %9 = GET fp32 r1
 19    %10 = add fp32 %8, %9
 20    %11 = mul fp32 %10, %3
 21    STORE fp32 b0[i0] = %11
 22  END i0
"""


def test_what_is_loaded_between_two_loops_is_loaded_by_both_kernels():
    kernel = parse_kernel(LOADED_BETWEEN)
    rng = np.random.default_rng(3)
    contents = {n: rng.uniform(0, 1, size).astype(np.float32) for n, size in ((1, 6), (2, 4))}
    want = run([kernel], dict(contents))
    places = list(cut_places(kernel))
    assert places
    for place in places:
        first, second, _ = cut_kernel(kernel, place)
        np.testing.assert_array_equal(run([first, second], dict(contents)), want)
