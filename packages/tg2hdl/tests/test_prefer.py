"""What a design has the least of is the user's choice: cycles, multipliers, block RAMs or LUTs."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner
from tinygrad import Tensor

import tg2hdl
from tg2hdl.cli import cli
from tg2hdl.exploration.goals import GOALS
from tg2hdl_ir import InputError
from tg2hdl_lower.decisions import PREFERENCES, SLOWER
from tg2hdl_top import CompileOptions
from tg2hdl_top.memory_blocks import memory_blocks
from tg2hdl_top.search.measure import design_cost, estimator_of

X = np.arange(-3, 4, dtype=np.int8)
MODEL = """
import numpy as np
from tinygrad import Tensor
table = Tensor(np.arange(1, 31, dtype=np.int8)).cast("int32")
def model(x): return x.cast("int32").reshape(7, 1) * table.reshape(1, 30)
example_inputs = (np.arange(-3, 4, dtype=np.int8),)
"""


def outer(x: Tensor) -> Tensor:
    """Eight products at once leave two of 30 over: six at once take few more steps, and words that are narrower."""
    table = Tensor(np.arange(1, 31, dtype=np.int8)).cast("int32")
    return x.cast("int32").reshape(7, 1) * table.reshape(1, 30)


@pytest.fixture(scope="module")
def designs():
    return {
        prefer: tg2hdl.compile(outer, X, options=CompileOptions(multipliers=8, target="ecp5", prefer=prefer))
        for prefer in PREFERENCES
    }


@pytest.mark.parametrize(
    ("prefer", "figure"), [("multipliers", "multipliers"), ("block-ram", "block_rams"), ("area", "luts")]
)
def test_a_design_has_less_of_what_the_user_prefers(designs, prefer, figure):
    first, other = (
        design_cost(designs[name].design, estimator_of(designs[name].options)) for name in ("latency", prefer)
    )
    assert getattr(other, figure) < getattr(first, figure)
    assert first.cycles < other.cycles <= SLOWER * first.cycles
    assert designs[prefer].predicted_cycles == other.cycles


def test_other_preferences_change_no_result(designs):
    accelerator = designs["multipliers"]
    run = accelerator.simulate(X)
    np.testing.assert_array_equal(run.output, np.outer(X, np.arange(1, 31)))
    assert run.cycles.compute == accelerator.predicted_cycles


@pytest.mark.parametrize(
    ("prefer", "words"), [("multipliers", "multipliers"), ("block-ram", "block RAMs"), ("area", "LUTs")]
)
def test_the_decision_says_why(designs, prefer, words):
    (decision,) = (d for d in designs[prefer].design.decisions if d.rewrite == "multipliers")
    fewest = designs["latency"].predicted_cycles
    assert decision.chosen.name == "multipliers=6"
    assert decision.why == f"the fewest {words} of those with at most 1.25 x {fewest} cycles"
    assert decision.why in " ".join(designs[prefer].explain(variants=False).format().split())


@pytest.mark.parametrize("family", ["ice40", "gowin", "generic"])
def test_each_family_has_an_estimate_of_its_area(family):
    options = CompileOptions(multipliers=8, target=family, prefer="area")
    design = tg2hdl.compile(outer, X, options=options).design
    (decision,) = (d for d in design.decisions if d.rewrite == "multipliers")
    assert decision.chosen.name == "multipliers=6"
    assert decision.chosen.cost.luts < decision.alternatives[0].cost.luts


def test_block_rams_are_worth_luts_to_a_user():
    """Three memories in one take two block RAMs fewer than two in one, and some LUTs."""
    layers = [
        Tensor(np.random.default_rng(n).integers(-4, 4, (16, 16, 3, 3)).astype(np.int8)) for n in range(3)
    ]

    def network(x: Tensor) -> Tensor:
        for weights in layers:
            x = (x.cast("int32").conv2d(weights.cast("int32"), padding=1) >> 6).maximum(-128).minimum(127)
        return x

    x, found = np.zeros((1, 16, 8, 8), np.int8), {}
    for prefer in ("latency", "area"):
        options = CompileOptions(multipliers=16, prefer=prefer, validate="off")
        design = tg2hdl.compile(network, x, options=options).design
        (decision,) = (d for d in design.decisions if d.rewrite == "share-memories")
        blocks = sum(memory_blocks(design).values())
        assert decision.chosen.cost.block_rams == blocks
        found[prefer] = blocks, decision.chosen.note
    assert found == {
        "latency": (20, "about 18 LUTs more"),
        "area": (22, ""),
    }


def test_the_command_line_has_the_same_names(tmp_path):
    (tmp_path / "model.py").write_text(MODEL)
    arguments = ["explain", str(tmp_path / "model.py"), "--no-variants", "--json", "--multipliers", "8"]
    taken = {}
    for prefer in ("latency", "multipliers"):
        data = json.loads(CliRunner().invoke(cli, [*arguments, "--prefer", prefer]).stdout)
        (decision,) = (d for d in data["decisions"] if d["rewrite"] == "multipliers")
        taken[prefer] = decision["alternatives"][decision["taken"]]["name"]
    assert taken == {"latency": "multipliers=8", "multipliers": "multipliers=6"}
    assert set(PREFERENCES) < set(GOALS)


def test_an_unknown_preference_is_refused():
    with pytest.raises(InputError) as caught:
        CompileOptions(prefer="cycles")
    assert str(caught.value) == (
        "bad input: prefer='cycles' is unknown\n  hint: choose 'latency', 'multipliers', 'block-ram', 'area'"
    )
