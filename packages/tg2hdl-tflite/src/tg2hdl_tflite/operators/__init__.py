"""Operators by kind; importing them registers their builders."""

from __future__ import annotations

from tg2hdl_tflite.operators import (  # noqa: F401
    activations,
    elementwise,
    movement,
    pools,
    softmax,
    state,
    sums,
)
