"""Golden model against the plain interpreter on random kernels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tg2hdl_ir import DType, evaluate
from tg2hdl_ir.golden import plan as golden_plan
from tg2hdl_ir.testing.reference import interpret
from tg2hdl_ir.testing.strategies import kernels


def check(case):
    kernel, buffers, variables = case
    expected = interpret(kernel, buffers, variables)
    actual = evaluate(kernel, buffers, variables)
    assert actual.keys() == expected.keys()
    for slot, array in expected.items():
        dtype = kernel.buffer(slot).dtype
        np.testing.assert_array_equal(dtype.array_to_bits(actual[slot]), dtype.array_to_bits(array))


@settings(max_examples=150, deadline=None, derandomize=True)
@given(kernels())
def test_equals_the_plain_interpreter(case):
    check(case)


OTHERS = (DType.from_width(20, True), DType.UINT64, DType.BF16, DType.FP8_E4M3, DType.FP64)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(kernels(OTHERS))
def test_other_types(case):
    check(case)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(kernels(), st.integers(1, 20))
def test_whatever_runs_at_once(case, limit):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(golden_plan, "_MOST", limit)
        patch.setattr(golden_plan, "_LEAST", limit)
        check(case)
