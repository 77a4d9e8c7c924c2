"""Golden model against the plain interpreter on random kernels."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings

from tg2hdl_ir.golden import evaluate
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
