"""Plans as JSON records: what is read back prints and becomes hardware as before."""

from __future__ import annotations

import pytest
from amaranth.back import rtlil

from tg2hdl_ir.records import read_record, write_record
from tg2hdl_ir.testing.samples import matmul, padded_convolution, padded_sum
from tg2hdl_lower import CompiledKernel, Layout, plan_kernel

KERNELS = {
    "padded sum": lambda: padded_sum(9),
    "matmul": lambda: matmul(2, 3, 4),
    "window": lambda: padded_convolution(2, (4, 4), (3, 3), (1, 1)),
}


def same(plan):
    again = read_record(write_record(plan))
    assert again.format() == plan.format()
    assert again.schedule == plan.schedule
    one, other = (rtlil.convert(CompiledKernel(p), emit_src=False) for p in (plan, again))
    assert one == other


@pytest.mark.parametrize("build", KERNELS.values(), ids=KERNELS)
def test_a_plan_that_was_saved(build):
    same(plan_kernel(build()))


def test_a_plan_with_lanes_and_replayed_words():
    kernel = padded_convolution(1, (6, 5), (3, 3), (1, 1))
    plan = plan_kernel(kernel, lanes={3: 3, 4: 3}, layouts={1: Layout.linear(30, 4), 2: Layout.linear(9, 9)})
    same(plan)
