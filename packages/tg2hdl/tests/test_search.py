"""The search over forms of a program: its decisions, and one path for all places of weights."""

from __future__ import annotations

import numpy as np
import pytest
from tinygrad import Tensor

import tg2hdl
from tg2hdl_top import Design

RNG = np.random.default_rng(3)


def array(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


W, B, V = Tensor(array(32, 32)), Tensor(array(32)), Tensor(array(32, 32))
ROOM = 1 << 26
MODELS = {
    "gelu": (lambda x: x.gelu(), (1, 256), {}),
    "two layers": (lambda x: (x @ W + B).gelu() @ V, (8, 32), {}),
    "bias, relaxed": (lambda x: x @ W + B, (1, 32), {"float_order": "relaxed"}),
    "equal layers": (lambda x: ((x @ W).relu() @ W).relu() @ W, (1, 32), {}),
}


@pytest.mark.parametrize("name", MODELS)
def test_external_weights_that_fit_cost_no_cycles(name):
    model, shape, further = MODELS[name]
    x = array(*shape)
    inside, outside = (
        tg2hdl.compile(
            model,
            x,
            multipliers=8,
            options=tg2hdl.CompileOptions(
                weights=weights, on_chip_bits=ROOM if weights == "external" else None, **further
            ),
        )
        for weights in ("rom", "external")
    )
    assert not outside.design.streams_weights
    assert outside.predicted_cycles <= inside.predicted_cycles
    result = outside.simulate(x)
    np.testing.assert_array_equal(result.output, inside.golden(x))
    assert result.cycles.compute == outside.predicted_cycles


def test_a_form_that_does_not_fit_the_chip_is_not_taken():
    """The buffer between the parts of a cut kernel takes blocks too: each buffer has words of 64 bits, two blocks."""
    x, block = array(1, 256), 18 * 1024
    for blocks, kernels in ((64, 2), (4, 1)):
        options = tg2hdl.CompileOptions(weights="external", on_chip_bits=blocks * block)
        accelerator = tg2hdl.compile(lambda x: x.gelu(), x, multipliers=8, options=options)
        assert len(accelerator.kernels) == kernels
    (decision,) = (d for d in accelerator.design.decisions if d.rewrite == "product cut")
    assert decision.alternatives[1].cost is None
    assert decision.alternatives[1].note.startswith("the memories take 442,368 bits in whole blocks")


def test_a_cut_is_a_decision_with_the_cost_of_both_forms():
    x = array(1, 256)
    accelerator = tg2hdl.compile(lambda x: x.gelu(), x, multipliers=8)
    program = next(d for d in accelerator.design.decisions if d.rewrite == "product cut")
    assert program.taken == 1
    assert program.chosen.cost.cycles == accelerator.predicted_cycles
    uncut = tg2hdl.compile(
        lambda x: x.gelu(), x, multipliers=8, options=tg2hdl.CompileOptions(cut_kernels=False)
    )
    assert program.alternatives[0].cost.cycles == uncut.predicted_cycles
    (cut,) = (d for d in accelerator.design.decisions if d.rewrite == "cut-products")
    assert cut.place == uncut.kernels[0].name
    assert cut.alternatives[0].cost.cycles == uncut.kernels[0].cycles


def test_decisions_are_saved_with_the_design_and_are_no_part_of_its_identity(tmp_path):
    x = array(1, 256)
    design = tg2hdl.compile(lambda x: x.gelu(), x, multipliers=8).design
    design.save(tmp_path / "design.json")
    read = Design.load(tmp_path / "design.json")
    assert read.decisions == design.decisions != ()
    assert read.identity == design.identity
