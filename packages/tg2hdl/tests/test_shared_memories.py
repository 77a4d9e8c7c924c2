"""Block RAMs of a design whose buffers share them: as Yosys makes them, with the same results through each port."""

from __future__ import annotations

import numpy as np
import pytest
from tinygrad import Tensor

import tg2hdl
from tg2hdl_top.memory_blocks import memory_blocks

RNG = np.random.default_rng(0)
LAYERS = [RNG.integers(-4, 4, (16, 16, 3, 3)).astype(np.int8) for _ in range(3)]
X = RNG.integers(-128, 128, (1, 16, 8, 8)).astype(np.int8)


def network(x: Tensor) -> Tensor:
    """Three convolutions."""
    for weights in LAYERS:
        x = (x.cast("int32").conv2d(Tensor(weights).cast("int32"), padding=1) >> 6).maximum(-128).minimum(127)
    return x


def compiled(**options):
    return tg2hdl.compile(network, X, options=tg2hdl.CompileOptions(multipliers=4, **options))


@pytest.fixture(scope="module")
def accelerator():
    return compiled()


def test_blocks_are_those_of_yosys(accelerator):
    counted = memory_blocks(accelerator.design)
    assert any(len(array.members) > 1 for array in accelerator.design.arrays)
    made = accelerator.synthesize("ecp5-85k", place=False, pack_registers=False).by_memory
    assert made == {name: blocks for name, blocks in counted.items() if blocks}
    apart = memory_blocks(compiled(share_memories=False).design)
    assert sum(counted.values()) < sum(apart.values())


@pytest.mark.parametrize("ports", [("native",), ("axi-stream",)])
def test_bits_and_cycles(accelerator, ports):
    shared = accelerator if ports == ("native",) else compiled(ports=ports)
    run = shared.simulate(X)
    np.testing.assert_array_equal(run.output, shared.golden(X))
    assert run.cycles.compute == shared.predicted_cycles == accelerator.predicted_cycles


def test_the_memory_map_says_who_shares(accelerator):
    text = repr(accelerator.memory)
    total = sum(memory_blocks(accelerator.design).values())
    assert f"{total} block RAMs of 18,432 bits, filled to " in text
    assert "in shared0" in text
    assert "shared0: " in text
    explained = accelerator.explain(variants=False).format()
    assert "share-memories" in explained
    assert f"{total} block RAMs\n" in explained


def test_a_saved_design_whose_kernels_overlap_on_a_shared_port():
    w = Tensor(RNG.standard_normal((8, 64)).astype(np.float32))
    made = tg2hdl.compile(lambda x: (x @ w).gelu(), np.zeros((16, 8), np.float32), multipliers=16).design
    assert "shared0.r0" in [window.use for window in made.sequencer.windows]
    assert type(made).from_json(made.to_json()).format() == made.format()
