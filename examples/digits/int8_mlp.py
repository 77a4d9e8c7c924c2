"""Digit classifier with int8 weights and activations: 64-32-10, int32 sums, requantized by a shift."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from safetensors.numpy import load_file
from tinygrad import Tensor, dtypes

__all__ = ["Int8MLP", "example_inputs", "model"]


class Int8MLP:
    """Call with pixels 0..16 as int8 of shape (1, 64); gives the int32 scores of the ten digits."""

    def __init__(self, path: Path) -> None:
        weights = load_file(path)
        self.w1, self.b1, self.w2, self.b2 = (Tensor(weights[name]) for name in ("w1", "b1", "w2", "b2"))
        self.shift = int(weights["shift"][0])

    def __call__(self, x: Tensor) -> Tensor:
        sums = (x.cast(dtypes.int32) @ self.w1.cast(dtypes.int32) + self.b1).relu()
        hidden = (sums >> self.shift).clip(-128, 127).cast(dtypes.int8)
        return hidden.cast(dtypes.int32) @ self.w2.cast(dtypes.int32) + self.b2


model = Int8MLP(Path(__file__).with_suffix(".safetensors"))
example_inputs = (np.zeros((1, 64), dtype=np.int8),)
