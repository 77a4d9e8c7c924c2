"""Golden model on flattened kernels: same results, and outer loops still run at once."""

from __future__ import annotations

import numpy as np
import pytest

from tg2hdl_ir import evaluate, parse_kernel
from tg2hdl_ir.analysis.dependence import Dependence
from tg2hdl_ir.passes.flatten import flatten
from tg2hdl_ir.testing.reference import interpret
from tg2hdl_ir.testing.samples import conv3x3, matmul, padded_sum, row_max


def dependence(kernel):
    bounds = {loop.counter.axis: loop.bound for loop in kernel.loop_tree.walk() if loop.counter}
    return Dependence(kernel, bounds)


def parallel(kernel):
    found = dependence(kernel)
    return [loop.counter.axis for loop in kernel.loop_tree.walk() if loop.counter and found.parallel(loop)]


@pytest.mark.parametrize(
    ("kernel", "axes"),
    [
        (matmul(3, 4, 2), [0, 1]),
        (matmul(3, 4, 2, "fp32", "fp32"), [0, 1]),
        (conv3x3(4, 2, 2), [0, 1, 2]),
        (row_max(3, 5), [0]),
        (padded_sum(6), [0]),
    ],
    ids=lambda v: getattr(v, "name", ""),
)
def test_flattened_kernels(kernel, axes):
    flat = flatten(kernel)
    rng = np.random.default_rng(0)
    buffers = {m.idx: rng.integers(-9, 9, m.depth).astype(m.dtype.numpy()) for m in kernel.buffers[1:]}
    expected = interpret(kernel, buffers)[0]
    np.testing.assert_array_equal(evaluate(kernel, buffers)[0], expected)
    np.testing.assert_array_equal(evaluate(flat, buffers)[0], expected)
    assert parallel(kernel) == parallel(flat) == axes


MASKED = """kernel masked
  b0: int32[6] output
  b1: int32[12]
  r0: int32
RANGE i0 < 3 loop
RANGE i1 < 4 reduce
{before}%0 = GET int32 r0
%1 = eq bool i1, {first}:int32
%2 = where int32 %1, 0:int32, %0
%3 = mulacc int32 i0, 4:int32, i1
%4 = LOAD int32 b1[%3]
%5 = add int32 %2, %4
%6 = eq bool i1, 2:int32
SET r0 = %5{gate}
%7 = eq bool i1, 3:int32
STORE int32 b0[i0] = %5 if %7
END i1
END i0
"""


@pytest.mark.parametrize(
    ("parts", "axes"),
    [
        ({"before": "", "first": 0, "gate": ""}, [0]),
        ({"before": "", "first": 1, "gate": ""}, []),
        ({"before": "", "first": 0, "gate": " if %6"}, []),
        ({"before": "%8 = eq bool i1, 0:int32\nSET r0 = 7:int32 if %8\n", "first": 1, "gate": ""}, [0]),
        ({"before": "%8 = eq bool i1, 1:int32\nSET r0 = 7:int32 if %8\n", "first": 2, "gate": ""}, []),
    ],
)
def test_only_what_is_surely_initialized_runs_at_once(parts, axes):
    kernel = parse_kernel(MASKED.format(**parts))
    assert parallel(kernel) == axes
    buffers = {1: np.arange(12, dtype=np.int32)}
    np.testing.assert_array_equal(evaluate(kernel, buffers)[0], interpret(kernel, buffers)[0])


def test_a_mask_that_also_selects_the_old_value_is_none():
    text = MASKED.format(before="", first=0, gate="").replace("add int32 %2, %4", "add int32 %2, %0")
    kernel = parse_kernel(text)
    assert parallel(kernel) == []
    buffers = {1: np.arange(12, dtype=np.int32)}
    np.testing.assert_array_equal(evaluate(kernel, buffers)[0], interpret(kernel, buffers)[0])
