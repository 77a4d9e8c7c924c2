"""A training step as hardware: gradient descent on a line, with the weights updated in place.

Run it: ``python training_step.py``.
"""

from __future__ import annotations

import numpy as np
from tinygrad import Tensor

import tg2hdl

__all__ = ["Line", "run"]


class Line:
    """Fits ``y = a x + b`` by one step of gradient descent on each call, and returns the loss before it."""

    def __init__(self) -> None:
        self.a = Tensor(np.zeros(1, np.float32))
        self.b = Tensor(np.zeros(1, np.float32))

    def __call__(self, x: Tensor, y: Tensor) -> Tensor:
        error = self.a * x + self.b - y
        loss = (error * error).mean()
        rate = 0.5 / x.shape[0]
        step_a, step_b = (error * x).sum() * rate, error.sum() * rate
        return loss.realize(self.a.assign(self.a - step_a), self.b.assign(self.b - step_b))


def run(steps: int = 30) -> list[float]:
    """Train on points of a line; the weights stay in the memories of the design from call to call."""
    rng = np.random.default_rng(4)
    x = rng.uniform(-1, 1, 8).astype(np.float32)
    y = (2 * x - 1).astype(np.float32)
    accelerator = tg2hdl.compile(Line(), x, y)
    losses = [float(accelerator.golden(x, y)) for _ in range(steps)]
    print(
        f"loss {losses[0]:.3f} -> {losses[-1]:.6f} in {steps} steps of {accelerator.predicted_cycles} cycles"
    )
    return losses


if __name__ == "__main__":
    run()
