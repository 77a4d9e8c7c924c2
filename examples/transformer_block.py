"""A transformer block: attention, layer norm and a GELU network; float32.

Run it: ``python transformer_block.py``, with ``--simulate`` also on simulated hardware.
"""

from __future__ import annotations

import sys

import numpy as np
from tinygrad import Tensor, nn

import tg2hdl

__all__ = ["Block", "run"]


class Block:
    """Self-attention of one head and a network of two layers, each with a residual connection."""

    def __init__(self, width: int, seed: int = 0) -> None:
        Tensor.manual_seed(seed)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.wide, self.narrow = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def __call__(self, x: Tensor) -> Tensor:
        n = self.norm1(x)
        x = x + self.query(n).scaled_dot_product_attention(self.key(n), self.value(n))
        return x + self.narrow(self.wide(self.norm2(x)).gelu())


def run(*, simulate: bool = False) -> tg2hdl.Accelerator:
    """Compile it, print where the cycles go, and compare with tinygrad's own result."""
    x = np.random.default_rng(3).normal(size=(4, 8)).astype(np.float32)
    accelerator = tg2hdl.compile(Block(8), x, multipliers=4)
    output = accelerator.simulate(x).output if simulate else accelerator.golden(x)
    (agreement,) = accelerator.check(output, x)
    assert agreement.agrees, agreement
    for kernel in accelerator.kernels:
        print(f"{kernel.cycles:6} cycles  {kernel.layer or kernel.name}")
    print(f"{accelerator.predicted_cycles:6} in all; against tinygrad: {agreement}")
    return accelerator


if __name__ == "__main__":
    run(simulate="--simulate" in sys.argv)
