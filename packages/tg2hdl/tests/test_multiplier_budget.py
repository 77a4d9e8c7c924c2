"""``multipliers=N`` is what the emitted design has at most: counted in its netlist."""

import re

import numpy as np
import pytest
from tinygrad import Tensor, dtypes

import tg2hdl
from tg2hdl_ir import UnsupportedError

FLOAT_CELLS = 4
"""Products of a portable FP32 multiplier in a netlist: two limbs of each factor."""


def weight(*shape):
    return Tensor(np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32))


def floats(*shape):
    return np.random.default_rng(1).normal(size=shape).astype(np.float32)


def cholesky(a):
    columns = []
    for j in range(3):
        rest = a[:, j]
        for column in columns:
            rest = rest - column * column[j]
        columns.append(rest * rest[j])
    return Tensor.stack(*columns, dim=1)


def polynomial(x):
    return ((x * 0.3 + 1) * x * x + 0.7) * x * x


def layers(x):
    w1, w2 = weight(8, 8), weight(8, 8)
    return ((x @ w1).relu() @ w2) * 0.37 + x * x


def squares(x):
    y = x.cast(dtypes.int32)
    return y * y * 77 + (y + 3) * (y - 5)


def two_sums(x):
    y = x.cast(dtypes.int32)
    w = Tensor(np.arange(-32, 32, dtype=np.int8).reshape(8, 8)).cast(dtypes.int32)
    return (y @ w) + (y @ w.T).sum(1, keepdim=True)


FLOAT_MODELS = {
    "cholesky": (cholesky, floats(3, 3)),
    "polynomial": (polynomial, floats(24)),
    "layers": (layers, floats(4, 8)),
    "convolution": (lambda x: x.conv2d(weight(2, 2, 3, 3)) * 0.1, floats(1, 2, 6, 6)),
    "batch norm": (lambda x: (x @ weight(8, 6) - 0.25) * 1.7 + 0.1, floats(3, 8)),
}
INTEGER_MODELS = {
    "squares": (squares, np.arange(-8, 8, dtype=np.int8)),
    "two sums": (two_sums, np.arange(32, dtype=np.int8).reshape(4, 8)),
}


def products(text):
    return text.count("cell $mul ")


@pytest.mark.parametrize("multipliers", [1, 5])
@pytest.mark.parametrize("name", FLOAT_MODELS)
def test_float_products(name, multipliers):
    model, x = FLOAT_MODELS[name]
    accelerator = tg2hdl.compile(model, x, multipliers=multipliers)
    text = accelerator.rtlil()
    units = len(re.findall(r"cell \\\S*multipliers\.m\d+_mul ", text))
    assert 0 < units <= multipliers
    assert max(k.multipliers for k in accelerator.kernels) == units
    # Those by constants, which have none, are in the kernels.
    assert products(text) == FLOAT_CELLS * units


@pytest.mark.parametrize("multipliers", [1, 2, 4])
@pytest.mark.parametrize("name", INTEGER_MODELS)
def test_integer_products(name, multipliers):
    model, x = INTEGER_MODELS[name]
    accelerator = tg2hdl.compile(model, x, multipliers=multipliers)
    assert 0 < products(accelerator.rtlil()) <= multipliers
    result = accelerator.simulate(x)
    assert np.array_equal(result.output, model(Tensor(x)).numpy())
    assert result.cycles.compute == accelerator.predicted_cycles


@pytest.mark.parametrize(("name", "multipliers"), [("polynomial", 2), ("cholesky", 1)])
def test_products_that_take_turns_are_the_same_numbers(name, multipliers):
    model, x = FLOAT_MODELS[name]
    accelerator = tg2hdl.compile(model, x, multipliers=multipliers)
    assert any("take turns" in note for kernel in accelerator.kernels for note in kernel.notes)
    result = accelerator.simulate(x)
    assert np.array_equal(result.output, accelerator.golden(x))
    assert result.cycles.compute == accelerator.predicted_cycles
    assert np.allclose(result.output, model(Tensor(x)).numpy(), rtol=1e-5, atol=1e-6)


def test_products_of_two_loops_share_the_multipliers_of_all_lanes():
    x = np.arange(64, dtype=np.int8).reshape(8, 8)
    w = Tensor(np.arange(64, dtype=np.int8).reshape(8, 8)).cast(dtypes.int32)

    def model(x):
        y = x.cast(dtypes.int32)
        return y @ w + y @ (w + 1)

    accelerator = tg2hdl.compile(model, x, multipliers=8)
    (kernel,) = accelerator.kernels
    assert (kernel.multipliers, kernel.steps) == (8, 2 * 64)
    assert np.array_equal(accelerator.simulate(x).output, model(Tensor(x)).numpy())


def test_a_step_may_exceed_the_budget_where_the_option_says_so():
    model, x = FLOAT_MODELS["polynomial"]
    options = tg2hdl.CompileOptions(exceed_multipliers=True)
    (kernel,) = tg2hdl.compile(model, x, multipliers=1, options=options).kernels
    assert (kernel.ii, kernel.multipliers) == (1, 4)
    assert "one step needs 4 multipliers, which is more than multipliers=1" in kernel.notes


def test_formats_that_cannot_share_are_refused():
    def model(x, y):
        return (x * x).cast(dtypes.float32) * y * y

    x, y = np.ones(4, np.float16), np.ones(4, np.float32)
    with pytest.raises(UnsupportedError) as refused:
        tg2hdl.compile(model, x, y, multipliers=1)
    text = str(refused.value)
    assert "needs at least 2 multipliers, which is more than multipliers=1" in text
    assert "multipliers=2 or more, or exceed_multipliers=True" in text
    assert tg2hdl.compile(model, x, y, multipliers=2).kernels[0].multipliers == 2
