"""The rule that accepts a change, and decisions in records."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from tg2hdl_ir import PassDef, PluginError, ValidationError, hookimpl, parse_kernel, parse_program, registry
from tg2hdl_ir.opt import with_contents
from tg2hdl_ir.pipeline import rewrites
from tg2hdl_ir.records import OPTIONAL, read_record, write_record
from tg2hdl_lower import Alternative, Cost, Decision
from tg2hdl_lower.decisions import LARGEST_RATIO, MOST_KEPT, Trials, decide, most_cycles
from tg2hdl_top import CompileOptions, Design, compile_program, program_of_kernel


def choose(before, *cycles, change="another kernel"):
    trials = [(Alternative(f"{n}", Cost(count)), n) for n, count in enumerate(cycles)]
    whole = Alternative("whole", None if before is None else Cost(before))
    return decide("cut", "k", change, whole, trials)


def test_a_change_must_save_its_part_of_the_cycles():
    made, decision = choose(1000, 901, 950)
    assert (made, decision.taken) == (None, 0)
    assert decision.why == "only at most 0.9 x 1,000 cycles are accepted"
    assert choose(1000, 900)[0] == 0
    assert most_cycles("another kernel", 1000) == 900


def test_the_fewest_cycles_are_taken_and_of_equal_ones_the_first():
    made, decision = choose(1000, 800, 700, 700, 750)
    assert (made, decision.taken) == (1, 2)
    assert decision.chosen.cost == Cost(700)
    assert decision.why == "the fewest cycles, and at most 0.9 x 1,000 cycles are accepted"


def test_equal_cycles_are_no_reason_for_a_change():
    assert choose(100, 100, change="start-at-bias")[0] is None
    assert choose(100, 99, change="start-at-bias")[0] == 0


def test_any_form_is_better_than_one_that_cannot_be_planned():
    made, decision = choose(None, 10**9)
    assert made == 0
    assert decision.why == "the form without it cannot be planned"
    assert choose(None)[1].why == "it cannot be planned"


def test_a_trial_without_an_object_is_not_eligible():
    trials = [(Alternative("a", Cost(1)), None), (Alternative("b"), "b")]
    made, decision = decide("cut", "k", "another kernel", Alternative("whole", Cost(100)), trials)
    assert made is None
    assert [a.name for a in decision.alternatives] == ["whole", "a", "b"]


def test_all_ratios_are_in_one_place_and_below_one_where_area_is_added():
    assert all(
        ratio <= 1 for change, ratio in LARGEST_RATIO.items() if change not in ("shared core", "followers")
    )


@pytest.mark.parametrize(
    ("cost", "text"),
    [
        (Cost(1), "1 cycle"),
        (Cost(1234, 8, 1, 2048), "1,234 cycles, 8 multipliers, 1 pipelined unit, 2,048 memory bits"),
        (
            Cost(90, interval=30, block_rams=1, luts=2000, fmax=81.7),
            "90 cycles, a run every 30 cycles, 1 block RAM, 2,000 LUTs, 82 MHz",
        ),
    ],
)
def test_a_cost_prints_the_figures_that_are_known(cost, text):
    assert cost.format() == text


def test_a_figure_that_is_not_known_is_in_no_record():
    assert "luts" not in write_record(Cost(3))
    assert read_record(write_record(Cost(3, luts=5, fmax=1.5))) == Cost(3, luts=5, fmax=1.5)


def test_a_decision_is_data_and_a_record():
    _, decision = choose(1000, 800)
    assert read_record(write_record(decision)) == decision
    assert decision.describe()["alternatives"][1]["cost"]["cycles"] == 800
    assert isinstance(decision, Decision)


def test_an_optional_field_is_in_a_record_only_where_it_is_set():
    """So that the identity of a design does not depend on how it was found."""
    assert '"decisions"' not in write_record(Alternative("a"))
    (named,) = (f for f in Design.__dataclass_fields__.values() if f.name == "decisions")
    assert named.metadata == OPTIONAL


def test_records_of_the_lower_package_are_read_back_with_optional_fields_missing():
    assert read_record(write_record(Alternative("a", Cost(3)))) == Alternative("a", Cost(3))


@dataclass
class Sample:
    first: int
    second: tuple[int, ...] = field(default=(), metadata=OPTIONAL)


def test_a_field_at_its_default_is_left_out():
    assert '"second"' not in write_record(Sample(1))
    assert '"second"' in write_record(Sample(1, (2,)))


ONCE = """\
kernel triple
  b0 out: int32[4] output
  b1 x: int32[4]
  0  RANGE i0 < 4 loop
  1    %0 = LOAD int32 b1[i0]
  2    %1 = mul int32 %0, 3:int32
  3    STORE int32 b0[i0] = %1
  4  END i0
