"""Models from tinygrad to simulated hardware, against the golden model and tinygrad's own interpreter."""

import numpy as np
import pytest
from tinygrad import Tensor

import tg2hdl
from tg2hdl.bits import same_bits
from tg2hdl_backend.testing import compare_with_interpreter

RNG = np.random.default_rng(3)
INT8 = RNG.integers(-128, 128, (3, 12), dtype=np.int8)
WEIGHT = RNG.integers(-128, 128, (12, 5), dtype=np.int8)
FLOAT = RNG.normal(size=(3, 12)).astype(np.float32)
FLOAT_WEIGHT = RNG.normal(size=(12, 5)).astype(np.float32)


class Linear:
    def __init__(self, weight):
        self.weight = Tensor(weight)

    def __call__(self, x):
        if self.weight.dtype.name == "signed char":
            return x.cast("int32") @ self.weight.cast("int32")
        return (x @ self.weight).relu()


class TwoLayers:
    def __init__(self):
        self.first, self.second = Linear(WEIGHT), Linear(WEIGHT[:5, :4].copy())

    def __call__(self, x):
        hidden = (self.first(x).relu() >> 9).clip(-128, 127).cast("int8")
        return self.second(hidden)


MODELS = {
    "integer matrix product": (Linear(WEIGHT), (INT8,)),
    "integer network": (TwoLayers(), (INT8,)),
    "elementwise": (lambda x, y: (x * 3 - y).maximum(x), (INT8, INT8[::-1].copy())),
    "full sum": (lambda x: x.cast("int32").sum(), (INT8,)),
    "several outputs": (lambda x: (x.cast("int32").max(1), x.cast("int32").sum(0)), (INT8,)),
    "float matrix product": (Linear(FLOAT_WEIGHT), (FLOAT,)),
    "float sum": (lambda x: x.sum(1), (FLOAT,)),
}


def outputs(result):
    return list(result) if isinstance(result, tuple) else [result]


@pytest.mark.parametrize("name", MODELS)
def test_hardware_golden_and_tinygrad_agree(name):
    model, inputs = MODELS[name]
    accelerator = tg2hdl.compile(model, *inputs)
    result = accelerator.simulate(*inputs, engine="amaranth")
    assert same_bits(result.output, accelerator.golden(*inputs))
    comparison = compare_with_interpreter(accelerator.captured, *inputs)
    assert comparison.mismatches == []
    assert comparison.kernels > 0
    assert same_bits(outputs(result.output), comparison.outputs)
    assert result.cycles.compute == accelerator.predicted_cycles
    assert sum(result.cycles.kernels) == result.cycles.compute
    assert result.cycles.total == result.cycles.load + result.cycles.compute + result.cycles.readback


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("integer network", {"weights": "loadable"}),
        ("integer network", {"multipliers": 4}),
        ("integer network", {"multipliers": 60}),
        ("float matrix product", {"weights": "loadable", "multipliers": 3}),
    ],
)
def test_no_option_changes_a_number(name, options):
    model, inputs = MODELS[name]
    accelerator = tg2hdl.compile(model, *inputs, **options)
    result = accelerator.simulate(*inputs, engine="amaranth")
    assert same_bits(result.output, tg2hdl.compile(model, *inputs).golden(*inputs))
    assert result.cycles.compute == accelerator.predicted_cycles


def test_integer_product_against_numpy():
    result = tg2hdl.compile(MODELS["integer matrix product"][0], INT8).simulate(INT8, engine="amaranth")
    assert result.output.dtype == np.int32
    np.testing.assert_array_equal(result.output, INT8.astype(np.int32) @ WEIGHT.astype(np.int32))


def test_more_multipliers_take_fewer_cycles():
    cycles = [tg2hdl.compile(TwoLayers(), INT8, multipliers=n).predicted_cycles for n in (1, 4)]
    assert cycles[1] < 0.6 * cycles[0]
