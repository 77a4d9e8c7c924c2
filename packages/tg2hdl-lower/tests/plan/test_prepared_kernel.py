"""A kernel that is prepared once has the plan of one that is planned from the start, whatever is shared."""

from __future__ import annotations

import pytest

from tg2hdl_ir.testing.samples import matmul
from tg2hdl_lower import LowerOptions, PreparedKernel, plan_kernel


@pytest.mark.parametrize("options", [LowerOptions(), LowerOptions(multipliers=2, float_order="relaxed")])
def test_plans_are_those_of_a_kernel_that_is_planned_alone(options):
    kernel = matmul(4, 6, 5, "fp32", "fp32")
    prepared = PreparedKernel.of(kernel, options)
    units = set(prepared.plan().units)
    assert units
    for shared in ((), units, ()):
        planned, alone = prepared.plan(shared), plan_kernel(kernel, options, shared=shared)
        assert planned.format() == alone.format()
        assert planned.shared_units == alone.shared_units
