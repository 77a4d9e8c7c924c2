"""Reductions and what follows them, as kernels of their own where that takes fewer cycles."""

from __future__ import annotations

import numpy as np
import pytest
from tinygrad import Tensor, nn

import tg2hdl
from tg2hdl_ir import evaluate_program

RNG = np.random.default_rng(7)


def array(*shape):
    return RNG.uniform(-1, 1, shape).astype(np.float32)


def as_captured(accelerator, x):
    """Result of the kernels that tinygrad made, by the golden model."""
    program = accelerator.captured.program
    name = program.buffers[accelerator.captured.inputs[0].buffer].name
    return evaluate_program(program, {name: x})[program.buffers[program.outputs[0]].name]


def check(accelerator, x, expected):
    result = accelerator.simulate(x)
    np.testing.assert_array_equal(result.output, as_captured(accelerator, x))
    np.testing.assert_allclose(result.output, expected, rtol=2e-5, atol=2e-6)
    assert result.cycles.compute == accelerator.predicted_cycles


def tanh_gelu(y):
    return 0.5 * y * (1 + np.tanh(np.sqrt(2 / np.pi) * (y + 0.044715 * y**3)))


class TwoLayers:
    """Thirty inputs, sixteen hidden, one output: tinygrad makes one kernel of it."""

    def __init__(self):
        self.first, self.second = nn.Linear(30, 16), nn.Linear(16, 1)

    def __call__(self, x):
        return self.second(self.first(x).relu()).sigmoid()


def test_two_layers_with_one_output_are_two_kernels():
    model, x = TwoLayers(), array(1, 30)
    accelerator = tg2hdl.compile(model, x, multipliers=16)
    assert len(accelerator.captured.program.calls) == 1
    assert [k.name for k in accelerator.kernels] == ["r_30_16_sums", "r_30_16_rest"]
    assert accelerator.predicted_cycles <= 480
    w1, b1, w2, b2 = (
        t.numpy().astype(np.float64)
        for t in (model.first.weight, model.first.bias, model.second.weight, model.second.bias)
    )
    hidden = np.maximum(x @ w1.T + b1, 0)
    check(accelerator, x, 1 / (1 + np.exp(-(hidden @ w2.T + b2))))


def test_an_activation_takes_no_multiplier_from_the_product_before_it():
    weight, x = array(8, 8), array(8, 8)
    w = Tensor(weight)
    alone = tg2hdl.compile(lambda x: x @ w, x, multipliers=4)
    accelerator = tg2hdl.compile(lambda x: (x @ w).gelu(), x, multipliers=4)
    first, *rest = accelerator.kernels
    assert first.cycles == alone.predicted_cycles
    assert sum(k.cycles for k in rest) < first.cycles
    check(accelerator, x, tanh_gelu((x @ weight).astype(np.float64)))


def test_products_far_apart_are_two_kernels_that_overlap():
    """Of three products in a chain the last one comes 44 cycles after the first; each kernel has all multipliers."""
    weight, x = array(16, 32), array(8, 16)
    w = Tensor(weight)
    accelerator = tg2hdl.compile(lambda x: (x @ w).gelu(), x, multipliers=16)
    sums, first, last = accelerator.kernels
    assert [k.multipliers for k in (sums, first, last)] == [16, 16, 16]
    products = (8 * 16 * 32 + 3 * 8 * 32) // 16
    assert accelerator.predicted_cycles < products + 44
    check(accelerator, x, tanh_gelu((x @ weight).astype(np.float64)))
    serial = tg2hdl.compile(
        lambda x: (x @ w).gelu(), x, multipliers=16, options=tg2hdl.CompileOptions(schedule="serial")
    )
    whole = tg2hdl.compile(
        lambda x: (x @ w).gelu(), x, multipliers=16, options=tg2hdl.CompileOptions(share_multipliers=False)
    )
    assert len(whole.kernels) == 2
    assert serial.predicted_cycles >= accelerator.predicted_cycles


def test_a_bias_and_a_maximum_stay_with_their_product():
    w, b = Tensor(array(8, 16)), Tensor(array(16))
    accelerator = tg2hdl.compile(lambda x: (x @ w + b).relu(), array(16, 8), multipliers=8)
    assert len(accelerator.kernels) == 1


