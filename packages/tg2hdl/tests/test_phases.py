"""Transposed convolutions without their zeros."""

from __future__ import annotations

import numpy as np
import pytest
from tinygrad import Tensor

import tg2hdl
from tg2hdl_ir import evaluate_program

RNG = np.random.default_rng(3)


def transposed(x, w, stride, padding, more):
    """Convolution with zeros in between, by its definition."""
    size, side = w.shape[-1], x.shape[-1]
    out = np.zeros((w.shape[1], (side - 1) * stride + size + more, (side - 1) * stride + size + more))
    for (i, o, a, b), value in np.ndenumerate(w):
        for (r, c), pixel in np.ndenumerate(x[0, i]):
            out[o, r * stride + a, c * stride + b] += float(value) * float(pixel)
    end = -padding if padding else None
    return out[None, :, padding:end, padding:end]


@pytest.mark.parametrize(("size", "stride", "padding", "more"), [(3, 2, 1, 1), (4, 2, 1, 0), (4, 4, 0, 0)])
def test_floats_are_the_same_bits_in_fewer_cycles(size, stride, padding, more):
    x, w = RNG.normal(size=(1, 2, 4, 4)).astype(np.float32), RNG.normal(size=(2, 2, size, size))
    weight = Tensor(w.astype(np.float32))
    accelerator = tg2hdl.compile(
        lambda x: x.conv_transpose2d(weight, stride=stride, padding=padding, output_padding=more).relu(),
        x,
        multipliers=4,
    )
    program = accelerator.captured.program
    whole = evaluate_program(program, {"x": x})[program.buffers[program.outputs[0]].name]
    result = accelerator.golden(x)
    np.testing.assert_array_equal(result.view(np.uint32), whole.view(np.uint32))
    expected = np.maximum(transposed(x, w.astype(np.float32), stride, padding, more), 0)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)
    assert len(accelerator.kernels) == stride**2


@pytest.mark.parametrize(("size", "stride", "side"), [(3, 2, 4), (5, 3, 3)])
def test_sizes_that_are_no_multiple_of_the_stride(size, stride, side):
    """As PyTorch's ConvTranspose2d makes them without padding; strides that are not a power of two."""
    x = RNG.normal(size=(1, 2, side, side)).astype(np.float32)
    w = RNG.normal(size=(2, 3, size, size)).astype(np.float32)
    weight = Tensor(w)
    accelerator = tg2hdl.compile(lambda x: x.conv_transpose2d(weight, stride=stride), x, multipliers=8)
    assert len(accelerator.kernels) >= stride**2
    result = accelerator.simulate(x)
    np.testing.assert_allclose(result.output, transposed(x, w, stride, 0, 0), rtol=1e-5, atol=1e-5)
    program = accelerator.captured.program
    whole = evaluate_program(program, {"x": x})[program.buffers[program.outputs[0]].name]
    np.testing.assert_array_equal(result.output.view(np.uint32), whole.view(np.uint32))
    assert result.cycles.compute == accelerator.predicted_cycles


def test_phases_with_few_sums_share_a_kernel():
    """More sums for each adder; the products that the shorter phases lack are zeros, also beside infinity."""
    x, w = (RNG.normal(size=shape).astype(np.float32) for shape in ((1, 2, 4, 4), (2, 1, 3, 3)))
    x[0, 1, 2, 1] = np.inf
    weight = Tensor(w)
    accelerator = tg2hdl.compile(
        lambda x: x.conv_transpose2d(weight, stride=2, padding=1, output_padding=1),
        x,
        multipliers=4,
    )
    assert len(accelerator.kernels) < 4
    program = accelerator.captured.program
    whole = evaluate_program(program, {"x": x})[program.buffers[program.outputs[0]].name]
    result = accelerator.simulate(x, engine="amaranth")
    np.testing.assert_array_equal(result.output.view(np.uint32), whole.view(np.uint32))
    assert result.cycles.compute == accelerator.predicted_cycles


@pytest.mark.parametrize("weights", ["rom", "loadable"])
def test_integers_on_hardware(weights):
    x, w = (RNG.integers(-100, 100, shape).astype(np.int8) for shape in ((1, 2, 4, 4), (2, 2, 3, 3)))
    weight = Tensor(w)
    accelerator = tg2hdl.compile(
        lambda x: x.cast("int32").conv_transpose2d(
            weight.cast("int32"), stride=2, padding=1, output_padding=1
        ),
        x,
        multipliers=4,
        weights=weights,
    )
    result = accelerator.simulate(x, engine="amaranth")
    np.testing.assert_array_equal(result.output, transposed(x, w, 2, 1, 1))
    assert result.cycles.compute == accelerator.predicted_cycles
    assert len(accelerator.kernels) == 4


@pytest.mark.parametrize(("value", "weights"), [(np.inf, "rom"), (np.nan, "rom"), (1.0, "loadable")])
def test_weights_that_may_be_infinite_keep_their_zeros(value, weights):
    x, w = RNG.normal(size=(1, 1, 4, 4)).astype(np.float32), RNG.normal(size=(1, 1, 3, 3)).astype(np.float32)
    w[0, 0, 1, 1] = value
    weight = Tensor(w)
    accelerator = tg2hdl.compile(
        lambda x: x.conv_transpose2d(weight, stride=2, padding=1, output_padding=1),
        x,
        multipliers=4,
        weights=weights,
    )
    assert len(accelerator.kernels) == 1
