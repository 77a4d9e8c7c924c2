"""Placement: lanes of each kernel, layout and element type of each shared buffer."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from tg2hdl_ir.dtype import DType
from tg2hdl_ir.nodes import IRBufStore, KernelIR
from tg2hdl_ir.passes.accumulators import accumulator_ranges
from tg2hdl_ir.passes.axes import analyze_axes
from tg2hdl_ir.passes.ranges import Interval, RangeAnalysis, bits_for
from tg2hdl_ir.program import ProgramIR
from tg2hdl_lower import HardwarePlan, Layout, plan_kernel
from tg2hdl_lower.lanes import (
    Access,
    accesses,
    candidate_lanes,
    explicit_lanes,
    multiplications,
    preferred_layout,
    words_per_step,
)
from tg2hdl_lower.memories import element_ranges
from tg2hdl_top.options import CompileOptions

__all__ = ["place_program"]

READ_PORTS = 2


def place_program(program: ProgramIR, options: CompileOptions) -> list[HardwarePlan]:
    """Plan every kernel call; a buffer keeps the layout that its first user gave it."""
    storage = _storage(program)
    layouts: dict[int, Layout] = {}
    plans = []
    for call in program.calls:
        kernel = call.kernel
        slots = {meta.idx: buffer for meta, buffer in zip(kernel.buffers, call.buffers, strict=True)}
        fixed = {idx: layouts[buffer] for idx, buffer in slots.items() if buffer in layouts}
        choice = _choose(kernel, fixed, options)
        layouts.update({slots[idx]: layout for idx, layout in choice.layouts.items()})
        narrow = {idx: storage[buffer] for idx, buffer in slots.items()}
        plans.append(plan_kernel(kernel, options, lanes=choice.lanes, layouts=choice.layouts, storage=narrow))
    return plans


@dataclass(frozen=True)
class _Choice:
    lanes: dict[int, int]
    layouts: dict[int, Layout]
    interval: int


def _choose(kernel: KernelIR, fixed: dict[int, Layout], options: CompileOptions) -> _Choice:
    info = analyze_axes(kernel)
    found = accesses(kernel)
    if options.unroll_factor > 1 or options.reduce_unroll_factor > 1:
        lanes = explicit_lanes(kernel, info, options.unroll_factor, options.reduce_unroll_factor)
        return _evaluate(kernel, found, lanes, fixed)
    budget = (options.multipliers or 1) // max(1, multiplications(kernel))
    best = _evaluate(kernel, found, {}, fixed)
    best_cost = best.interval * _steps(kernel, {})
    for lanes in candidate_lanes(kernel, info, max(1, budget)):
        if _steps(kernel, lanes) >= best_cost:
            break
        choice = _evaluate(kernel, found, lanes, fixed)
        cost = choice.interval * _steps(kernel, lanes)
        if cost < best_cost:
            best, best_cost = choice, cost
    return best


def _evaluate(
    kernel: KernelIR, found: list[Access], lanes: dict[int, int], fixed: dict[int, Layout]
) -> _Choice:
    layouts = {
        b.idx: fixed.get(b.idx) or preferred_layout(found, b.idx, lanes, b.depth) for b in kernel.buffers
    }
    words = words_per_step(found, lanes, layouts)
    interval = max((-(-n // (1 if store else READ_PORTS)) for (_, store), n in words.items()), default=1)
    return _Choice(lanes, layouts, interval)


def _steps(kernel: KernelIR, lanes: dict[int, int]) -> int:
    total = 0
    for leaf_path in _paths(kernel):
        steps = 1
        for axis, bound in leaf_path:
            steps *= -(-bound // lanes.get(axis, 1))
        total += steps
    return total


def _paths(kernel: KernelIR) -> list[list[tuple[int, int]]]:
    ranges = RangeAnalysis()
    paths: list[list[tuple[int, int]]] = []

    def walk(loop, path):  # type: ignore[no-untyped-def]
        if loop.counter is not None:
            path = [*path, (loop.counter.axis, ranges.of(loop.counter)[1] + 1)]
        if not loop.loops:
            paths.append(path)
        for inner in loop.loops:
            walk(inner, path)

    walk(kernel.loop_tree, [])
    return paths


def _storage(program: ProgramIR) -> dict[int, DType]:
    """Element type of each buffer; temporaries get no more bits than their values need."""
    storage = {n: buffer.dtype for n, buffer in enumerate(program.buffers)}
    written = Counter(
        buffer
        for call in program.calls
        for meta, buffer in zip(call.kernel.buffers, call.buffers, strict=True)
        if meta.is_output
    )
    for call in program.calls:
        slots = {meta.idx: buffer for meta, buffer in zip(call.kernel.buffers, call.buffers, strict=True)}
        inputs = element_ranges({idx: storage[buffer] for idx, buffer in slots.items()})
        for idx, interval in _stored(call.kernel, inputs).items():
            buffer = slots[idx]
            meta = program.buffers[buffer]
            private = meta.role == "temporary" and meta.initial is None and written[buffer] == 1
            if private and meta.dtype.is_int:
                storage[buffer] = _narrowest(interval, meta.dtype)
    return storage


def _stored(kernel: KernelIR, inputs: dict[int, Interval]) -> dict[int, Interval]:
    ranges = RangeAnalysis(accumulator_ranges(kernel, inputs), inputs)
    result: dict[int, Interval] = {}
    for statement in kernel.loop_tree.statements():
        if isinstance(statement, IRBufStore) and not statement.dtype.is_float:
            low, high = ranges.of(statement.value)
            before = result.get(statement.buf_idx, (low, high))
            result[statement.buf_idx] = (min(before[0], low), max(before[1], high))
    return result


def _narrowest(interval: Interval, dtype: DType) -> DType:
    width, is_signed = bits_for(interval)
    return DType.from_width(width, is_signed) if width < dtype.bit_width else dtype
