"""Memories of more words than a block RAM is deep, as input, weights and output."""

import numpy as np
import pytest
from tinygrad import Tensor

import tg2hdl
from tg2hdl.bits import same_bits

RNG = np.random.default_rng(9)


@pytest.mark.parametrize("weights", ["rom", "loadable"])
def test_deep_memories(weights: str) -> None:
    size = 17_000
    w = Tensor(RNG.integers(-128, 128, size).astype(np.int8))
    x = RNG.integers(-128, 128, size).astype(np.int8)
    accelerator = tg2hdl.compile(lambda x: x.maximum(w), x, weights=weights)
    run = accelerator.simulate(x)
    assert same_bits(run.output, accelerator.golden(x))
    assert run.cycles.compute == accelerator.predicted_cycles < size + 20
