"""Cutting kernels in which a reduction and its epilogue take fewer cycles one after the other than together."""

from __future__ import annotations

import math
from dataclasses import replace

from tg2hdl_ir.errors import BudgetError
from tg2hdl_ir.nodes import IRConst, IROp, IRRegLoad, IRRegStore, KernelIR, loads_used_by
from tg2hdl_ir.passes.cut_kernel import cut_kernel, cut_places
from tg2hdl_ir.passes.instrument import ir_pass
from tg2hdl_ir.pipeline import canonicalize
from tg2hdl_ir.program import KernelCall, ProgramBuffer, ProgramIR
from tg2hdl_lower.lanes.candidates import executed_products
from tg2hdl_top.element_types import element_types
from tg2hdl_top.lane_choice import LaneChooser
from tg2hdl_top.options import CompileOptions
from tg2hdl_top.partial_sums import with_partial_sums
from tg2hdl_top.placement import place_program
from tg2hdl_top.roles import buffer_roles

__all__ = ["with_cut_kernels"]

WORTH_A_KERNEL = 0.9
"""Largest ratio of cycles after to before, at which another kernel and buffer are worth their area."""

FILL = 256
"""More cycles than the first and the last step of a kernel take beyond the others."""


@ir_pass("choose-cuts", "kernels are cut where two take fewer cycles")
def with_cut_kernels(program: ProgramIR, options: CompileOptions) -> ProgramIR:
    """Cut the kernels that run in fewer cycles as two; the results may be cut again.

    Parameters
    ----------
    program : ProgramIR
        Canonical kernels.
    """
    if not options.chooses_lanes:
        return program
    buffers, calls = list(program.buffers), []
    pending = list(reversed(program.calls))
    decided: dict[KernelIR, tuple[KernelIR, KernelIR, tuple[int, ...]] | None] = {}
    while pending:
        call = pending.pop()
        slots = dict(call.slots)
        if call.kernel not in decided:
            decided[call.kernel] = _best_cut(call, slots, replace(program, buffers=tuple(buffers)), options)
        cut = decided[call.kernel]
        if cut is None:
            calls.append(call)
            continue
        first, second, between = cut
        for idx in between:
            meta = first.buffer(idx)
            slots[idx] = len(buffers)
            buffers.append(ProgramBuffer(f"sums{len(buffers)}", meta.dtype, (meta.depth,), "temporary"))
        pending += [
            KernelCall(k, tuple(slots[b.idx] for b in k.buffers), call.values) for k in (second, first)
        ]
    return replace(program, buffers=tuple(buffers), calls=tuple(calls))


def _best_cut(
    call: KernelCall, slots: dict[int, int], program: ProgramIR, options: CompileOptions
) -> tuple[KernelIR, KernelIR, tuple[int, ...]] | None:
    """The cut with the fewest cycles, if they are few enough; the kernel is planned separately."""
    if call.host_variables:
        return None
    best, best_cycles, limit = None, 0.0, 0.0
    for place in cut_places(call.kernel):
        if not limit:
            alone = replace(program, calls=(call,))
            if _is_busy(alone, options):
                return None
            whole = _cycles(alone, options)
            limit = math.inf if whole is None else WORTH_A_KERNEL * whole
            best_cycles = limit
        first, second, between = cut_kernel(call.kernel, place)
        first, second = canonicalize(first), canonicalize(second)
        buffers, numbers = list(program.buffers), dict(slots)
        for meta in between:
            numbers[meta.idx] = len(buffers)
            buffers.append(ProgramBuffer(f"sums{len(buffers)}", meta.dtype, (meta.depth,), "temporary"))
        calls = tuple(KernelCall(k, tuple(numbers[b.idx] for b in k.buffers)) for k in (first, second))
        trial = replace(program, buffers=tuple(buffers), calls=calls)
        if options.float_order == "strict" and _steps(trial, options) >= limit:
            continue
        cycles = _cycles(trial, options)
        if cycles is not None and cycles <= best_cycles:
            best, best_cycles = (first, second, tuple(meta.idx for meta in between)), cycles
    return best


def _is_busy(program: ProgramIR, options: CompileOptions) -> bool:
    """Whether a kernel of integer sums is so near to its products by the multipliers that no cut can be worth it."""
    kernel = program.calls[0].kernel
    least = executed_products(kernel) / (options.multipliers or 1)
    return _adds_integers(kernel) and least > WORTH_A_KERNEL * (_steps(program, options) + FILL)


def _adds_integers(kernel: KernelIR) -> bool:
    """Whether every register is an integer that is added to, which takes one cycle: no step waits for another."""
    for statement in kernel.loop_tree.statements():
        if not isinstance(statement, IRRegStore) or isinstance(statement.value, IRConst):
            continue
        match statement.value:
            case IROp(op="add", dtype=dtype, srcs=(IRRegLoad(reg=reg), added)):
                others = loads_used_by((added,))
                if dtype.is_float or reg != statement.reg or any(isinstance(s, IRRegLoad) for s in others):
                    return False
            case _:
                return False
    return True


def _steps(program: ProgramIR, options: CompileOptions) -> int:
    """Cycles of the steps alone, each kernel with the lanes that it would have without the others."""
    roles = buffer_roles(program, options)
    storage = element_types(program, roles)
    total = 0
    for call in program.calls:
        slots = [(m.idx, n) for m, n in zip(call.kernel.buffers, call.buffers, strict=True)]
        narrow = {idx: storage[n] for idx, n in slots}
        mine = {idx: roles[n] for idx, n in slots}
        total += LaneChooser(call.kernel, {}, narrow, mine, options, sparing=False).choose().cycles
    return total


def _cycles(program: ProgramIR, options: CompileOptions) -> int | None:
    """Cycles of all kernels; None where one does not fit the budget, which a cut may change."""
    if options.float_order == "relaxed":
        program = with_partial_sums(program, options)
    try:
        return sum(plan.cycles() for plan in place_program(program, options))
    except BudgetError:
        return None
