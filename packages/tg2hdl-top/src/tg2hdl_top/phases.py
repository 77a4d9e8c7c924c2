"""Kernels over a zero-stuffed input, split into one kernel per phase where that takes fewer cycles."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tg2hdl_ir.nodes import KernelIR
from tg2hdl_ir.passes.phases import split_phases
from tg2hdl_ir.pipeline import canonicalize
from tg2hdl_ir.program import KernelCall, ProgramBuffer, ProgramIR
from tg2hdl_top.options import CompileOptions
from tg2hdl_top.placement import place_program

__all__ = ["with_phases"]

WORTH_MORE_KERNELS = 0.9
"""Largest ratio of cycles after to before, at which one kernel becomes several."""


def with_phases(program: ProgramIR, options: CompileOptions) -> ProgramIR:
    """Split the kernels that then take fewer cycles, each planned separately.

    Parameters
    ----------
    program : ProgramIR
        Canonical kernels.
    """
    if not options.chooses_lanes:
        return program
    constant = program.constant_buffers() if options.weights == "rom" else ()
    finite = {n for n in constant if _is_finite(program.buffers[n])}
    calls: list[KernelCall] = []
    decided: dict[tuple[KernelIR, frozenset[int]], tuple[KernelIR, ...]] = {}
    for call in program.calls:
        slots = frozenset(slot for slot, number in call.slots.items() if number in finite)
        key = call.kernel, slots
        if key not in decided:
            decided[key] = _kernels(program, call, slots, options)
        calls += [replace(call, kernel=kernel) for kernel in decided[key]]
    return replace(program, calls=tuple(calls))


def _is_finite(buffer: ProgramBuffer) -> bool:
    assert buffer.initial is not None, "a constant buffer has contents"
    return not buffer.dtype.is_float or bool(np.isfinite(buffer.initial.astype(np.float64)).all())


def _kernels(
    program: ProgramIR, call: KernelCall, slots: frozenset[int], options: CompileOptions
) -> tuple[KernelIR, ...]:
    """One kernel for each phase where that takes fewer cycles; the kernel itself otherwise."""
    kernels = split_phases(call.kernel, slots)
    if len(kernels) == 1:
        return (call.kernel,)
    parts = tuple(replace(call, kernel=canonicalize(kernel)) for kernel in kernels)
    whole, split = replace(program, calls=(call,)), replace(program, calls=parts)
    worth = _cycles(split, options) <= WORTH_MORE_KERNELS * _cycles(whole, options)
    return tuple(part.kernel for part in parts) if worth else (call.kernel,)


def _cycles(program: ProgramIR, options: CompileOptions) -> int:
    variables = {v.name: v.high for call in program.calls for v in call.kernel.variables}
    return sum(plan.cycles(variables) for plan in place_program(program, options))
