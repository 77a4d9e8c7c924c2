"""Sums by index that become scatters, compared with loops in numpy, and kernels that must stay as they are."""

from __future__ import annotations

import numpy as np
import pytest

from tg2hdl_ir import evaluate, parse_kernel, verify
from tg2hdl_ir.passes.scatter import scatter_forms

SUMS = """\
kernel sums
  b0: {type}[{places}] output
  b1: {index}[40]
  b2: {type}[40]
  r0: {type}
  0  RANGE i0 < {places} loop
  1    SET r0 = {start}:{type}
  2    RANGE i1 < 40 reduce
  3      %0 = LOAD {index} b1[i1]
  4      %1 = LOAD {type} b2[i1]
  5      %2 = GET {type} r0
  6      %3 = {place}
  7      %4 = {compare} bool %0, %3
  8      %5 = where {type} %4, {yes}, {no}
  9      %6 = {op} {type} %2, %5
 10      SET r0 = %6
 11    END i1
 12    %7 = GET {type} r0
 13    STORE {type} b0[i0] = %7
 14  END i0
"""


def sums(**values: object):
    given = {"type": "int32", "index": "int32", "start": "0", "places": 8, "op": "add", "compare": "eq"}
    given |= {"yes": "%1", "no": "0:int32", "place": "cast int32 i0"} | values
    return verify(parse_kernel(SUMS.format(**given)))


def both(kernel, seed: int = 0):
    """Results of the kernel and of its form, for indices of which some are no places."""
    rng = np.random.default_rng(seed)
    index, x = kernel.buffer(1).dtype, kernel.buffer(2).dtype
    low = max(-5, int(index.min_value))
    values = (
        rng.standard_normal(40) * 10.0 ** rng.integers(-9, 9, 40) if x.is_float else rng.integers(-99, 99, 40)
    )
    if x.is_float:
        values[:5] = 0.0, -0.0, np.inf, np.nan, 1e-45
    arrays = {
        1: rng.integers(low, 14, 40).astype(index.numpy()),
        2: values.astype(x.numpy()),
        0: np.full(kernel.buffer(0).depth, 77, x.numpy()),
    }
    expected = evaluate(kernel, arrays)[0]
    ((cleared, adds),) = scatter_forms(kernel)
    held = arrays | evaluate(verify(cleared), {0: arrays[0]})
    return expected, evaluate(verify(adds), held)[0]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "values",
    [
        {},
        {"compare": "ne", "yes": "0:int32", "no": "%1"},
        {"index": "uint8", "place": "cast uint8 i0"},
        {"op": "max", "start": "-2147483648", "no": "-2147483648:int32"},
        {"type": "fp32", "start": "0.0", "no": "0.0:fp32"},
        {"type": "fp32", "start": "1.5", "no": "-0.0:fp32"},
    ],
)
def test_each_term_is_added_at_its_index(values, seed):
    expected, found = both(sums(**values), seed)
    np.testing.assert_array_equal(found.view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize(
    "values",
    [
        {"no": "1:int32"},
        {"op": "mul"},
        {"compare": "lt"},
        {"places": 3},
        {"place": "add int32 i0, i1"},
        {"place": "mul int32 i0, 2:int32"},
        # -0.0 + 0.0 is 0.0: the terms of other places change the sum.
        {"type": "fp32", "start": "-0.0", "no": "0.0:fp32"},
        # 256 places of an index of 8 bits are all; of 300 some have one index.
        {"index": "uint8", "place": "cast uint8 i0", "places": 300},
    ],
)
def test_others_stay(values):
    assert scatter_forms(sums(**values)) == []
