"""What tinygrad itself computes once its rules are corrected, against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from tinygrad import Tensor

from tg2hdl_backend import capture
from tg2hdl_backend.tinygrad_adapter import own_result
from tg2hdl_ir.golden import evaluate_program

X = np.arange(1, 13, dtype=np.float32).reshape(3, 4)
MODELS = {
    "rows repeated": (lambda x: x.repeat(2, 1).sum(), 2 * X.sum()),
    "columns repeated": (lambda x: x.repeat(1, 3).sum(), 3 * X.sum()),
    "both repeated": (lambda x: x.repeat(2, 3).sum(), 6 * X.sum()),
    "beside itself": (lambda x: x.cat(x, dim=0).square().sum(), 2 * np.square(X).sum()),
    "product": (lambda x: (x / 4).repeat(2, 1).prod(), np.prod(X / 4, dtype=np.float64) ** 2),
    "largest": (lambda x: x.repeat(2, 1).max(), X.max()),
    "rows of repeated images": (
        lambda x: x.reshape(3, 2, 2).repeat(2, 1, 2).sum((0, 2)),
        4 * X.reshape(3, 2, 2).sum((0, 2)),
    ),
    "half and back": (
        lambda x: (x / 3).cast("half").cast("float"),
        (X / 3).astype(np.float16).astype(np.float32),
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_captured_and_own_result_are_numpys(name):
    model, want = MODELS[name]
    captured = capture(model, X)
    found = evaluate_program(captured.program, captured.bind(X))
    golden = found[captured.program.buffers[captured.outputs[0].buffer].name]
    np.testing.assert_allclose(np.ravel(golden), np.ravel(want), rtol=2e-6)
    if (
        name != "half and back"
    ):  # Python before 3.12 has no half, and tinygrad's interpreter computes in float there.
        own = own_result(model, Tensor(X), device="PYTHON")[0]
        np.testing.assert_allclose(np.ravel(own), np.ravel(want), rtol=2e-6)
