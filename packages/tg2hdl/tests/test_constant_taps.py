"""Image filters whose weights are small constants."""

from __future__ import annotations

import numpy as np
import pytest
from tinygrad import Tensor, dtypes

import tg2hdl
from tg2hdl_ir import evaluate_program

SOBEL = np.array([[1, 0, -1], [2, 0, -2], [1, 0, -1]], np.int32)
LAPLACE = np.array([[0, 3, 0], [3, -12, 3], [0, 3, 0]], np.int32)


def filtered(image, kernel):
    """Correlation of a padded image, by its definition."""
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(image.astype(np.int64), 1), kernel.shape)
    return (windows * kernel).sum((2, 3))


def gradients(x, weight):
    return x.cast(dtypes.int32).conv2d(weight, padding=1).abs().sum(1)


@pytest.mark.parametrize("kernels", [(SOBEL, SOBEL.T), (LAPLACE,)])
def test_filters_have_no_multiplier_and_one_step_for_each_pixel(kernels):
    image = np.random.default_rng(3).integers(-128, 128, (1, 1, 12, 16)).astype(np.int8)
    weight = Tensor(np.stack(kernels)[:, None])
    accelerator = tg2hdl.compile(lambda x: gradients(x, weight), image, multipliers=4)
    result = accelerator.simulate(image, engine="amaranth")
    expected = sum(np.abs(filtered(image[0, 0], kernel)) for kernel in kernels)
    np.testing.assert_array_equal(result.output[0], expected)
    assert result.cycles.compute == accelerator.predicted_cycles
    program = accelerator.captured.program
    whole = evaluate_program(program, {"x": image})[program.buffers[program.outputs[0]].name]
    np.testing.assert_array_equal(result.output.reshape(-1), whole.reshape(-1))
    assert [k.multipliers for k in accelerator.kernels] == [0]
    assert accelerator.predicted_cycles < 12 * 16 / 4 * 1.6


@pytest.mark.parametrize(
    ("weight", "weights"),
    [(SOBEL, "loadable"), (np.full((3, 3), 0b10101, np.int32), "rom")],
    ids=["loadable", "many additions"],
)
def test_other_weights_keep_their_multipliers(weight, weights):
    image = np.arange(64, dtype=np.int8).reshape(1, 1, 8, 8)
    held = Tensor(weight[None, None])
    accelerator = tg2hdl.compile(lambda x: gradients(x, held), image, multipliers=4, weights=weights)
    assert accelerator.kernels[0].multipliers == 4
    np.testing.assert_array_equal(accelerator.golden(image)[0], np.abs(filtered(image[0, 0], weight)))


def test_a_wrapping_sum_of_taps():
    image = np.array([[120, 127, 127, -128, -128, 1]], np.int8)
    weight = Tensor(np.array([[[2], [-8], [6]]], np.int8).reshape(1, 1, 3))

    def model(x):
        return x.reshape(1, 1, 6).conv2d(weight, padding=1, dtype=dtypes.int8)

    accelerator = tg2hdl.compile(model, image, multipliers=2)
    padded = np.pad(image[0].astype(np.int64), 1)
    expected = sum(padded[n : n + 6] * tap for n, tap in enumerate((2, -8, 6))).astype(np.int8)
    result = accelerator.simulate(image, engine="amaranth")
    np.testing.assert_array_equal(result.output.reshape(-1), expected)
