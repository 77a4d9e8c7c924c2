"""Cutting kernels between their products, where kernels that overlap then take fewer cycles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tg2hdl_ir.errors import BudgetError
from tg2hdl_ir.nodes import KernelIR
from tg2hdl_ir.passes.cut_products import cut_products, product_cuts
from tg2hdl_ir.passes.instrument import ir_pass
from tg2hdl_ir.pipeline import canonicalize
from tg2hdl_ir.program import KernelCall, ProgramBuffer, ProgramIR
from tg2hdl_lower.lanes.candidates import executed_products
from tg2hdl_top.cut_kernels import WORTH_A_KERNEL
from tg2hdl_top.design_program import plan_memories, sharing_of
from tg2hdl_top.options import CompileOptions
from tg2hdl_top.placement import place_program
from tg2hdl_top.sequencer import sequencer_named

__all__ = ["WORTH_CUT_PRODUCTS", "with_cut_products"]

WORTH_CUT_PRODUCTS = 0.99
"""Largest ratio of a design's cycles after to before, at which kernels are cut between their products."""


@ir_pass("choose-product-cuts", "kernels are cut between products where two overlap")
def with_cut_products(program: ProgramIR, options: CompileOptions) -> ProgramIR:
    """Cut the kernels whose products take fewer cycles as two that overlap; the same program where there is none.

    The multipliers must be shared: a kernel with multipliers of its own runs beside the others anyway.

    Parameters
    ----------
    program : ProgramIR
        Canonical kernels.
    """
    if not options.chooses_lanes or not options.share_multipliers or (options.budget or 1) < 2:
        return program
    buffers, calls = list(program.buffers), []
    decided: dict[KernelIR, tuple[KernelIR, KernelIR] | None] = {}
    for call in program.calls:
        if call.kernel not in decided:
            decided[call.kernel] = _best_cut(call, replace(program, buffers=tuple(buffers)), options)
        cut = decided[call.kernel]
        parts = [call] if cut is None else _parts(call, cut, buffers)
        calls += parts
    return replace(program, buffers=tuple(buffers), calls=tuple(calls)) if any(decided.values()) else program


def _best_cut(
    call: KernelCall, program: ProgramIR, options: CompileOptions
) -> tuple[KernelIR, KernelIR] | None:
    """The cut with the fewest cycles, if they are few enough, and not more without overlap either."""
    places = [] if call.host_variables else list(product_cuts(call.kernel))
    if not places:
        return None
    whole = _cycles(replace(program, calls=(call,)), options)
    if whole is None:
        return None
    alone, limit = whole[0], WORTH_A_KERNEL * whole[0]
    if executed_products(call.kernel) > limit * (options.multipliers or 1):
        return None
    best = None
    for place in places:
        first, second, _ = cut_products(call.kernel, place)
        cut = canonicalize(first), canonicalize(second)
        buffers = list(program.buffers)
        parts = _parts(call, cut, buffers)
        cycles = _cycles(replace(program, buffers=tuple(buffers), calls=tuple(parts)), options)
        if cycles is not None and cycles[0] <= alone and cycles[1] <= limit:
            best, limit = cut, cycles[1] - 1
    return best


def _parts(call: KernelCall, cut: Sequence[KernelIR], buffers: list[ProgramBuffer]) -> list[KernelCall]:
    """The calls of a cut kernel; what is between them is added to the buffers."""
    slots = dict(call.slots)
    (between,) = (b for b in cut[0].buffers if b.idx not in slots)
    slots[between.idx] = len(buffers)
    buffers.append(ProgramBuffer(f"factors{len(buffers)}", between.dtype, (between.depth,), "temporary"))
    return [KernelCall(k, tuple(slots[b.idx] for b in k.buffers), call.values) for k in cut]


def _cycles(program: ProgramIR, options: CompileOptions) -> tuple[int, float] | None:
    """Cycles of all kernels one after the other, and as they overlap; None where one does not fit the budget."""
    try:
        plans = place_program(program, options)
    except BudgetError:
        return None
    serial = sum(plan.cycles() for plan in plans)
    sequencer = sequencer_named(options.schedule)
    memories = plan_memories(program, options, plans)
    found = sequencer.arrange(options.schedule, plans, memories, sharing_of(plans, options))
    return serial, found.plan.latency or serial
