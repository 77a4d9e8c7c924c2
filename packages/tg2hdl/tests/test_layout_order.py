"""Layouts of buffers between several kernels: which of them chooses first."""

from __future__ import annotations

import numpy as np
from tinygrad import Tensor

import tg2hdl


def test_the_kernel_between_two_choosers_follows_the_first_one() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1, 16, 8, 8)).astype(np.float32)
    weight = Tensor(rng.normal(size=(16, 16, 1, 1)).astype(np.float32))

    def model(x: Tensor) -> Tensor:
        return (x * x.mean((2, 3)).sigmoid().reshape(1, 16, 1, 1)).conv2d(weight)

    accelerator = tg2hdl.compile(model, x, multipliers=16)
    decisions = [d for plan in accelerator.design.core_plans for d in plan.decisions]
    taken = [d.alternatives[d.taken].name for d in decisions if d.rewrite == "choose-layouts"]
    assert any("and then" in name for name in taken)
    # Means of 16 channels at once, the addition after 4 cycles each; 16 channels of a product; the convolution.
    assert accelerator.predicted_cycles <= 4 * 64 + 64 + 1024 + 60
