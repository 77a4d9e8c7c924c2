import numpy as np
import pytest
from tinygrad import Tensor, nn

import tg2hdl

INT = np.zeros((2, 6), np.int8)


def conv(x):
    weight = Tensor(np.ones((3, 1, 3, 3), np.float32))
    return x.conv2d(weight, padding=1)


def before_a_convolution(each):
    """A convolution of 2 x 8 elements with 3 x 2 x 3 weights, to whose elements something is done before."""
    weight = Tensor(np.arange(18, dtype=np.float32).reshape(3, 2, 3))
    return lambda x: each(x).conv2d(weight, padding=1)


def rotated(x):
    a, b = x[0], x[1]
    return Tensor.stack(a * a - b * b, a * b + b * (a + b))


LINE = np.zeros((1, 2, 8), np.float32)


@pytest.mark.parametrize(
    ("model", "x", "macs"),
    [
        (lambda x: x + 1, INT, 0),
        # By a constant: no multiplier.
        (lambda x: x * 3, INT, 0),
        (lambda x: x * x, INT, 12),
        (lambda x: x.cast("int32") @ Tensor(np.ones((6, 5), np.int32)), INT, 2 * 6 * 5),
        (nn.Linear(6, 4), np.zeros((2, 6), np.float32), 2 * 6 * 4),
        (conv, np.zeros((1, 1, 8, 8), np.float32), 3 * 64 * 9),
        # Once for each element, although each one is in nine sums.
        (before_a_convolution(lambda x: x * x), LINE, 3 * 8 * 6 + 16),
        (before_a_convolution(lambda x: x * x[:, ::-1]), LINE, 3 * 8 * 6 + 16),
        # One of two results of two products each.
        (rotated, np.zeros((2, 6), np.float32), 2 * 2 * 6),
    ],
)
def test_multiplications_of_data_are_counted(model, x, macs):
    if isinstance(model, nn.Linear):
        for name in ("weight", "bias"):
            shape = getattr(model, name).shape
            setattr(model, name, Tensor(np.ones(shape, np.float32)))
    assert sum(k.macs for k in tg2hdl.compile(model, x).kernels) == macs


@pytest.mark.parametrize("multipliers", [1, 4])
@pytest.mark.parametrize("each", [lambda x: x * x, lambda x: x.silu(), lambda x: x.exp()])
def test_a_ratio_is_never_below_one(each, multipliers):
    options = tg2hdl.CompileOptions(multipliers=multipliers, cut_kernels=False)
    accelerator = tg2hdl.compile(before_a_convolution(each), LINE, options=options)
    assert all(kernel.ratio is None or kernel.ratio >= 1 for kernel in accelerator.kernels)
    assert sum(kernel.macs for kernel in accelerator.kernels) >= 3 * 8 * 6


def test_products_that_share_a_multiplier_count_once():
    """Two MACs by 4-bit weights are one product, so their ratio is not below one either."""
    w = np.random.default_rng(3).normal(size=(32, 12)).astype(np.float32)
    x = np.random.default_rng(4).normal(size=(24, 32)).astype(np.float32)
    q = tg2hdl.quantize(lambda a: a @ Tensor(w), x, weight_bits=4, requantization="shift")
    accelerator = tg2hdl.compile(q, x[0], multipliers=4)
    found = max(accelerator.kernels, key=lambda k: k.macs)
    assert (found.macs, found.products) == (32 * 12, 32 * 12 // 2)
    assert found.ratio == found.cycles * 4 / found.products >= 1
