"""Why a design takes its cycles, and what would change it."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from click.testing import CliRunner
from tinygrad import Tensor

import tg2hdl
from tg2hdl.cli import cli
from tg2hdl_ir import InputError
from tg2hdl_synth import design_fits

RNG = np.random.default_rng(0)
W = Tensor(RNG.standard_normal((784, 1)).astype(np.float32))
X = np.zeros((1, 784), np.float32)


def linear(x):
    return x @ W


def variant(found, option):
    return next(v for v in found.variants if v.option == option)


def test_a_long_sum_names_its_unit_its_latency_and_the_way_out():
    accelerator = tg2hdl.compile(linear, X, multipliers=1)
    found = accelerator.explain()
    (kernel,) = found.kernels
    assert kernel.interval == (
        "the next step waits for r0, through fp32.add.balanced (latency 4); "
        'float_order="relaxed" may split the sum'
    )
    relaxed = tg2hdl.compile(
        linear, X, multipliers=1, options=tg2hdl.CompileOptions(float_order="relaxed")
    ).predicted_cycles
    assert relaxed < accelerator.predicted_cycles
    assert variant(found, 'float_order="relaxed"').cycles == relaxed
    assert f"{relaxed:,} cycles instead of {found.cycles:,}" in str(found)


def test_the_latency_that_is_told_is_that_of_the_unit():
    """With another unit another one is named."""
    options = tg2hdl.CompileOptions(multipliers=1, units={"add": "fp32.add.small"})
    accelerator = tg2hdl.compile(linear, X, options=options)
    (kernel,) = accelerator.explain(variants=False).kernels
    unit = next(u for u in accelerator.design.kernels[0].nodes.values() if getattr(u, "op", "") == "add").unit
    assert f"through fp32.add.small (latency {unit.latency})" in kernel.interval
    assert kernel.summary.ii >= unit.latency


@pytest.mark.parametrize(
    ("dtype", "text"),
    [
        (np.int32, "the next step waits for r0, through int.mul.int32 (latency 3) and 2 cycles of registers"),
        (np.float32, "the next step waits for r0, through fp32.mul.balanced (latency 4)"),
    ],
)
def test_a_product_in_a_recurrence_is_named_and_relaxed_sums_are_no_way_out(dtype, text):
    accelerator = tg2hdl.compile(lambda x: x.prod(), np.ones(64, dtype), multipliers=1)
    (kernel,) = accelerator.explain(variants=False).kernels
    assert kernel.interval == text
    assert kernel.summary.ii == sum(map(int, re.findall(r"(\d+)(?=\)| cycles)", text)))


def test_multipliers_that_are_shared_in_time_are_named():
    accelerator = tg2hdl.compile(lambda x: x * x * x, np.ones(64, np.int32), multipliers=1)
    (kernel,) = accelerator.explain(variants=False).kernels
    assert (kernel.summary.ii, kernel.interval) == (2, "2 products take turns on 1 multiplier")


def test_a_port_is_named():
    options, index = tg2hdl.CompileOptions(unroll_factor=8), np.zeros((1, 32), np.int32)
    accelerator = tg2hdl.compile(
        lambda x, i: x.gather(0, i), np.ones((64, 32), np.int32), index, options=options
    )
    (kernel,) = accelerator.explain(variants=False).kernels
    assert (kernel.summary.ii, kernel.interval) == (4, "8 reads of buffer 2, which has 2 ports")


def test_every_variant_is_what_compiling_with_the_option_gives():
    w, b = (Tensor(RNG.standard_normal(s).astype(np.float32)) for s in ((16, 16), (16,)))
    x = np.zeros((4, 16), np.float32)

    def model(x):
        return (x @ w + b).gelu().softmax()

    found = tg2hdl.compile(model, x, multipliers=4).explain()
    assert [v.option for v in found.variants if v.cycles is not None]
    for each in found.variants:
        options = eval(f"dict({each.option})")
        again = tg2hdl.compile(model, x, options=tg2hdl.CompileOptions(**{"multipliers": 4, **options}))
        assert again.predicted_cycles == each.cycles, each.option
    cycles = [v.cycles for v in found.variants]
    assert cycles == sorted(cycles)


def test_costs_of_the_taken_alternatives_are_those_of_the_plan():
    w = Tensor(RNG.standard_normal((16, 16)).astype(np.float32))
    accelerator = tg2hdl.compile(lambda x: (x @ w).gelu(), np.zeros((8, 16), np.float32), multipliers=8)
    found = accelerator.explain(variants=False)
    assert not found.variants
    for kernel in found.kernels:
        for decision in kernel.decisions:
            assert decision.scope == "kernel"
            if decision.rewrite in ("interleave", "chain", "units"):
                assert decision.alternatives[decision.taken].cost.cycles >= kernel.summary.cycles
        last = [d for d in kernel.decisions if d.rewrite in ("interleave", "chain", "units")][-1:]
        assert all(d.chosen.cost.cycles == kernel.summary.cycles for d in last)
    (cut,) = {d for k in found.kernels for d in k.decisions if d.rewrite == "cut-kernel"}
    whole = tg2hdl.compile(
        lambda x: (x @ w).gelu(),
        np.zeros((8, 16), np.float32),
        multipliers=8,
        options=tg2hdl.CompileOptions(cut_kernels=False, schedule="serial"),
    )
    assert cut.alternatives[0].cost.cycles == whole.predicted_cycles


def two_layers():
    one, two = (Tensor(RNG.integers(-9, 9, (8, 8)).astype(np.int8)).cast("int32") for _ in range(2))
    return lambda x: ((x.cast("int32") @ one).clip(-128, 127).contiguous() @ two).relu()


@pytest.mark.parametrize("schedule", ["overlap", "dataflow"])
def test_the_order_of_steps_is_a_decision_with_the_cost_of_each(schedule):
    options = tg2hdl.CompileOptions(multipliers=2, schedule=schedule, cut_kernels=False)
    accelerator = tg2hdl.compile(two_layers(), np.zeros((4, 8), np.int8), options=options)
    design = accelerator.design
    found = [d for plan in design.kernels for d in plan.decisions if d.rewrite == "order"]
    assert [d.place for d in found] == [plan.kernel.name for plan in design.kernels]
    timeline = design.timeline()
    for decision in found:
        assert len(decision.alternatives) > 1
        costs = [each.cost.interval or each.cost.cycles for each in decision.alternatives]
        assert costs[decision.taken] == min(costs)
        expected = timeline.latency if schedule == "overlap" else timeline.interval
        assert costs[decision.taken] == expected
    explained = accelerator.explain(variants=False)
    assert [d for k in explained.kernels for d in k.decisions if d.rewrite == "order"] == found
    assert all([d.rewrite for d in k.decisions].index("order") for k in explained.kernels)


def test_tiles_of_external_weights_are_a_decision():
    weight = Tensor(RNG.integers(-128, 128, (48, 64)).astype(np.int8)).cast("int32")
    options = tg2hdl.CompileOptions(multipliers=4, weights="external", on_chip_bits=24_000)
    accelerator = tg2hdl.compile(
        lambda x: x.cast("int32") @ weight, np.zeros((1, 48), np.int8), options=options
    )
    explained = accelerator.explain(variants=False)
    (decision,) = {d for k in explained.kernels for d in k.decisions if d.rewrite == "slice-axis"}
    before, *tried = decision.alternatives
    assert (before.cost, before.note) == (None, "its weights do not fit on the chip")
    assert decision.chosen.cost.cycles == min(each.cost.cycles for each in tried)
    runs = int(decision.chosen.name.split()[0])
    assert sum(kernel.count for kernel in explained.kernels) == runs
    assert decision.why == "the form without it cannot be planned"


def test_luts_and_clock_of_what_was_compared_are_those_of_the_estimate():
    options = tg2hdl.CompileOptions(multipliers=2, target="ecp5")
    accelerator = tg2hdl.compile(two_layers(), np.zeros((2, 8), np.int8), options=options)
    found = accelerator.explain()
    fit = design_fits(accelerator.design, "ecp5-85k", pack_registers=options.family.pack_registers)
    assert (found.cost.luts, found.cost.fmax) == (fit.needs["lut"], fit.fmax)
    assert found.cost.block_rams == fit.needs["bram"]
    (budgets,) = (d for d in found.decisions if d.rewrite == "multipliers")
    assert all(each.cost is None or each.cost.luts for each in budgets.alternatives)
    changed = [each for each in found.variants if each.cycles not in (None, found.cycles)]
    assert changed
    for each in changed:
        assert each.cost.cycles == each.cycles
        assert f"{each.cost.luts:,} LUTs instead of {found.cost.luts:,}" in found.format(400)
    quick = accelerator.explain(variants=False)
    assert (quick.cost.luts, quick.cost.cycles) == (None, accelerator.predicted_cycles)


@pytest.mark.parametrize("width", [40, 80, 120])
def test_the_text_fits_the_width(width):
    w = Tensor(RNG.standard_normal((16, 16)).astype(np.float32))
    accelerator = tg2hdl.compile(lambda x: (x @ w).gelu(), np.zeros((8, 16), np.float32), multipliers=8)
    text = accelerator.explain(variants=False).format(width)
    assert max(map(len, text.splitlines())) <= width
    assert "* " in text


def test_one_kernel_is_explained_and_an_unknown_one_refused():
    w = Tensor(RNG.standard_normal((16, 16)).astype(np.float32))
    accelerator = tg2hdl.compile(lambda x: (x @ w).gelu(), np.zeros((8, 16), np.float32), multipliers=8)
    name = accelerator.kernels[1].name
    (kernel,) = accelerator.explain(name, variants=False).kernels
    assert kernel.summary == accelerator.kernels[1]
    with pytest.raises(InputError) as caught:
        accelerator.explain("r_1")
    names = ", ".join(sorted(k.name for k in accelerator.kernels))
    assert str(caught.value) == f"bad input: the design has no kernel 'r_1'\n  hint: choose one of {names}"


def test_the_command_prints_text_and_json(tmp_path):
    (tmp_path / "model.py").write_text("def model(x): return x.sum(1) * 2\n")
    arguments = ["explain", str(tmp_path / "model.py"), "--input", "float32:2x64", "--no-variants"]
    output = CliRunner().invoke(cli, arguments).output
    assert re.match(r"model: [\d,]+ cycles from start to done\n  [\w, ]+ 1 block RAM\n\nKernel ", output)
    result = CliRunner().invoke(cli, [*arguments, "--json"])
    data = json.loads(result.stdout)
    (kernel,) = data["kernels"]
    assert data["cycles"] >= kernel["summary"]["cycles"] > 0
    assert {"rewrite", "place", "alternatives", "taken", "why", "scope"} <= set(kernel["decisions"][0])
    named = CliRunner().invoke(cli, [*arguments, "--kernel", kernel["summary"]["name"]])
    assert named.exit_code == 0
    assert f"Kernel {kernel['summary']['name']}" in named.output
