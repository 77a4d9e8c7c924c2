"""Followers: a kernel that reads sums as they leave the accumulators of another one, at its pace, with few lanes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from tg2hdl_ir import ProgramIR
from tg2hdl_lower import Alternative, Cost, Decision, HardwarePlan
from tg2hdl_lower.decisions import Trials
from tg2hdl_top.design_program import plan_arrays, plan_memories, sharing_of
from tg2hdl_top.options import CompileOptions
from tg2hdl_top.repeats import Repeats
from tg2hdl_top.repeats.reuse import followers_of
from tg2hdl_top.search.measure import multiplier_blocks
from tg2hdl_top.sequencer import sequencer_named
from tg2hdl_top.sequencer.followers import find_followers
from tg2hdl_top.sequencer.overlap import MAX_STEPS

__all__ = ["with_followers"]

Follower = Callable[[int, int], tuple[HardwarePlan, HardwarePlan] | None]
"""Plans of two kernels; the second keeps the pace of the first."""


def with_followers(
    program: ProgramIR,
    plans: Sequence[HardwarePlan],
    follower: Follower,
    options: CompileOptions,
    repeats: Repeats | None = None,
) -> tuple[list[HardwarePlan], tuple[Decision, ...]]:
    """The plans by call, those of followers instead where they take no more cycles; and why.

    Parameters
    ----------
    follower : callable
        By numbers of calls, or of cores where calls share them.
    repeats : Repeats, optional
        Of the program.
    """
    plans = list(plans)
    cores = tuple(range(len(plans))) if repeats is None else repeats.cores
    if not sequencer_named(options.schedule).follows or not options.chooses_lanes:
        return plans, ()
    if any(plan.kernel.variables for plan in plans) and repeats is None:
        return plans, ()
    trial = list(plans)
    made: dict[int, int] = {}
    for second, first in _pairs(followers_of(program), cores).items():
        a, b = plans[cores.index(first)], plans[cores.index(second)]
        if not b.multipliers or a.steps() > MAX_STEPS or (found := follower(first, second)) is None:
            continue
        if found[0] is a or cores.count(first) == cores.count(second):
            made[second] = first
            trial = _replaced(trial, cores, {first: found[0], second: found[1]})
    if not made:
        return plans, ()
    delays = _delays(program, trial, options, repeats)
    decisions = []
    for second, first in made.items():
        runs = [n for n, core in enumerate(cores) if core == second]
        before, after = ((each[runs[0] - 1], each[runs[0]]) for each in (plans, trial))
        cycles = None
        if all(n in delays for n in runs):
            cycles = max(delays[n] for n in runs) + after[1].cycles()
        decision = _decision(before, after[1], cycles, options)
        decisions.append(decision)
        if not decision.taken:
            trial = _replaced(trial, cores, {first: before[0], second: before[1]})
    return trial, tuple(decisions)


def _replaced(
    plans: Sequence[HardwarePlan], cores: Sequence[int], others: Mapping[int, HardwarePlan]
) -> list[HardwarePlan]:
    return [others.get(core, plan) for core, plan in zip(cores, plans, strict=True)]


def _pairs(followers: Collection[int], cores: Sequence[int]) -> dict[int, int]:
    """The core before each core whose runs all follow the same one."""
    found: dict[int, set[int]] = {}
    for number, core in enumerate(cores):
        found.setdefault(core, set()).add(cores[number - 1] if number in followers else -1)
    return {core: first for core, (first, *more) in found.items() if not more and first not in (-1, core)}


def _delays(
    program: ProgramIR, plans: Sequence[HardwarePlan], options: CompileOptions, repeats: Repeats | None
) -> dict[int, int]:
    memories = plan_memories(program, options, plans, repeats)
    members: dict[str, str] = {}
    if repeats is not None:
        arrays = plan_arrays(program, options, memories, repeats)
        members = {name: array.memory.name for array in arrays for name in array.members}
    cores = None if repeats is None else repeats.cores
    return find_followers(plans, memories, sharing_of(plans, options), cores, members).delays


def _decision(
    pair: tuple[HardwarePlan, HardwarePlan], plan: HardwarePlan, cycles: int | None, options: CompileOptions
) -> Decision:
    """Whether the second of two kernels follows the first one, with another plan."""
    first, second = pair
    apart = Cost(first.cycles() + second.cycles(), multiplier_blocks(pair, options))
    before = Alternative(f"after {first.kernel.name}", apart)
    trials = Trials("follow", second.kernel.name, "followers", before, False, prefer=options.prefer)
    beside = f"beside it, {len(plan.products)} products at once"
    if cycles is None:
        trials.offer(Alternative(beside, None, "they need the same hardware at the same time"), None)
    else:
        trials.offer(Alternative(beside, Cost(cycles, multiplier_blocks((first, plan), options))), True)
    return trials.decision(
        "few multipliers on top of the budget, and hardly more cycles",
        "it cannot keep pace, or takes more cycles",
    )
