"""Digit classifier in float32: 64-32-10 with ReLU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from safetensors.numpy import load_file
from tinygrad import Tensor

__all__ = ["FloatMLP", "example_inputs", "model"]


class FloatMLP:
    """Call with pixels 0..1 as float32 of shape (1, 64); gives the scores of the ten digits."""

    def __init__(self, path: Path) -> None:
        weights = load_file(path)
        self.w1, self.b1, self.w2, self.b2 = (Tensor(weights[name]) for name in ("w1", "b1", "w2", "b2"))

    def __call__(self, x: Tensor) -> Tensor:
        return (x @ self.w1 + self.b1).relu() @ self.w2 + self.b2


model = FloatMLP(Path(__file__).with_suffix(".safetensors"))
example_inputs = (np.zeros((1, 64), dtype=np.float32),)
