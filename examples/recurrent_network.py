"""A recurrent network over time steps, unrolled by tinygrad; float32.

Run it: ``python recurrent_network.py``, with ``--simulate`` also on simulated hardware.
"""

from __future__ import annotations

import sys

import numpy as np
from tinygrad import Tensor

import tg2hdl

__all__ = ["Recurrent", "run"]


class Recurrent:
    """A cell ``h = relu(x w + h u)`` over the first axis of its input, and a linear output."""

    def __init__(self, inputs: int, hidden: int, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        scale = 1 / np.sqrt(hidden)
        self.w = Tensor(rng.normal(0, scale, (inputs, hidden)).astype(np.float32))
        self.u = Tensor(rng.normal(0, scale, (hidden, hidden)).astype(np.float32))
        self.out = Tensor(rng.normal(0, scale, (hidden, 1)).astype(np.float32))
        self.hidden = hidden

    def __call__(self, sequence: Tensor) -> Tensor:
        state = Tensor.zeros(1, self.hidden)
        for step in range(sequence.shape[0]):
            state = (sequence[step : step + 1] @ self.w + state @ self.u).relu().contiguous()
        return state @ self.out


def run(steps: int = 4, *, simulate: bool = False) -> tg2hdl.Accelerator:
    """Compile it, and compare the golden model with tinygrad's own result."""
    sequence = np.random.default_rng(2).normal(size=(steps, 3)).astype(np.float32)
    accelerator = tg2hdl.compile(Recurrent(3, 4), sequence, multipliers=4)
    output = accelerator.simulate(sequence).output if simulate else accelerator.golden(sequence)
    (agreement,) = accelerator.check(output, sequence)
    assert agreement.agrees, agreement
    print(
        f"{len(accelerator.kernels)} kernels, {accelerator.predicted_cycles} cycles; against tinygrad: {agreement}"
    )
    return accelerator


if __name__ == "__main__":
    run(simulate="--simulate" in sys.argv)
