"""Other forms of kernels, taken where they need fewer cycles: phases of a zero-stuffed input, and constant taps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tg2hdl_ir.nodes import KernelIR
from tg2hdl_ir.passes.constant_taps import with_constant_taps
from tg2hdl_ir.passes.phases import split_phases
from tg2hdl_ir.pipeline import canonicalize
from tg2hdl_ir.program import KernelCall, ProgramBuffer, ProgramIR
from tg2hdl_top.options import CompileOptions
from tg2hdl_top.placement import place_program

__all__ = ["with_best_forms"]

WORTH_ANOTHER_FORM = 0.9
"""Largest ratio of cycles after to before, at which a kernel gets another form."""


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
    form = split_phases(call.kernel, finite)
    if form == (call.kernel,):
        form = (with_constant_taps(call.kernel, contents),)
    if form == (call.kernel,):
        return form
    parts = tuple(_called(call, canonicalize(kernel)) for kernel in form)
    whole, other = replace(program, calls=(call,)), replace(program, calls=parts)
    worth = _cycles(other, options) <= WORTH_ANOTHER_FORM * _cycles(whole, options)
    return tuple(part.kernel for part in parts) if worth else (call.kernel,)


def _is_finite(buffer: ProgramBuffer) -> bool:
    assert buffer.initial is not None, "a constant buffer has contents"
    return not buffer.dtype.is_float or bool(np.isfinite(buffer.initial.astype(np.float64)).all())


def _cycles(program: ProgramIR, options: CompileOptions) -> int:
    variables = {v.name: v.high for call in program.calls for v in call.kernel.variables}
    return sum(plan.cycles(variables) for plan in place_program(program, options))
