"""A bounded part of benchmarks/fuzz/programs.py, and programs that it once found."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, seed, settings

from tg2hdl_backend.testing import compare_with_interpreter
from tg2hdl_backend.testing.random_programs import Recipe, recipes

REGRESSIONS = {
    "integer part of NaN is left to the golden model": Recipe(
        inputs=(((1,), "int8"), ((2, 3), "float32")), steps=(("add", 0, 1),)
    ),
    "one buffer in two slots of a kernel": Recipe(inputs=(((4,), "int32"),), steps=(("gather", 0, 0),)),
    "index that is a view of an input": Recipe(
        inputs=(((2,), "int8"), ((1, 2, 3), "int32")),
        steps=(("add", 0, 0), ("flip", 1, 1), ("gather", 0, 3)),
    ),
    "integer part of minus zero": Recipe(
        inputs=(((2,), "int8"), ((1,), "bfloat16")), steps=(("trunc", 1),), seed=27
    ),
    "an element outside a buffer is read and not chosen": Recipe(
        inputs=(((1,), "int8"), ((2,), "int8")), steps=(("gather", 1, 0), ("pad", 2, 0))
    ),
    "gather with clipped index": Recipe(
        inputs=(((3,), "int8"),),
        steps=(("contiguous", 0), ("cast", 0, "int8"), ("cast", 0, "uint32"), ("gather", 0, 3)),
    ),
}


def check(recipe: Recipe) -> None:
    with np.errstate(all="ignore"):
        result = compare_with_interpreter(recipe, *recipe.arrays(), ulp=2)
    assert not result.mismatches, f"{recipe!r}: " + "\n".join(result.mismatches)


@seed(2026)
@settings(max_examples=15, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(recipes())
def test_golden_model_equals_the_interpreter(recipe):
    check(recipe)


@pytest.mark.parametrize("name", REGRESSIONS)
def test_regression(name):
    check(REGRESSIONS[name])
