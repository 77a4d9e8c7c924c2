"""The programs that must run: golden model against tinygrad's interpreter, kernel by kernel."""

from __future__ import annotations

import numpy as np
import pytest

from tg2hdl_backend.conformance import PROGRAMS, compare_with_interpreter

ELEMENTARY_ULP = 1


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str) -> None:
    model, inputs = PROGRAMS[name]
    with np.errstate(all="ignore"):
        result = compare_with_interpreter(model, *inputs, ulp=ELEMENTARY_ULP)
    assert result.kernels + result.skipped > 0
    assert not result.mismatches, "\n".join(result.mismatches)
