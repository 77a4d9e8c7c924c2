"""Why a design takes its cycles: decisions, the bound of each II, and options that would change it."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import Any

from tg2hdl.kernel_summaries import kernel_summaries
from tg2hdl.results import KernelSummary
from tg2hdl_backend import CapturedProgram
from tg2hdl_ir import InputError, Tg2hdlError, registry
from tg2hdl_ir.passes.fold_scales import fold_scales
from tg2hdl_lower import Cost, Decision, HardwarePlan
from tg2hdl_lower.plan.operations import UnitOp
from tg2hdl_top import CompileOptions, Design, compile_program
from tg2hdl_top.search.measure import Estimator, design_cost, estimating, estimator_of

__all__ = ["Explanation", "KernelExplanation", "OptionVariant", "explain_design"]

SHOWN = 5
"""Alternatives of a decision that are printed: the one that was taken, and those with the fewest cycles."""

WIDTH = 80


@dataclass(frozen=True)
class OptionVariant:
    """The design with another option, as planned.

    Parameters
    ----------
    option : str
        As it is written in Python, e.g. ``float_order="relaxed"``.
    cycles : int, optional
        Clock cycles from start to done; None where it cannot be planned.
    note : str
        Consequence of the option besides cycles, or the error.
    cost : Cost, optional
        Of the whole design, with LUTs and clock where the family has an estimate.
    """

    option: str
    cycles: int | None
    note: str = ""
    cost: Cost | None = None


@dataclass(frozen=True)
class KernelExplanation:
    """A kernel, and why it takes its cycles.

    Parameters
    ----------
    summary : KernelSummary
    count : int
        Consecutive calls with this plan.
    interval : str
        Why a step starts as often as it does: the edge of the recurrence, the unit and its latency, or the port.
    decisions : tuple of Decision
        Of the search and of the planner about this kernel.
    """

    summary: KernelSummary
    count: int
    interval: str
    decisions: tuple[Decision, ...]


@dataclass(frozen=True)
class Explanation:
    """Why a design takes its cycles; prints at any width.

    Parameters
    ----------
    name : str
    cycles : int
        Clock cycles from start to done.
    kernels : tuple of KernelExplanation
        In execution order.
    decisions : tuple of Decision
        About the whole program.
    variants : tuple of OptionVariant
        Options that would change the cycles; the fewest cycles first.
    notes : tuple of str
        Where each weight is, and why, if some may be outside the chip.
    cost : Cost, optional
        Of the whole design; LUTs and clock are estimated with `variants`, where the family has an estimate.
    """

    name: str
    cycles: int
    kernels: tuple[KernelExplanation, ...]
    decisions: tuple[Decision, ...]
    variants: tuple[OptionVariant, ...]
    notes: tuple[str, ...] = ()
    cost: Cost | None = None

    def describe(self) -> dict[str, Any]:
        """The same as data, for JSON."""
        return asdict(self)

    def format(self, width: int = WIDTH) -> str:
        """The same as text.

        Parameters
        ----------
        width : int
            Columns.
        """
        return "\n".join(_lines(self, width))

    def __str__(self) -> str:
        return self.format()


def explain_design(
    captured: CapturedProgram,
    design: Design,
    kernel: str | None = None,
    *,
    variants: bool = True,
    progress: Callable[[str], None] = lambda message: None,
) -> Explanation:
    """Explain a design; see `Explanation`.

    Parameters
    ----------
    kernel : str, optional
        Name of the only kernel to explain.
    variants : bool
        Whether the design is planned again with other options, to show which would change its cycles, and LUTs and
        clock of these designs, and of those that the search compared, are estimated.
    progress : callable, optional
        Called with a message before each design is planned.

    Raises
    ------
    InputError
        When no kernel has this name.
    """
    summaries = kernel_summaries(captured, design)
    names = {summary.name for summary in summaries}
    if kernel is not None and kernel not in names:
        raise InputError(
            f"the design has no kernel {kernel!r}", hint=f"choose one of {', '.join(sorted(names))}"
        )
    estimator = estimator_of(design.options) if variants else None
    if estimator is not None:
        # The same design, whose decisions have the estimates of the designs that were compared.
        progress("estimating LUTs and clock")
        with estimating(estimator):
            design = compile_program(captured.program, replace(design.options, validate="off"))
    found = []
    for (summary, _), group in groupby(
        zip(summaries, design.kernels, strict=True), key=lambda pair: (pair[0], pair[1].ii)
    ):
        plans = [plan for _, plan in group]
        if kernel in (None, summary.name):
            about = [d for d in design.decisions if _is_about(d, summary.name, names)]
            # Kernels of one name that were decided alike say so once.
            decisions = tuple(dict.fromkeys((*about, *plans[0].decisions)))
            found.append(KernelExplanation(summary, len(plans), _interval(plans[0]), decisions))
    return Explanation(
        design.program.name,
        design.predicted_cycles(captured.var_vals),
        tuple(found),
        tuple(d for d in design.decisions if d.scope == "program"),
        tuple(_variants(captured, design, estimator, progress)) if variants else (),
        () if design.external is None else design.external.notes,
        design_cost(design, estimator),
    )


def _is_about(decision: Decision, kernel: str, names: set[str]) -> bool:
    """Whether a decision is about a kernel, or about one that it was cut from."""
    place = decision.place
    if decision.scope == "program":
        return False
    return place == kernel or (place not in names and kernel.startswith(f"{place}_"))


def _interval(plan: HardwarePlan) -> str:
    """Why a step starts every II cycles."""
    start = f"a step every {plan.ii} cycles: "
    reasons = [note.removeprefix(start) for note in plan.notes if note.startswith(start)]
    return "" if plan.ii == 1 else reasons[-1] if reasons else "as the orders of the other kernels require"


# Variants


def _variants(
    captured: CapturedProgram,
    design: Design,
    estimator: Estimator | None,
    progress: Callable[[str], None],
) -> Iterator[OptionVariant]:
    """The design planned with other options, the fewest cycles first."""
    found = []
    for text, options, note in _other_options(captured, design):
        progress(f"planning with {text}")
        try:
            trial = compile_program(captured.program, replace(options, validate="off"))
            cycles = trial.predicted_cycles(captured.var_vals)
            found.append(OptionVariant(text, cycles, note, design_cost(trial, estimator)))
        except Tg2hdlError as error:
            found.append(OptionVariant(text, None, error.message))
    yield from sorted(found, key=lambda v: float("inf") if v.cycles is None else v.cycles)


def _other_options(captured: CapturedProgram, design: Design) -> Iterator[tuple[str, CompileOptions, str]]:
    """Options that may change the cycles of this design, and a consequence of each."""
    options, plans = design.options, design.kernels
    sums = any(r.dtype.is_float for plan in plans for r in plan.kernel.registers)
    if sums and options.float_order == "strict":
        yield (
            'float_order="relaxed"',
            replace(options, float_order="relaxed"),
            "sums are rounded in another order",
        )
    if options.chooses_lanes:
        more = 2 * (options.multipliers or 1)
        yield f"multipliers={more}", replace(options, multipliers=more), ""
    if len(plans) > 1 and options.schedule in ("auto", "serial"):
        yield 'schedule="overlap"', replace(options, schedule="overlap"), ""
    if len(plans) > 1 and options.share_multipliers:
        yield "share_multipliers=False", replace(options, share_multipliers=False), "each kernel has its own"
    if design.repeats_cores and options.weights != "external":
        yield "share_kernels=False", replace(options, share_kernels=False), "equal kernels have a core each"
    if not options.cut_kernels:
        yield "cut_kernels=True", replace(options, cut_kernels=True), ""
    if not options.fold_batchnorm and _has_scales(captured):
        note = "sums are rounded elsewhere"
        yield "fold_batchnorm=True", replace(options, fold_batchnorm=True), note
    for op, unit in _lower_latency(plans, options).items():
        text = f'units={{"{op}": "{unit}"}}'
        yield text, replace(options, units={**options.units, op: unit}), "the clock may be slower"


def _has_scales(captured: CapturedProgram) -> bool:
    program = captured.program
    made = fold_scales(program)
    return any(a.kernel is not b.kernel for a, b in zip(program.calls, made.calls, strict=True))


def _lower_latency(plans: Sequence[HardwarePlan], options: CompileOptions) -> dict[str, str]:
    """By op the unit with the lowest latency, where a sum waits for another one."""
    found = {}
    for plan in plans:
        for node in plan.all(UnitOp):
            if plan.ii == 1 or node.op != "add" or node.op in options.units:
                continue
            units = [
                u
                for u in registry().units(node.op, node.unit.operands, node.unit.result)
                if u.golden is None and u.target in ("generic", options.target)
            ]
            least = min(units, key=lambda u: u.latency, default=node.unit)
            if least.latency < node.unit.latency:
                found[node.op] = least.name
    return found


# Text


def _lines(found: Explanation, width: int) -> Iterator[str]:
    def wrapped(text: str, indent: int = 0, hang: int = 2) -> list[str]:
        return textwrap.wrap(
            text,
            max(width, 20),
            initial_indent=" " * indent,
            subsequent_indent=" " * (indent + hang),
            break_on_hyphens=False,
        )

    yield from wrapped(f"{found.name}: {_count(found.cycles, 'cycle')} from start to done")
    if found.cost is not None and (others := replace(found.cost, cycles=0).format().partition(", ")[2]):
        yield from wrapped(others, 2)
    for each in found.kernels:
        kernel = each.summary
        times = f"{each.count} x " if each.count > 1 else ""
        layer = f" ({kernel.layer})" if kernel.layer else ""
        yield ""
        yield from wrapped(f"Kernel {times}{kernel.name}{layer}")
        every = "each cycle" if kernel.ii == 1 else f"every {kernel.ii} cycles"
        text = f"{_count(kernel.cycles, 'cycle')}: {_count(kernel.steps, 'step')}, one {every}"
        yield from wrapped(f"{text}, with {_count(kernel.multipliers, 'multiplier')}", 2)
        if each.interval:
            yield from wrapped(f"Why II = {kernel.ii}: {each.interval}", 2)
        for decision in each.decisions:
            yield from _decision(decision, wrapped)
    if found.decisions:
        yield ""
        yield "The whole program"
        for decision in found.decisions:
            yield from _decision(decision, wrapped)
    if found.notes:
        yield ""
        yield "Weights"
        for note in found.notes:
            yield from wrapped(note, 2)
    if found.variants:
        yield ""
        yield from wrapped("What would change it (each planned with that option)")
        yield from _variant_lines(found, wrapped)


def _variant_lines(found: Explanation, wrapped: Callable[..., list[str]]) -> Iterator[str]:
    same = [v.option for v in found.variants if v.cycles == found.cycles]
    for variant in found.variants:
        note = f" ({variant.note})" if variant.note else ""
        if variant.cycles is None:
            yield from wrapped(f"{variant.option}: refused{note}", 2)
        elif variant.cycles != found.cycles:
            cycles = f"{_count(variant.cycles, 'cycle')} instead of {found.cycles:,}"
            yield from wrapped(f"{variant.option}: {cycles}{_other_figures(found, variant)}{note}", 2)
    if same:
        yield from wrapped(f"no change: {', '.join(same)}", 2)


def _other_figures(found: Explanation, variant: OptionVariant) -> str:
    """LUTs and clock of a variant, after those of the design."""
    before, after = found.cost, variant.cost
    if before is None or after is None or None in (before.luts, before.fmax, after.luts, after.fmax):
        return ""
    luts, clock = f"{after.luts:,} LUTs instead of {before.luts:,}", f"{after.fmax:.0f} MHz"
    return f", {luts}, {clock} instead of {before.fmax:.0f}"


def _decision(decision: Decision, wrapped: Callable[..., list[str]]) -> Iterator[str]:
    yield from wrapped(f"{decision.rewrite}: {decision.why}", 2)
    ordered = sorted(
        enumerate(decision.alternatives),
        key=lambda pair: (
            pair[0] != decision.taken,
            float("inf") if pair[1].cost is None else pair[1].cost.cycles,
        ),
    )
    for number, each in ordered[:SHOWN]:
        cost = "" if each.cost is None else f": {each.cost.format()}"
        note = f" ({each.note})" if each.note else ""
        yield from wrapped(f"{'*' if number == decision.taken else '-'} {each.name}{cost}{note}", 4)
    if len(ordered) > SHOWN:
        yield from wrapped(f"- {len(ordered) - SHOWN} more, in the JSON", 4)


def _count(number: int, name: str) -> str:
    return f"{number:,} {name}{'' if number == 1 else 's'}"
