"""Operators by kind; importing them registers their builders."""

from __future__ import annotations

from tg2hdl_tflite.operators import (  # noqa: F401
    activations,
    control,
    elementwise,
    functions,
    movement,
    pools,
    recurrent,
    softmax,
    state,
    sums,
)
