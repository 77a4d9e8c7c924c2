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


ONE, THREE, TAPS = Tensor(array(48, 4, 1, 1)), Tensor(array(16, 4, 3, 3)), Tensor(array(32, 6, 3))


def gated(x, gate):
    return x * gate.sigmoid().reshape(1, 4, 1, 1)


def magnitude(x):
    return (x[0, 0] ** 2 + x[0, 1] ** 2).sqrt().reshape(1, 6, 6)


PRODUCED = {
    "squeeze-excite, 1x1": (lambda x, gate: gated(x, gate).conv2d(ONE), [(1, 4, 6, 6), (4,)], 6912),
    "squeeze-excite, 3x3": (
        lambda x, gate: gated(x, gate).conv2d(THREE, padding=1),
        [(1, 4, 6, 6), (4,)],
        20736,
    ),
    "swish, 3x3": (lambda x: x.silu().conv2d(THREE, padding=1), [(1, 4, 6, 6)], 20736),
    "magnitude": (lambda x: magnitude(x).conv2d(TAPS, padding=1), [(1, 2, 6, 6)], 3456),
}


@pytest.mark.parametrize("name", PRODUCED)
def test_values_of_elements_are_computed_once(name):
    """At most 1.1 times the cycles that the products of the convolution need, and the bits of one kernel."""
    model, shapes, products = PRODUCED[name]
    inputs = [array(*shape) for shape in shapes]
    accelerator, whole = (
        tg2hdl.compile(model, *inputs, options=tg2hdl.CompileOptions(multipliers=4, cut_kernels=cut))
        for cut in (True, False)
    )
    assert accelerator.predicted_cycles <= 1.1 * products / 4 < whole.predicted_cycles / 1.4
    (decision,) = (d for d in accelerator.design.decisions if d.rewrite == "producers")
    assert decision.chosen.name == "producers: 2 kernels"
    np.testing.assert_array_equal(accelerator.golden(*inputs), whole.golden(*inputs))


def test_values_computed_once_are_simulated():
    model, (shape,), _ = PRODUCED["magnitude"]
    x = array(*shape)
    accelerator = tg2hdl.compile(model, x, multipliers=4)
    result = accelerator.simulate(x)
    assert result.cycles.compute == accelerator.predicted_cycles
    root = np.pad(np.sqrt(x[0, 0].astype(float) ** 2 + x[0, 1].astype(float) ** 2), ((0, 0), (1, 1)))
    expected = [[(root[:, n : n + 3] * taps).sum() for n in range(6)] for taps in TAPS.numpy()]
    np.testing.assert_allclose(result.output.reshape(32, 6), expected, rtol=1e-5, atol=1e-5)


def rotary(x, c, s):
    """Rotary position embedding of pairs."""
    x = x.reshape(12, 16, 2)
    a, b = x[..., 0], x[..., 1]
    return Tensor.stack(a * c - b * s, a * s + b * c, dim=-1)


def test_branches_share_products():
    """768 products are needed, of two of the four that each pair has in both branches together."""
    x, c, s = array(12, 32), array(12, 16), array(12, 16)
    accelerator = tg2hdl.compile(rotary, x, c, s, multipliers=4)
    assert accelerator.predicted_cycles <= 1.1 * 768 / 4
    (decision,) = (d for d in accelerator.design.decisions if d.rewrite == "merge-branches")
    assert decision.chosen.name == "merge-branches: one kernel"
    assert sum(kernel.macs for kernel in accelerator.kernels) == 768
    result = accelerator.simulate(x, c, s)
    assert result.cycles.compute == accelerator.predicted_cycles
    a, b = x[:, ::2], x[:, 1::2]
    # Each product and each sum is rounded once.
    expected = np.stack([a * c - b * s, a * s + b * c], -1)
    np.testing.assert_array_equal(result.output, expected)
