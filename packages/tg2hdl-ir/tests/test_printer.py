"""Printed form: round trips on random kernels."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from tg2hdl_ir.golden import evaluate
from tg2hdl_ir.parser import parse_kernel
from tg2hdl_ir.printer import format_kernel
from tg2hdl_ir.testing.strategies import kernels
from tg2hdl_ir.verifier import verify


@settings(max_examples=150, deadline=None, derandomize=True)
@given(kernels())
def test_random_kernels_verify_and_survive_the_round_trip(case):
    kernel, buffers, variables = case
    verify(kernel)
    text = format_kernel(kernel)
    again = verify(parse_kernel(text))
    assert format_kernel(again) == text
    expected = evaluate(kernel, buffers, variables)
    actual = evaluate(again, buffers, variables)
    assert actual.keys() == expected.keys()
    for slot, array in expected.items():
        np.testing.assert_array_equal(actual[slot], array)
