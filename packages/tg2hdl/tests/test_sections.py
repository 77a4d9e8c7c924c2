"""Concatenated and padded layers: each is computed for its own outputs only."""

from __future__ import annotations

import numpy as np
import pytest
from tinygrad import Tensor

import tg2hdl
from tg2hdl_ir import evaluate_program

RNG = np.random.default_rng(5)
INPUT = RNG.integers(-8, 8, (1, 2, 6, 6), dtype=np.int8)
WEIGHTS = [RNG.integers(-8, 8, (3, 2, size, size), dtype=np.int8) for size in (1, 3)]


def convolution(x, w):
    """Integer convolution that keeps the size, by its definition."""
    size = w.shape[-1]
    padded = np.pad(x[0].astype(np.int64), ((0, 0), (size // 2, size // 2), (size // 2, size // 2)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (size, size), (1, 2))
    return np.einsum("crxab,ocab->orx", windows.reshape(2, 6, 6, size, size), w)[None]


def layer(x, w):
    size = w.shape[-1]
    return x.cast("int32").conv2d(Tensor(w).cast("int32"), padding=size // 2)


def test_concatenated_convolutions_take_the_cycles_of_their_products():
    accelerator = tg2hdl.compile(
        lambda x: Tensor.cat(*(layer(x, w) for w in WEIGHTS), dim=1).relu(), INPUT, multipliers=4
    )
    want = np.maximum(np.concatenate([convolution(INPUT, w) for w in WEIGHTS], 1), 0)
    result = accelerator.simulate(INPUT, engine="amaranth")
    np.testing.assert_array_equal(result.output, want)
    products = 36 * 3 * 2 * (1 + 9)
    assert result.cycles.compute == accelerator.predicted_cycles < 1.2 * products / 4


def test_a_border_is_not_computed():
    accelerator = tg2hdl.compile(lambda x: layer(x, WEIGHTS[1]).pad((4, 4, 0, 6)), INPUT, multipliers=4)
    want = np.pad(convolution(INPUT, WEIGHTS[1]), ((0, 0), (0, 0), (0, 6), (4, 4)))
    np.testing.assert_array_equal(accelerator.golden(INPUT), want)
    products, outputs = 36 * 3 * 18, 36 * 3 + 12 * 10 * 3
    assert accelerator.predicted_cycles < 1.2 * (products + outputs) / 4


@pytest.mark.parametrize("after", [lambda y: y, lambda y: y.mean((2, 3))])
def test_floats_are_the_same_bits(after):
    x = RNG.normal(size=(1, 2, 6, 6)).astype(np.float32)
    weight = Tensor(RNG.normal(size=(3, 2, 3, 3)).astype(np.float32))
    accelerator = tg2hdl.compile(
        lambda x: after(x.cat(x.conv2d(weight, padding=1), x * 2, dim=1)), x, multipliers=4
    )
    program = accelerator.captured.program
    whole = evaluate_program(program, {"x": x})[program.buffers[program.outputs[0]].name]
    np.testing.assert_array_equal(accelerator.golden(x).view(np.uint32), whole.view(np.uint32))
    assert len(accelerator.kernels) > len(program.calls)
