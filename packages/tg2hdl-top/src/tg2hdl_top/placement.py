"""Placement: lanes of each kernel, layout and element type of each shared buffer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, TypeAlias

from tg2hdl_ir import DType, KernelIR, ProgramIR
from tg2hdl_lower import (
    Alternative,
    Cost,
    Decision,
    HardwarePlan,
    Layout,
    LowerOptions,
    PreparedKernel,
    plan_follower,
    plan_kernel,
    plan_orders,
)
from tg2hdl_lower.decisions import Trials, most_cycles
from tg2hdl_lower.lanes.candidates import multiplications
from tg2hdl_lower.memory.use import MemoryRole
from tg2hdl_lower.sharing.arbiter import HeldOperands
from tg2hdl_top.element_types import element_types
from tg2hdl_top.follower_form import follower_form
from tg2hdl_top.lane_choice import (
    BufferLayout,
    BufferUser,
    KernelLanes,
    LaneChooser,
    total_multiplications,
)
from tg2hdl_top.memo import remembered
from tg2hdl_top.options import CompileOptions
from tg2hdl_top.repeats import Repeats
from tg2hdl_top.repeats.bounds import with_both_bounds
from tg2hdl_top.roles import buffer_roles

__all__ = ["PlacedProgram", "place", "place_cores", "place_program"]

MOST_RELIEVED = 3
"""Kernels that may choose before the others."""

_Lanes: TypeAlias = tuple[dict[int, KernelLanes], dict[int, Layout]]
"""Lanes by call, and layouts by buffer."""


@dataclass(frozen=True)
class PlacedProgram:
    """Planned kernel calls, and other orders of their steps.

    Attributes
    ----------
    plans : list of HardwarePlan
    decisions : tuple of Decision
        About all calls; those about one are in its plan.
    orders : callable
        Other plans of a call by its number, with the same lanes and layouts, that may keep pace with kernels which
        take so many cycles; see `plan_orders`.
    bounded : callable
        The plan of a call by its number that checks both ends of its windows; see `with_both_bounds`.
    follower : callable
        Plans of a call and of one after it by their numbers: the second keeps the pace of the first with as few
        lanes as that takes.  None where there is none.
    """

    plans: list[HardwarePlan]
    decisions: tuple[Decision, ...]
    orders: Callable[[int, Collection[int]], Iterable[HardwarePlan]]
    bounded: Callable[[int], HardwarePlan | None]
    follower: Callable[[int, int], tuple[HardwarePlan, HardwarePlan] | None]


def place_program(
    program: ProgramIR, options: CompileOptions, repeats: Repeats | None = None
) -> list[HardwarePlan]:
    """Plan every kernel call, see `place`.

    Parameters
    ----------
    repeats : Repeats, optional
        Of the program: calls that run on one core have one plan, which is made once.
    """
    if repeats is None:
        return place(program, options).plans
    plans = place_cores(repeats, options).plans
    return [plans[core] for core in repeats.cores]


def place_cores(repeats: Repeats, options: CompileOptions) -> PlacedProgram:
    """Plan the first run of each core, see `place`.

    Parameters
    ----------
    repeats : Repeats
        Calls that share a core.
    options : CompileOptions
    """
    roles = repeats.slot_roles(buffer_roles(repeats.program, options))
    return _placed(repeats.first_runs(), options, dict(repeats.storage), roles)


def place(
    program: ProgramIR, options: CompileOptions, in_order: Collection[int] = frozenset()
) -> PlacedProgram:
    """Plan every kernel call.

    A buffer gets its layout from the kernel that needs several lanes of it; kernels that touch it one element at a
    time follow.  Kernels with more multiplications choose first.  Ties in cycles are
    broken by the order of the lanes or by their memory demand: which is better depends on the later kernels, so both
    are tried.

    Parameters
    ----------
    program : ProgramIR
        With canonical kernels.
    options : CompileOptions
    in_order : collection of int
        Calls whose results are done one after the other, see `Planning`.
    """
    roles = buffer_roles(program, options)
    slot_roles = [{idx: roles[n] for idx, n in call.slots.items()} for call in program.calls]
    return _placed(program, options, element_types(program, roles), slot_roles, frozenset(in_order))


def _placed(
    program: ProgramIR,
    options: CompileOptions,
    storage: dict[int, DType],
    roles: Sequence[dict[int, MemoryRole]],
    in_order: frozenset[int] = frozenset(),
) -> PlacedProgram:
    """Plan every call; `roles` by call and slot."""
    placed = partial(_place, program, storage, roles, options, in_order)
    found, sparing, decisions = _ties(program, options, placed)
    again = partial(placed, sparing)
    (choices, layouts), first = _relieved(program, found, again, options)

    options = _with_held_operands(options, [call.kernel for call in program.calls])

    def arguments(number: int, other: Mapping[int, Layout] | None = None) -> dict[str, Any]:
        slots, mine = program.calls[number].slots, {**layouts, **(other or {})}
        return {
            "lanes": choices[number].lanes,
            "layouts": _layouts_of(choices[number], slots, mine),
            "storage": {idx: storage[n] for idx, n in slots.items()},
            "roles": roles[number],
        }

    def plan(
        number: int, shared: Collection[str] = (), other: Mapping[int, Layout] | None = None
    ) -> HardwarePlan:
        choice = choices[number]
        given = arguments(number, other)
        planned = _planned(choice.kernel, options, frozenset(shared), given, number in in_order)
        decided = (*((first[number],) if number in first else ()), *choice.decisions)
        notes = (choice.why,) if choice.why else ()
        if not decided:
            return planned
        return replace(planned, notes=(*notes, *planned.notes), decisions=(*decided, *planned.decisions))

    plans = [plan(number) for number in range(len(program.calls))]
    shared: set[str] = set()
    if options.share_units:
        users = Counter(name for p in plans for name in p.units)
        shared = {name for name, kernels in users.items() if kernels > 1}
        plans = [plan(number, shared) if p.units & shared else p for number, p in enumerate(plans)]

    def orders(number: int, spans: Collection[int]) -> Iterable[HardwarePlan]:
        return plan_orders(choices[number].kernel, options, spans, shared=shared, **arguments(number))

    def bounded(number: int) -> HardwarePlan | None:
        planned = partial(plan_kernel, options=options, shared=shared, **arguments(number))
        return with_both_bounds(choices[number].kernel, planned, plans[number])

    def follower(first: int, second: int) -> tuple[HardwarePlan, HardwarePlan] | None:
        pair = program.calls[first], program.calls[second]
        between = pair[0].accesses()[1] & pair[1].accesses()[0]
        found = follower_form(pair, between, choices[first], plans[first])
        if found is None:
            return None
        slots = pair[1].slots
        others = {n for number, call in enumerate(program.calls) if number != second for n in call.buffers}
        # Words as the first kernel writes them, and tables as the few lanes of the second one read them.
        words = {n: choices[first].layouts[idx] for idx, n in pair[0].slots.items() if n in between}
        given = {n: layouts[n] for idx, n in slots.items() if n in others or not roles[second][idx].is_rom}
        given |= words
        narrow = {idx: storage[n] for idx, n in slots.items()}
        known = {idx: BufferLayout(given[n]) for idx, n in slots.items() if n in given}
        chooser = LaneChooser(found.kernel, known, narrow, roles[second], options, sparing=False)
        axes = {*found.lanes, *(found.tile or ())[:1]}
        if chooser.kernel is not found.kernel or not axes <= chooser.info.independent:
            return None
        choice = chooser.with_lanes(found.lanes)
        free = {n: choice.layouts[idx] for idx, n in slots.items() if n not in given}
        planned = plan_follower(
            choice.kernel,
            options,
            found.level,
            found.pace,
            found.tile,
            lanes=choice.lanes,
            layouts=_layouts_of(choice, slots, {**given, **free}),
            storage=narrow,
            shared=shared,
            roles=roles[second],
        )
        if planned is None:
            return None
        before = plans[first]
        if any(layout.merged() != layouts[n].merged() for n, layout in words.items()):
            before = plan(first, shared, words)
        return before, replace(planned, notes=(*planned.notes, found.why))

    return PlacedProgram(plans, decisions, orders, bounded, follower)


def _planned(
    kernel: KernelIR,
    options: CompileOptions,
    shared: frozenset[str],
    arguments: dict[str, Any],
    in_order: bool,
) -> HardwarePlan:
    """The plan of a kernel: the search asks for the same one several times, for other budgets too."""
    chosen = {f.name: getattr(options, f.name) for f in fields(LowerOptions)}
    if not multiplications(kernel):
        # The multipliers only decide the timing.
        chosen |= {"multipliers": options.multipliers is None, "timing": (options.timing, options.spread)}
    given = [sorted(arguments[name].items()) for name in ("lanes", "layouts", "storage", "roles")]
    key = kernel, repr((chosen, given)), in_order
    prepared = remembered(
        ("prepared", *key), lambda: PreparedKernel.of(kernel, options, in_order=in_order, **arguments)
    )
    return remembered(("plan", shared, *key), lambda: prepared.plan(shared))


def _ties(
    program: ProgramIR, options: CompileOptions, placed: Callable[[bool], _Lanes]
) -> tuple[_Lanes, bool, tuple[Decision, ...]]:
    """Lanes of all calls, whether those of equal cycles are taken by their memory demand, and the decision about it."""
    first = placed(False)
    if not options.chooses_lanes or (options.multipliers or 1) == 1:
        return first, False, ()
    before = Alternative("the first ones", _program_cost(program, *first), "steps of all kernels")
    trials = Trials("lanes-of-equal-cycles", program.name, "lanes", before, (first, False), scope="program")
    found = placed(True)
    after = Alternative("those with the lowest memory demand", _program_cost(program, *found), before.note)
    trials.offer(after, (found, True))
    why = "fewer cycles, or equal ones with fewer words and multiplexers"
    return *trials.best, (trials.decision(why, "no fewer cycles, words and multiplexers"),)


def _relieved(
    program: ProgramIR,
    best: _Lanes,
    placed: Callable[[tuple[int, ...]], _Lanes],
    options: CompileOptions,
) -> tuple[_Lanes, dict[int, Decision]]:
    """Let kernels that wait for the layouts of others choose before them, where the program takes fewer cycles then.

    The decisions are by call.
    """

    def cycles(trial: _Lanes) -> int:
        return sum(choice.cycles for choice in trial[0].values())

    change = "another placing order"
    first: tuple[int, ...] = ()
    decisions: dict[int, Decision] = {}
    waits = {n: c.cycles - c.least for n, c in best[0].items() if c.least}
    for number in sorted(waits, key=lambda n: -waits[n])[:MOST_RELIEVED]:
        if cycles(best) - waits[number] > most_cycles(change, cycles(best)):
            break
        name, trial = program.calls[number].kernel.name, placed((*first, number))
        before = Alternative("after kernels with more products", Cost(cycles(best)), "steps of all kernels")
        trials = Trials("choose-layouts", name, change, before, best, prefer=options.prefer)
        trials.offer(Alternative("before the others", Cost(cycles(trial)), before.note), trial)
        # The layouts that it takes may make another kernel wait, which then chooses next.
        behind = {n: c.cycles - c.least for n, c in trial[0].items() if c.least and n not in (*first, number)}
        after = max(behind, key=lambda n: behind[n], default=number)
        if behind.get(after, 0) > waits.get(after, 0):
            trial = placed((*first, number, after))
            title = f"before the others, and then {program.calls[after].kernel.name}"
            trials.offer(Alternative(title, Cost(cycles(trial)), before.note), trial)
        best, first = trials.best, (*first, *(number, after)[: trials.taken])
        decisions[number] = trials.decision()
    return best, decisions


def _place(
    program: ProgramIR,
    storage: dict[int, DType],
    roles: Sequence[dict[int, MemoryRole]],
    options: CompileOptions,
    in_order: frozenset[int],
    sparing: bool,
    first: tuple[int, ...] = (),
) -> _Lanes:
    """Lanes of every call, and layout of every buffer; some calls choose before the others."""
    buffers: dict[int, BufferLayout] = {}
    choices: dict[int, KernelLanes] = {}
    for number in sorted(
        range(len(program.calls)),
        key=lambda n: (
            first.index(n) if n in first else len(first),
            -total_multiplications(program.calls[n].kernel),
        ),
    ):
        call = program.calls[number]
        slots = call.slots
        narrow = {idx: storage[n] for idx, n in slots.items()}
        known = {idx: buffers[n] for idx, n in slots.items() if n in buffers}
        choose = partial(_choice, call.kernel, narrow, roles[number], options, sparing, number in in_order)
        choice = choose(known)
        twice = [
            [idx for idx in slots if slots[idx] == n]
            for n, uses in Counter(slots.values()).items()
            if uses > 1
        ]
        for same in twice:
            if len({choice.layouts[idx].merged() for idx in same}) > 1:
                choice = _of_one_layout(choice, same, known, choose)
        choices[number] = choice
        for idx, n in slots.items():
            entry = buffers.setdefault(n, BufferLayout(choice.layouts[idx]))
            if entry.layout.merged() != choice.layouts[idx].merged():
                entry.layout = choice.layouts[idx]
            entry.users.append(BufferUser(choice.accesses[idx], choice.lanes, choice.interval))
    return choices, {n: entry.layout for n, entry in buffers.items()}


def _choice(
    kernel: KernelIR,
    storage: dict[int, DType],
    roles: Mapping[int, MemoryRole],
    options: CompileOptions,
    sparing: bool,
    in_order: bool,
    known: dict[int, BufferLayout],
) -> KernelLanes:
    chooser = partial(LaneChooser, kernel, known, storage, roles, options, sparing=sparing, in_order=in_order)
    # The accesses of users live as long as the choices that are remembered.
    users = [
        (idx, entry.layout, tuple((id(u.accesses), tuple(u.lanes.items()), u.interval) for u in entry.users))
        for idx, entry in sorted(known.items())
    ]
    given = (*sorted(storage.items()), *sorted(roles.items()))
    key = "lanes", kernel, sparing, in_order, options.multipliers, options.float_order, tuple(users), given
    return remembered(key, lambda: chooser().choose())


def _of_one_layout(
    choice: KernelLanes,
    same: list[int],
    known: dict[int, BufferLayout],
    choose: Callable[[dict[int, BufferLayout]], KernelLanes],
) -> KernelLanes:
    """Choose again for slots whose memories have one layout, as a core reads the results of its last run."""
    before = Alternative("a layout for each access", None, "one memory has one layout")
    trials = Trials("layout", choice.kernel.name, "layouts", before, choice)
    for layout in {choice.layouts[idx].merged(): None for idx in same}:
        trial = choose(known | {idx: BufferLayout(layout) for idx in same})
        if len({trial.layouts[idx].merged() for idx in same}) == 1:
            # Of equal cycles the wider word: other kernels can use all or a part of it.
            lanes = trial.layouts[same[0]].lanes
            trials.offer(Alternative(f"{lanes} elements a word", Cost(trial.cycles, tie=-lanes)), trial)
    best = trials.best
    return replace(best, decisions=(*best.decisions, trials.decision("the fewest cycles, or wider words")))


def _program_cost(program: ProgramIR, choices: dict[int, KernelLanes], layouts: dict[int, Layout]) -> Cost:
    """Cycles of all steps and after the last one, and their memory demand."""
    cycles = sum(choice.cycles + choice.fill for choice in choices.values())
    demand = 0
    for number, choice in choices.items():
        demand += choice.demand(_layouts_of(choice, program.calls[number].slots, layouts))
    return Cost(cycles, tie=demand)


def _layouts_of(choice: KernelLanes, slots: dict[int, int], layouts: dict[int, Layout]) -> dict[int, Layout]:
    """Layouts of a kernel's slots, each with the dimensions that the kernel has chosen lanes for."""
    chosen = choice.layouts
    return {
        idx: chosen[idx] if chosen[idx].merged() == layouts[n].merged() else layouts[n]
        for idx, n in slots.items()
    }


def _with_held_operands(options: CompileOptions, kernels: Sequence[KernelIR]) -> CompileOptions:
    """Options with the cycle of `HeldOperands`, where kernels share so many multipliers that paths to them are long.

    Parameters
    ----------
    options : CompileOptions
    kernels : sequence of KernelIR
        By call.
    """
    users = sum(total_multiplications(kernel) > 0 for kernel in kernels)
    if not options.share_multipliers or not options.spread or users < HeldOperands.KERNELS:
        return options
    return replace(options, product_latency=options.timing.product_latency + HeldOperands.latency)