"""
EIGHT_TIMES = """\
kernel triple
  b0 out: int32[4] output
  b1 x: int32[4]
  0  RANGE i0 < 8 loop
  1    RANGE i1 < 4 loop
  2      %0 = LOAD int32 b1[i1]
  3      %1 = mul int32 %0, 3:int32
  4      STORE int32 b0[i1] = %1
  5    END i1
  6  END i0
"""


def compiled_with(run):
    class Plugin:
        @hookimpl
        def tg2hdl_passes(self):
            return [PassDef("once", "stores each element once", run, proposes=True)]

    with registry().extended(Plugin(), distribution="dist-once"):
        return compile_program(program_of_kernel(parse_kernel(EIGHT_TIMES)), CompileOptions())


def test_a_form_that_a_plugin_proposes_is_taken_where_it_is_worth_it():
    before = compile_program(program_of_kernel(parse_kernel(EIGHT_TIMES)), CompileOptions())
    after = compiled_with(
        lambda kernel: [parse_kernel(ONCE)] if len(list(kernel.loop_tree.walk())) > 2 else []
    )
    assert after.predicted_cycles() == before.predicted_cycles() - 28
    (decision,) = after.decisions
    assert (decision.rewrite, decision.taken) == ("once", 1)
    assert decision.chosen.cost.cycles == after.predicted_cycles()


def test_a_plugins_candidate_has_a_place_among_ours_and_gets_the_same_facts():
    """One that is exclusive takes the place of ours that follow it."""
    text = (Path(__file__).parent / "ir" / "choose-forms.ir").read_text()
    program = with_contents(parse_program(text))
    own, facts = [entry.name for entry in rewrites("forms")], []

    def compiled(**place):
        def same(kernel, finite, contents):
            facts.append((finite, sorted(contents)))
            return [replace(kernel)]

        class Plugin:
            @hookimpl
            def tg2hdl_passes(self):
                return [PassDef("same", "an equal kernel", same, proposes=True, **place)]

        with registry().extended(Plugin(), distribution="dist-same"):
            names = [entry.name for entry in rewrites("forms")]
            decisions = compile_program(program, CompileOptions(multipliers=4, validate="off")).decisions
        (found,) = {d.rewrite for d in decisions if {"same", "scan"} & {*d.rewrite.split(" or ")}}
        return names, found

    assert compiled() == ([*own, "same"], "scan or same")
    assert compiled(after="scan") == (["scan", "same", *own[1:]], "scan or same")
    assert compiled(after="scan", exclusive=True)[1] == "scan"
    assert compiled(before="scan") == (["same", *own], "same or scan")
    assert compiled(before="scan", exclusive=True) == (["same", *own], "same")
    assert facts[0] == (frozenset(), [])


def test_a_wrong_form_of_a_plugin_is_found_and_blamed():
    wrong = ONCE.replace("3:int32", "5:int32")
    with pytest.raises(ValidationError, match="pass once of plugin dist-once"):
        compiled_with(lambda kernel: [parse_kernel(wrong)])


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (lambda kernel: kernel, "returned KernelIR, not a list of kernels"),
        (lambda kernel: [None], "returned NoneType, not a KernelIR"),
        (lambda kernel: [(kernel, "k")], "returned str, not a KernelIR"),
    ],
)
def test_other_proposals_are_refused(made, text):
    with pytest.raises(PluginError) as caught:
        compiled_with(made)
    assert str(caught.value).startswith(
        f"plugin: pass 'once' of plugin 'dist-once:Plugin.0' {text}\n  at: kernel triple"
    )


def test_ties_are_decided_by_the_smaller_figure():
    """Of equal time the smaller tie; time is first the interval of runs that overlap."""
    before = Alternative("before", Cost(100, tie=5))
    trials = Trials("x", "k", "lanes", before, 0)
    assert trials.most == 100
    for number, cost in enumerate(
        (Cost(100, tie=5), Cost(100, tie=4), Cost(101, tie=0), Cost(100, tie=4)), 1
    ):
        trials.offer(Alternative(str(number), cost), number)
    assert trials.best == trials.taken == 2
    intervals = Trials("x", "k", "lanes", Alternative("before", Cost(100, interval=50)), 0)
    intervals.offer(Alternative("a", Cost(90, interval=60)), 1)
    intervals.offer(Alternative("b", Cost(120, interval=40)), 2)
    assert intervals.best == 2


def test_a_decision_keeps_the_alternatives_with_the_fewest_cycles():
    trials = Trials("x", "k", "lanes", Alternative("before", Cost(1000)), 0)
    for number in range(1, 50):
        trials.offer(Alternative(str(number), Cost(1000 - number)), number)
    decision = trials.decision()
    names = [each.name for each in decision.alternatives]
    assert names == ["before", *(str(n) for n in range(51 - MOST_KEPT, 50))]
    assert decision.chosen.name == "49"
