"""Other forms of kernels, taken where they need fewer cycles.

Phases of a zero-stuffed input, sections of concatenated layers, loops over groups, and constant taps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tg2hdl_ir.analysis.axes import analyze_axes
from tg2hdl_ir.nodes import KernelIR
from tg2hdl_ir.passes.constant_taps import with_constant_taps
from tg2hdl_ir.passes.divided import split_divided_loops
from tg2hdl_ir.passes.instrument import ir_pass
from tg2hdl_ir.passes.phases import phase_forms
from tg2hdl_ir.passes.sections import section_forms
from tg2hdl_ir.pipeline import canonicalize
from tg2hdl_ir.program import KernelCall, ProgramBuffer, ProgramIR
from tg2hdl_lower.dataflow.binding import recurrence_latency
from tg2hdl_top.cut_kernels import with_cut_kernels
from tg2hdl_top.options import CompileOptions
from tg2hdl_top.placement import place_program

__all__ = ["with_best_forms"]

WORTH_ANOTHER_FORM = 0.9
"""Largest ratio of cycles after to before, at which a kernel gets another form."""

PHASES = 4
"""Phases of a transposed convolution with strides of 2."""


@ir_pass("choose-forms", "kernels get the form that takes the fewest cycles")
def with_best_forms(program: ProgramIR, options: CompileOptions) -> ProgramIR:
    """Give kernels the form in which they take fewer cycles, each planned separately.

    Parameters
    ----------
    program : ProgramIR
        Canonical kernels.
    """
    if not options.chooses_lanes:
        return program
    constant = program.constant_buffers() if options.weights != "loadable" else ()
    calls: list[KernelCall] = []
    decided: dict[tuple[KernelIR, frozenset[tuple[int, int]]], tuple[KernelIR, ...]] = {}
    for call in program.calls:
        fixed = frozenset((slot, number) for slot, number in call.slots.items() if number in constant)
        key = call.kernel, fixed
        if key not in decided:
            decided[key] = _kernels(program, call, dict(fixed), options)
        calls += [_called(call, kernel) for kernel in decided[key]]
    return replace(program, calls=tuple(calls))


def _called(call: KernelCall, kernel: KernelIR) -> KernelCall:
    """The call with a kernel that uses the same slots, or some of them."""
    slots = call.slots
    return replace(call, kernel=kernel, buffers=tuple(slots[meta.idx] for meta in kernel.buffers))


def _kernels(
    program: ProgramIR, call: KernelCall, fixed: dict[int, int], options: CompileOptions
) -> tuple[KernelIR, ...]:
    """The kernels of another form where that takes fewer cycles; the kernel itself otherwise."""
    contents = {n: b.initial for n in fixed if (b := program.buffers[fixed[n]]).initial is not None}
    finite = frozenset(slot for slot, number in fixed.items() if _is_finite(program.buffers[number]))
    forms = phase_forms(call.kernel, finite, joined=_adds_wait(call.kernel, options))
    if sections := [] if forms else section_forms(call.kernel):
        return _best(program, call, sections, options, _cut_cycles)
    if not forms and (other := split_divided_loops(call.kernel)) is not call.kernel:
        return _best(program, call, [(other,)], options, _cut_cycles)
    if not forms and (other := with_constant_taps(call.kernel, contents)) is not call.kernel:
        forms = [(other,)]
    return _best(program, call, forms, options, _cycles)


def _best(
    program: ProgramIR,
    call: KernelCall,
    forms: list[tuple[KernelIR, ...]],
    options: CompileOptions,
    cycles_of: Callable[[ProgramIR, CompileOptions], int],
) -> tuple[KernelIR, ...]:
    """The form with the fewest cycles, or the kernel itself."""
    best: tuple[KernelIR, ...] = (call.kernel,)
    least = math.inf
    if forms:
        least = WORTH_ANOTHER_FORM * cycles_of(replace(program, calls=(call,)), options)
    for form in forms:
        parts = tuple(_called(call, canonicalize(kernel)) for kernel in form)
        cycles = cycles_of(replace(program, calls=parts), options)
        if cycles <= least:
            best, least = tuple(part.kernel for part in parts), cycles - 1
    return best


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


def _cycles(program: ProgramIR, options: CompileOptions) -> int:
    variables = {v.name: v.high for call in program.calls for v in call.kernel.variables}
    return sum(plan.cycles(variables) for plan in place_program(program, options))


def _cut_cycles(program: ProgramIR, options: CompileOptions) -> int:
    """Cycles of kernels that are cut where that is worth it: a section may be worth it although the whole was not."""
    return _cycles(with_cut_kernels(program, options), options)
