"""The programs that must run: golden model against tinygrad, kernel by kernel and as a whole."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from tg2hdl_backend.testing import PROGRAMS, compare_with_interpreter
from tg2hdl_backend.testing.whole_model import compare_with_tinygrad

ELEMENTARY_ULP = 1
FAMILIES = ("binary", "int", "special", "reduce", "unary", "casts")


def _parameters() -> list[Any]:
    """All programs; of the large families only every fourth is quick enough for the default run."""
    seen: Counter[str] = Counter()
    parameters = []
    for name in PROGRAMS:
        family = name.split("_")[0]
        seen[family] += 1
        slow = family in FAMILIES and seen[family] % 4 != 1
        parameters.append(pytest.param(name, marks=pytest.mark.slow if slow else ()))
    return parameters


@pytest.mark.parametrize("name", _parameters())
def test_program(name: str) -> None:
    model, inputs = PROGRAMS[name]
    with np.errstate(all="ignore"):
        result = compare_with_interpreter(model, *inputs, ulp=ELEMENTARY_ULP)
        differences = compare_with_tinygrad(model, *inputs)
    assert result.kernels + result.skipped > 0
    assert not result.mismatches, "\n".join(result.mismatches)
    assert not differences, "\n".join(differences)