@pytest.mark.parametrize("multipliers", [1, 4])
def test_integers_with_a_scale_for_each_channel(multipliers):
    q, scale = RNG.integers(-100, 100, (12, 8)).astype(np.int8), RNG.integers(1, 100, 8).astype(np.int32)
    w, s = Tensor(q), Tensor(scale)
    x = RNG.integers(-128, 127, (8, 12)).astype(np.int8)
    accelerator = tg2hdl.compile(
        lambda x: (x.cast("int32") @ w.cast("int32")) * s, x, multipliers=multipliers
    )
    result = accelerator.simulate(x)
    np.testing.assert_array_equal(result.output, x.astype(int) @ q.astype(int) * scale)
    assert result.cycles.compute == accelerator.predicted_cycles


def test_two_reductions_before_one_epilogue_are_cut_from_it():
    """A block with a projection: both convolutions and their normalizations arrive as one kernel."""
    a, b = Tensor(array(8, 4, 3, 3)), Tensor(array(8, 4, 1, 1))
    scales = [Tensor(array(8, 1, 1)) for _ in range(4)]

    def model(x):
        main = ((x.conv2d(a, padding=1) + scales[0]) * scales[1] + scales[2]) * scales[3]
        return (main + (x.conv2d(b) + scales[1]) * scales[2] * scales[0]).relu()

    x = array(1, 4, 6, 6)
    accelerator = tg2hdl.compile(model, x, multipliers=16)
    assert len(accelerator.captured.program.calls) == 1
    assert len(accelerator.kernels) == 2
    assert accelerator.predicted_cycles < 1.35 * 36 * 8 * 40 / 16
    check(accelerator, x, model(Tensor(x)).numpy())


@pytest.mark.parametrize(("channels", "outputs", "groups"), [(14, 14, 7), (6, 12, 6), (9, 9, 3)])
def test_channels_in_groups_keep_their_lanes(channels, outputs, groups):
    """The channel that is read is a quotient of the output's number."""
    weight = Tensor(array(outputs, channels // groups, 3, 3))

    def model(x):
        return x.conv2d(weight, groups=groups, padding=1)

    x = array(1, channels, 7, 7)
    accelerator = tg2hdl.compile(model, x, multipliers=16)
    assert accelerator.predicted_cycles < 1.6 * 49 * outputs * channels // groups * 9 / 16
    check(accelerator, x, model(Tensor(x)).numpy())


def test_a_kernel_whose_layout_leaves_one_lane_chooses_before_others():
    """The later product would read words that cross the rows which the first convolution writes."""
    a, b = Tensor(array(8, 3, 3, 3)), Tensor(array(12, 8, 3, 3))

    def model(x):
        y = x.conv2d(a, padding=1).relu().conv2d(b, padding=1)
        return y.reshape(1, 3, 2, 2, 9, 9).permute(0, 1, 4, 2, 5, 3).reshape(1, 3, 18, 18)

    x = array(1, 3, 9, 9)
    accelerator = tg2hdl.compile(model, x, multipliers=16)
    assert accelerator.predicted_cycles < 1.7 * 81 * 9 * (3 * 8 + 8 * 12) / 16
    check(accelerator, x, model(Tensor(x)).numpy())


def test_explicit_lanes_keep_the_kernels_of_tinygrad():
    options = tg2hdl.CompileOptions(unroll_factor=2)
    w = Tensor(array(8, 16))
    accelerator = tg2hdl.compile(lambda x: (x @ w).gelu(), array(16, 8), options=options)
    assert len(accelerator.kernels) == 1


def test_a_kernel_that_waits_for_layouts_chooses_before_others(monkeypatch):
    """The transposed product would read several rows at once; a word of its memory holds one."""
    weight = np.random.default_rng(0).integers(-100, 100, (8, 8)).astype(np.int8)
    x = np.random.default_rng(1).integers(-100, 100, (8, 8)).astype(np.int8)
    wide = Tensor(weight).cast("int32")

    def model(x):
        first = ((x.cast("int32") @ wide) >> 8).contiguous()
        turned = (first.transpose(0, 1).contiguous() * 3).cast("int8").contiguous()
        return turned.cast("int32") @ x.cast("int32")

    options = tg2hdl.CompileOptions(multipliers=16, schedule="serial")
    accelerator = tg2hdl.compile(model, x, options=options)
    result = accelerator.simulate(x, engine="amaranth")
    turned = (((x.astype(int) @ weight.astype(int)) >> 8).T * 3).astype(np.int8)
    assert (result.output == turned.astype(int) @ x.astype(int)).all()
    assert result.cycles.compute == accelerator.predicted_cycles
    monkeypatch.setattr("tg2hdl_top.placement.MOST_RELIEVED", 0)
    assert accelerator.predicted_cycles < tg2hdl.compile(model, x, options=options).predicted_cycles
