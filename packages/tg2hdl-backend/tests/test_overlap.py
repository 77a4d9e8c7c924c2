"""Models whose kernels run at the same time, simulated against the golden model."""

from __future__ import annotations

import numpy as np
import pytest
from amaranth import Cat, Module, Signal
from tinygrad import Tensor, dtypes

from tg2hdl_backend import Runner, capture
from tg2hdl_backend.testing.hardware import compare_with_hardware
from tg2hdl_ir import SequencerDef, SimulationError, hookimpl, registry
from tg2hdl_top import CompileOptions, compile_program
from tg2hdl_top.sequencer import SequencerComponent
from tg2hdl_top.sequencer.serial import SerialSequencer

RNG = np.random.default_rng(4)
IMAGE = RNG.integers(-128, 128, (1, 1, 6, 6)).astype(np.int8)
VECTOR = RNG.integers(-128, 128, (1, 24)).astype(np.int8)
ROWS = RNG.normal(size=(6, 8)).astype(np.float32)
TOKENS = tuple(RNG.normal(size=(1, 2, 4, 4)).astype(np.float32) for _ in range(3))
FILTERS = (
    Tensor(RNG.integers(-128, 128, (4, 1, 3, 3)).astype(np.int8)),
    Tensor(RNG.integers(-9, 9, (4, 4, 3, 3))),
)
MATRICES = (Tensor(RNG.integers(-9, 9, (24, 12))), Tensor(RNG.integers(-9, 9, (12, 5))))


def narrow(x):
    return (x.relu() >> 9).clip(-128, 127).cast(dtypes.int8)


def cnn(x):
    pooled = narrow(x.cast(dtypes.int32).conv2d(FILTERS[0].cast(dtypes.int32), padding=1)).max_pool2d(2)
    return pooled.cast(dtypes.int32).conv2d(FILTERS[1].cast(dtypes.int32), padding=1)


def mlp(x):
    return narrow(x.cast(dtypes.int32) @ MATRICES[0].cast(dtypes.int32)).cast(dtypes.int32) @ MATRICES[
        1
    ].cast(dtypes.int32)


def attention(q, k, v):
    return ((q @ k.transpose(-2, -1)) * 0.5).softmax() @ v


MODELS = {
    "cnn": (cnn, (IMAGE,), 9),
    "cnn held": (cnn, (IMAGE,), 96),
    "mlp": (mlp, (VECTOR,), 4),
    "softmax": (lambda x: x.softmax(), (ROWS,), None),
    "layernorm": (lambda x: x.layernorm(), (ROWS,), None),
    "attention": (attention, TOKENS, None),
}


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("cnn", {}),
        ("mlp", {}),
        ("softmax", {"share_units": True}),
        ("layernorm", {}),
        *(
            pytest.param(name, more, marks=pytest.mark.slow)
            for name, more in (
                ("cnn held", {}),
                ("softmax", {}),
                ("attention", {}),
                ("layernorm", {"share_units": True, "target": "ecp5"}),
                ("cnn", {"target": "ecp5", "weights": "loadable"}),
                ("attention", {"target": "ecp5"}),
                ("mlp", {"share_multipliers": False}),
            )
        ),
    ],
)
def test_models_have_the_golden_bits_in_the_predicted_cycles(name, more):
    model, inputs, multipliers = MODELS[name]
    options = CompileOptions(multipliers=multipliers, schedule="overlap", **more)
    result = compare_with_hardware(model, *inputs, options=options)
    assert not result.mismatches, "\n".join(result.mismatches)
    serial = compile_program(
        capture(model, *inputs).program, CompileOptions(multipliers=multipliers, schedule="serial", **more)
    ).predicted_cycles()
    assert result.cycles < serial


def test_orders_halve_the_latency_of_attention():
    """Rows follow each other through all kernels, the slow ones and those that could be quick."""
    program = capture(attention, *TOKENS).program
    latencies = [
        compile_program(program, CompileOptions(schedule=policy, multipliers=4)).predicted_cycles()
        for policy in ("serial", "overlap")
    ]
    assert latencies[1] < 0.7 * latencies[0]


class Hasty(SequencerComponent):
    """Starts the second kernel a few cycles before the first one is done."""

    def __init__(self, first):
        super().__init__(2)
        self.first = first

    def elaborate(self, platform):
        m = Module()
        line = Signal(self.first - 3)
        m.d.sync += line.eq(Cat(self.start, line))
        m.d.comb += [Cat(self.kernel_start).eq(Cat(self.start, line[-1])), self.done.eq(self.kernel_done[1])]
        m.d.comb += self.busy.eq(line.any() | Cat(self.kernel_busy).any())
        return m


class OneAfterTheOther(SerialSequencer):
    """Predicts what its component does not do."""

    shares_cores = False

    def arrange(self, policy, plans, memories, sharing):
        OneAfterTheOther.first = plans[0].cycles()
        return super().arrange(policy, plans, memories, sharing)

    def component(self, kernels, plan):
        return Hasty(self.first)


class HastyPlugin:
    @hookimpl
    def tg2hdl_sequencers(self):
        return [SequencerDef("hasty", "too early", OneAfterTheOther)]


def test_a_sequencer_that_does_not_keep_its_own_times_is_an_error():
    captured = capture(mlp, VECTOR, name="mlp")
    with registry().extended(HastyPlugin()):
        design = compile_program(captured.program, CompileOptions(schedule="hasty"))
        with Runner(design, "amaranth") as simulation, pytest.raises(SimulationError) as caught:
            simulation.run(captured.bind(VECTOR))
        whole = design.predicted_cycles()
    assert str(caught.value) == (
        f"simulation: the design was done after {whole - 3:,} cycles, {whole:,} predicted: sequencer 'hasty' does "
        "not keep its own times\n"
        "  hint: correct its component or its prediction; the results of this run may be wrong"
    )
