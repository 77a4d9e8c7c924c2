"""Sliding windows over an image in block RAM: the multipliers do not wait for its two ports."""

import numpy as np
import pytest
from tinygrad import Tensor, dtypes

import tg2hdl
from tg2hdl.bits import same_bits

RNG = np.random.default_rng(3)


@pytest.mark.parametrize(
    ("channels", "size", "multipliers", "options", "most"),
    [
        ((1, 1), 28, 9, {}, 1.1),
        ((1, 1), 24, 6, {"padding": 1}, 1.2),
        ((1, 1), 28, 8, {"stride": 2}, 1.7),
        ((1, 1), 26, 9, {"dilation": 2}, 1.2),
        ((3, 2), 20, 12, {}, 1.2),
        ((4, 4), 16, 12, {"groups": 4}, 1.3),
    ],
)
def test_convolution(channels, size, multipliers, options, most) -> None:
    inputs, outputs = channels
    shape = (outputs, inputs // options.get("groups", 1), 3, 3)
    weights = Tensor(RNG.integers(-128, 128, shape).astype(np.int8))
    image = RNG.integers(-128, 128, (1, inputs, size, size)).astype(np.int8)
    accelerator = tg2hdl.compile(
        lambda x: x.cast(dtypes.int32).conv2d(weights.cast(dtypes.int32), **options),
        image,
        options=tg2hdl.CompileOptions(multipliers=multipliers),
    )
    run = accelerator.simulate(image)
    assert same_bits(run.output, accelerator.golden(image))
    assert run.cycles.compute == accelerator.predicted_cycles
    products = run.output.size * shape[1] * 9
    assert accelerator.predicted_cycles * multipliers <= most * products + 30 * multipliers


def test_stencil_of_floats_in_all_channels() -> None:
    """Sums over channels that wait for the adder take turns, in loops that begin early."""
    image = RNG.normal(size=(2, 10, 44)).astype(np.float32)

    def cross(x: Tensor) -> Tensor:
        sides = x[:, :-2, 1:-1] + x[:, 2:, 1:-1] + x[:, 1:-1, :-2] + x[:, 1:-1, 2:]
        return (sides + x[:, 1:-1, 1:-1]).sum(axis=0)

    accelerator = tg2hdl.compile(cross, image)
    assert any(note.startswith("warm-up") for kernel in accelerator.kernels for note in kernel.notes)
    run = accelerator.simulate(image)
    assert same_bits(run.output, accelerator.golden(image))
    assert run.cycles.compute == accelerator.predicted_cycles
