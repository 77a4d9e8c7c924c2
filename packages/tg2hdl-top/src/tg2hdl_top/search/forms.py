"""Other forms of one kernel: scans, polyphase decomposition, sections, divided loops, constant taps."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from tg2hdl_ir import KernelCall, KernelIR, ProgramBuffer, ProgramIR
from tg2hdl_ir.analysis.axes import analyze_axes
from tg2hdl_ir.pipeline import canonicalize, rewrites
from tg2hdl_lower import Alternative, Cost
from tg2hdl_lower.dataflow.binding import recurrence_latency
from tg2hdl_lower.decisions import decide
from tg2hdl_top.memo import remembered
from tg2hdl_top.options import CompileOptions
from tg2hdl_top.search.cuts import with_cut_kernels
from tg2hdl_top.search.form import Form, KernelChoice, called, rewritten
from tg2hdl_top.search.measure import planned_cost

__all__ = ["forms_with_fewer_products", "with_best_forms", "with_merged_branches", "with_producers"]

PHASES = 4
"""Phases of a transposed convolution with strides of 2."""

_Named = list[tuple[str, tuple[KernelIR, ...]]]


def with_merged_branches(form: Form, options: CompileOptions) -> Form:
    """Merge products among which a counter chooses one where that takes fewer cycles.

    Parameters
    ----------
    form : Form
        Program and the decisions so far.
    options : CompileOptions
    """
    return _with_stage("merges", form, "between", options)


def with_producers(form: Form, options: CompileOptions) -> Form:
    """Give values that kernels compute again and again a kernel of their own where that takes fewer cycles.

    Parameters
    ----------
    form : Form
        Program and the decisions so far.
    options : CompileOptions
    """
    return _with_stage("producers", form, "produced", options)


def _with_stage(stage: str, form: Form, prefix: str, options: CompileOptions) -> Form:
    """Give kernels a form of a stage where that takes fewer cycles; `prefix` names the buffers between them."""
    if not options.chooses_lanes:
        return form

    def choose(program: ProgramIR, call: KernelCall) -> KernelChoice:
        return _fewest(program, call, _named(stage, call.kernel), True, options)

    return rewritten(form, f"choose-{stage}", choose, prefix=prefix)


def forms_with_fewer_products(kernel: KernelIR) -> list[tuple[KernelIR, ...]]:
    """The forms of `with_merged_branches` and `with_producers`, whichever of them a search takes."""
    return [form for stage in ("merges", "producers") for _, form in _named(stage, kernel)]


def with_best_forms(form: Form, options: CompileOptions) -> Form:
    """Give kernels the form in which they take fewer cycles, each planned separately.

    Parameters
    ----------
    form : Form
        Program and the decisions so far.
    options : CompileOptions
    """
    if not options.chooses_lanes:
        return form
    constant = form.program.constant_buffers() if options.weights != "loadable" else set()

    def fixed(call: KernelCall) -> dict[int, int]:
        return {slot: number for slot, number in call.slots.items() if number in constant}

    def choose(program: ProgramIR, call: KernelCall) -> KernelChoice:
        return _best_form(program, call, fixed(call), options)

    return rewritten(
        form, "choose-forms", choose, key=lambda call: (call.kernel, frozenset(fixed(call).items()))
    )


def _best_form(
    program: ProgramIR, call: KernelCall, fixed: dict[int, int], options: CompileOptions
) -> KernelChoice:
    """The kernels of another form where that takes fewer cycles; the kernel itself otherwise."""
    kernel = call.kernel
    buffers = {slot: program.buffers[number] for slot, number in fixed.items()}
    named = _other_forms(kernel, buffers, options)
    # A section may be worth it although the whole was not.
    cuts = not {name for name, _ in named} <= {"scan", "phases", "constant-taps"}
    return _fewest(program, call, named, cuts, options)


def _named(stage: str, kernel: KernelIR) -> _Named:
    """The canonical candidates of a stage that depends on the kernel only, by the names of their rewrites."""

    def make() -> _Named:
        found = [(entry.name, form) for entry in rewrites(stage) for form in entry.candidates(kernel)]
        return [(name, tuple(map(canonicalize, form))) for name, form in found]

    return remembered((kernel, stage), make)


def _fewest(
    program: ProgramIR,
    call: KernelCall,
    named: _Named,
    cuts: bool,
    options: CompileOptions,
) -> KernelChoice:
    """The form of a kernel with the fewest cycles, by the name of its rewrite; `cuts` are tried in each."""
    kernel = call.kernel
    if not named:
        return KernelChoice((kernel,))

    def cost(kernels: tuple[KernelIR, ...]) -> Cost | None:
        buffers = list(program.buffers)
        calls = called(call, kernels, buffers, "between")
        trial = Form(replace(program, buffers=tuple(buffers), calls=tuple(calls)))
        return planned_cost((with_cut_kernels(trial, options) if cuts else trial).program, options)

    def trials() -> Iterator[tuple[Alternative, tuple[KernelIR, ...]]]:
        for number, (name, made) in enumerate(named):
            count = "one kernel" if len(made) == 1 else f"{len(made)} kernels"
            title = f"{name}: {count}" + (f", form {number + 1}" if len(named) > 1 else "")
            yield Alternative(title, cost(made)), made

    before = Alternative("as it is", cost((kernel,)))
    taken, decision = decide(
        " or ".join(dict.fromkeys(name for name, _ in named)),
        kernel.name,
        "another form",
        before,
        trials(),
        prefer=options.prefer,
    )
    return KernelChoice(taken or (kernel,), decision)


def _other_forms(kernel: KernelIR, fixed: Mapping[int, ProgramBuffer], options: CompileOptions) -> _Named:
    """Canonical forms, of exclusive rewrites those of the first one that has any; `fixed` buffers never change."""
    facts = {
        "finite": frozenset(slot for slot, buffer in fixed.items() if _is_finite(buffer)),
        "joined": _adds_wait(kernel, options),
        "contents": {slot: b.initial for slot, b in fixed.items() if b.initial is not None},
    }
    named: _Named = []
    excluded = False
    for entry in rewrites("forms"):
        if not (entry.exclusive and excluded):
            forms = entry.candidates(kernel, **facts)
            excluded |= entry.exclusive and bool(forms)
            named += [(entry.name, tuple(map(canonicalize, form))) for form in forms]
    return named


def _adds_wait(kernel: KernelIR, options: CompileOptions) -> bool:
    """Whether each lane has too few sums of floats to hide the latency of their addition."""
    info = analyze_axes(kernel)
    outputs = math.prod(
        loop.bound
        for loop in kernel.loop_tree.walk()
        if loop.counter is not None and isinstance(loop.bound, int) and loop.counter.axis in info.independent
    )
    # A sum is back at its unit a cycle after the result.
    turns = recurrence_latency(kernel, options) + 1
    return bool(info.floats) and outputs < turns * PHASES * (options.multipliers or 1)


def _is_finite(buffer: ProgramBuffer) -> bool:
    assert buffer.initial is not None, "a constant buffer has contents"
    return not buffer.dtype.is_float or bool(np.isfinite(buffer.initial.astype(np.float64)).all())
