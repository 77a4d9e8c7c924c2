"""Elements at computed places: counters divided by a constant with a product, lanes that no step reads."""

import warnings

import numpy as np
import pytest
from tinygrad import Tensor

import tg2hdl
from tg2hdl_top import CompileOptions


@pytest.mark.parametrize("schedule", ["auto", "overlap", "serial"])
def test_running_sums_of_a_convolution(schedule):
    rng = np.random.default_rng(0)
    taps = rng.integers(-8, 8, (4, 1, 3)).astype(np.int8)
    weights = Tensor(taps).realize()

    def model(x):
        y = x.cast("int32").conv2d(weights.cast("int32"), stride=2)
        y = (y.clip(-512, 511) // 4).cast("int8").reshape(2, 12)
        return y.cast("int32").cumsum(1)

    x = rng.integers(-9, 9, (2, 1, 8)).astype(np.int8)
    windows = np.lib.stride_tricks.sliding_window_view(x[:, 0].astype(int), 3, axis=1)[:, ::2]
    sums = np.einsum("bwk,ck->bcw", windows, taps[:, 0].astype(int))
    expected = np.cumsum((sums.clip(-512, 511) // 4).reshape(2, 12), axis=1)

    accelerator = tg2hdl.compile(model, x, options=CompileOptions(multipliers=4, schedule=schedule))
    result = accelerator.simulate(x)
    assert np.array_equal(result.output, expected)
    assert result.cycles.compute == accelerator.predicted_cycles


@pytest.mark.parametrize("multipliers", [1, 4, 8, 16])
def test_lanes_that_no_step_reads_are_not_emitted(multipliers):
    def model(x):
        y = (x.cast("int32") + x.argmax(1, keepdim=True)).clip(-128, 127).cast("int8")
        return y.cat(x.maximum(0), dim=1).cast("int32").cumsum(1).clip(-128, 127).cast("int8")

    x = np.array([[1, -2], [3, 4]], np.int8)
    accelerator = tg2hdl.compile(model, x, multipliers=multipliers)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        accelerator.verilog()
        result = accelerator.simulate(x)
    y = x + x.argmax(1)[:, None]
    assert np.array_equal(result.output, np.cumsum(np.hstack([y, np.maximum(x, 0)]), axis=1))
