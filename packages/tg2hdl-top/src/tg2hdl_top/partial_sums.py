"""Long float sums of few results, as partial sums that keep the adder busy; only in relaxed order."""

from __future__ import annotations

from dataclasses import replace

from tg2hdl_ir.nodes import BufferMeta, KernelIR
from tg2hdl_ir.passes.instrument import ir_pass
from tg2hdl_ir.passes.partial_sums import LongSum, find_sum, split_sum
from tg2hdl_ir.program import KernelCall, ProgramBuffer, ProgramIR
from tg2hdl_lower.dataflow.binding import recurrence_latency
from tg2hdl_top.options import CompileOptions

__all__ = ["with_partial_sums"]

OVERHEAD = 60
"""Cycles to start and drain another kernel."""

WORTH_A_KERNEL = 0.8


@ir_pass("choose-partial-sums", "long sums are split where they stall")
def with_partial_sums(program: ProgramIR, options: CompileOptions) -> ProgramIR:
    """Split the sums that would stall on the latency of their adder most of the time.

    Parameters
    ----------
    program : ProgramIR
        Canonical kernels.
    """
    buffers, calls = list(program.buffers), []
    splits: dict[KernelIR, tuple[KernelIR, KernelIR, BufferMeta]] = {}
    for call in program.calls:
        found = find_sum(call.kernel)
        turns = recurrence_latency(call.kernel, options) + 1
        parts = None if found is None else _parts(found, turns, options.multipliers or 1)
        if found is None or parts is None:
            calls.append(call)
            continue
        if call.kernel not in splits:
            splits[call.kernel] = split_sum(call.kernel, found, parts)
        first, second, between = splits[call.kernel]
        slots = {meta.idx: n for meta, n in zip(call.kernel.buffers, call.buffers, strict=True)}
        slots[between.idx] = len(buffers)
        buffers.append(ProgramBuffer(f"parts{len(buffers)}", between.dtype, (between.depth,), "temporary"))
        calls += [KernelCall(k, tuple(slots[b.idx] for b in k.buffers), call.values) for k in (first, second)]
    return replace(program, buffers=tuple(buffers), calls=tuple(calls))


def _parts(found: LongSum, turns: int, lanes: int) -> int | None:
    """Partial sums for each result, or None where they save too little."""
    if found.results >= turns:
        return None
    choices = range(-(-turns // found.results), 2 * turns + 1)
    parts = min(choices, key=lambda n: (-(-found.terms // n) * n, n))
    before = found.repeats * -(-found.terms // lanes) * turns
    rounds = found.repeats * -(-found.terms // (parts * lanes))
    after = rounds * max(turns, parts * found.results) + parts * turns + OVERHEAD
    return parts if after < WORTH_A_KERNEL * before else None
