"""The narrow multiplier gives what the float32 product gives, for every sum."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tg2hdl_ir.tensors import Quantizer
from tg2hdl_ir.tensors.roundings import BUILTIN_ROUNDINGS
from tg2hdl_quant.graph.products import fit_products


def codes_of(found, channel, sums):
    return (sums * found.factor[channel] + found.above[channel]) >> found.shift


def expected(sums, multiplier):
    """In one rounding each, as float32 arithmetic does."""
    return np.rint(sums.astype(np.float32) * np.float32(multiplier))


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.floats(2.0**-9, 2.0**-3, width=32), min_size=1, max_size=3),
    st.integers(1, 1 << 15),
    st.sampled_from([(-128, 127), (0, 255), (-7, 7), (-200, 55)]),
)
def test_every_sum_gives_the_code_of_the_float32_product(multipliers, reach, limits):
    multipliers = np.array(multipliers, np.float32)
    found = fit_products(multipliers, -reach, reach, *limits)
    if found is None:
        return
    sums = np.arange(-reach, reach + 1)
    for channel, multiplier in enumerate(multipliers):
        np.testing.assert_array_equal(
            np.clip(codes_of(found, channel, sums), *limits), np.clip(expected(sums, multiplier), *limits)
        )


def test_usual_multipliers_have_one():
    rng = np.random.default_rng(0)
    multipliers = rng.uniform(2.0**-8, 2.0**-6, 40).astype(np.float32)
    found = fit_products(multipliers, -(1 << 17), 1 << 17, -128, 127)
    assert found is not None
    assert int(found.factor.max()).bit_length() <= 24


@pytest.mark.parametrize("multiplier", [2.0**-4, 3 * 2.0**-6])
def test_ties_that_go_to_even_have_none(multiplier):
    assert fit_products(np.array([multiplier], np.float32), -4000, 4000, -128, 127) is None


def test_a_range_without_a_step_is_one_code():
    found = fit_products(np.array([0.01], np.float32), 100, 140, -128, 127)
    assert found is not None
    assert set(codes_of(found, 0, np.arange(100, 141)).tolist()) == {1}


@pytest.mark.parametrize("rounding", [r.name for r in BUILTIN_ROUNDINGS])
def test_other_roundings_are_proven_for_every_sum(rounding):
    rng = np.random.default_rng(4)
    # Rounding toward zero or away from it is a line on one side of zero only.
    least = -(1 << 15) if rounding in ("floor", "ceil", "half_up") else 0
    sums, fitted = np.arange(least, 1 << 15), 0
    for _ in range(12):
        q = Quantizer(
            np.float32(rng.uniform(0.5, 2)), np.array(rng.integers(0, 6)), -128, 127, rounding, True
        )
        scales = rng.uniform(1e-3, 1e-2, 4).astype(np.float32)

        def codes(total, scale, q=q):
            return q.codes(total.astype(np.float32) * np.float32(scale))

        limits = (int(sums[0]), int(sums[-1]), -128, 127)
        found = fit_products(scales, *limits, rounded=codes, slope=1 / float(q.scale))
        if found is None:
            continue
        fitted += 1
        for scale, factor, added in zip(scales, found.factor, found.above, strict=True):
            got = np.clip((sums * factor + added) >> found.shift, -128, 127)
            np.testing.assert_array_equal(got, codes(sums, scale))
    assert fitted >= 10
