"""What depends on weights alone: computed once, and again when weights are loaded."""

from __future__ import annotations

import numpy as np
import pytest
from tinygrad import Tensor, nn

import tg2hdl
from tg2hdl_ir import InputError, evaluate_program
from tg2hdl_lower.plan.operations import Operation, UnitOp

RNG = np.random.default_rng(5)


def array(*shape, low=-1.0, high=1.0):
    return RNG.uniform(low, high, shape).astype(np.float32)


class Normed:
    """A matrix product and the normalization of a batch, which tinygrad fuses."""

    def __init__(self, variance):
        self.w = Tensor(array(6, 8))
        self.norm = nn.BatchNorm(8)
        self.norm.weight, self.norm.bias = Tensor(array(8)), Tensor(array(8))
        self.norm.running_mean, self.norm.running_var = Tensor(array(8)), Tensor(variance)

    def __call__(self, x):
        return self.norm(x @ self.w).relu()


def ops(accelerator):
    return {n.op for p in accelerator.design.kernels for n in p.all(UnitOp)}


def unprepared(accelerator, x):
    """Result of the captured kernels, which compute everything in every run."""
    program = accelerator.captured.program
    name = program.buffers[accelerator.captured.inputs[0].buffer].name
    return evaluate_program(program, {name: x})[program.buffers[program.outputs[0]].name]


@pytest.mark.parametrize("weights", ["rom", "loadable"])
def test_root_and_reciprocal_of_a_variance_are_memory_contents(weights):
    variance, x = array(8, low=0.5, high=2.0), array(4, 6)
    model = Normed(variance)
    accelerator = tg2hdl.compile(model, x, weights=weights)
    assert not ops(accelerator) & {"sqrt", "reciprocal"}
    result = accelerator.simulate(x, engine="amaranth")
    np.testing.assert_array_equal(result.output, unprepared(accelerator, x))
    np.testing.assert_array_equal(result.output, accelerator.golden(x))
    w, norm = model.w.numpy(), model.norm
    scale = norm.weight.numpy() / np.sqrt(variance.astype(np.float64) + norm.eps)
    expected = np.maximum((x @ w - norm.running_mean.numpy()) * scale + norm.bias.numpy(), 0)
    np.testing.assert_allclose(result.output, expected, rtol=1e-4, atol=1e-6)
    assert result.cycles.compute == accelerator.predicted_cycles


def test_loaded_weights_change_what_is_computed_from_them():
    x, first, second = array(4, 6), array(8, low=0.5, high=2.0), array(8, low=0.5, high=2.0)
    model = Normed(first)
    accelerator = tg2hdl.compile(model, x, weights="loadable")
    before = accelerator.simulate(x, engine="amaranth").output
    loaded = accelerator.load_weights({"norm.running_var": second})
    after = accelerator.simulate(x, engine="amaranth").output
    model.norm.running_var = Tensor(second)
    other = tg2hdl.compile(model, x)
    np.testing.assert_array_equal(after, unprepared(other, x))
    np.testing.assert_array_equal(after, accelerator.golden(x))
    assert (before != after).any()
    assert "norm.running_var_prepared" in loaded


def test_loaded_weights_pass_through_kernels_that_were_folded():
    table = array(16)
    state = {"table": Tensor(table)}

    class Softmaxed:
        def __init__(self):
            self.table = state["table"]

        def __call__(self, x):
            return x + self.table.softmax()

    x, other = array(16), array(16)
    accelerator = tg2hdl.compile(Softmaxed(), x, weights="loadable")
    assert len(accelerator.kernels) == 1
    accelerator.load_weights({"table": other})
    exponentials = np.exp(other.astype(np.float64))
    result = accelerator.simulate(x, engine="amaranth").output
    np.testing.assert_allclose(result, x + exponentials / exponentials.sum(), rtol=1e-5)


@pytest.mark.parametrize("multipliers", [1, 16])
def test_zero_points_of_weights_take_no_subtraction(multipliers):
    q = RNG.integers(-100, 100, (12, 8)).astype(np.int8)
    zero = RNG.integers(-5, 5, 8).astype(np.int8)
    x = RNG.integers(-128, 127, (3, 12)).astype(np.int8)
    w, z = Tensor(q), Tensor(zero)
    accelerator = tg2hdl.compile(
        lambda x: x.cast("int32") @ (w.cast("int32") - z.cast("int32")), x, multipliers=multipliers
    )
    assert all(n.op != "sub" for p in accelerator.design.kernels for n in p.all(Operation))
    result = accelerator.simulate(x, engine="amaranth")
    np.testing.assert_array_equal(result.output, x.astype(int) @ (q.astype(int) - zero))
    assert result.cycles.compute == accelerator.predicted_cycles


def test_a_table_larger_than_its_weights_is_not_made():
    q, scale, x = RNG.integers(-100, 100, (64, 64)).astype(np.int8), array(64), array(2, 64)
    w, s = Tensor(q), Tensor(scale)
    accelerator = tg2hdl.compile(lambda x: (x * (w.cast("float32") * s)).sum(-1), array(64, 64))
    bits = {b.name: b.depth * b.dtype.bit_width for b in accelerator.design.program.buffers}
    assert not [name for name in bits if "prepared" in name]
    x = array(64, 64)
    np.testing.assert_allclose(
        accelerator.golden(x), (x * (q * scale)).sum(-1, dtype=np.float64), rtol=1e-3, atol=1e-2
    )


def test_weights_that_cannot_be_loaded_are_refused():
    x = array(4, 6)
    model = Normed(array(8, low=0.5, high=2.0))
    with pytest.raises(InputError, match=r"contents of read-only memories.*\n.*model Normed\n.*loadable"):
        tg2hdl.compile(model, x).load_weights({"w": array(6, 8)})
    accelerator = tg2hdl.compile(model, x, weights="loadable")
    with pytest.raises(InputError, match="no weight is named 'v'"):
        accelerator.load_weights({"v": array(6, 8)})
    with pytest.raises(InputError, match="weight 'w' has 5 elements of float32, expected 48 of fp32"):
        accelerator.load_weights({"w": array(5)})
    with pytest.raises(InputError, match=r"weights are a NoneType.*\n.*model Normed\n.*names to arrays"):
        accelerator.load_weights(None)


def test_weights_that_tinygrad_made_at_random_can_be_loaded():
    model, x, weight = nn.Linear(6, 4), array(2, 6), array(4, 6)
    accelerator = tg2hdl.compile(model, x, weights="loadable")
    accelerator.load_weights({"weight": weight, "bias": np.zeros(4, np.float32)})
    np.testing.assert_allclose(accelerator.golden(x), x @ weight.T, rtol=1e-5, atol=1e-6)
