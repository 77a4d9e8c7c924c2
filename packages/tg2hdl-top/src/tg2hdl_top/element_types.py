"""Element types of the memories that kernels share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from tg2hdl_ir import DType, Interval, IRBufStore, KernelIR, ProgramBuffer, ProgramIR, RangeAnalysis
from tg2hdl_ir.analysis.accumulators import accumulator_ranges
from tg2hdl_ir.analysis.ranges import bits_for
from tg2hdl_lower.memory.memories import element_ranges
from tg2hdl_lower.memory.use import MemoryRole

__all__ = ["element_types"]


_ROUNDS = 6
"""How often the range of a state may grow."""


def element_types(program: ProgramIR, roles: Mapping[int, MemoryRole]) -> dict[int, DType]:
    """Element type of each buffer; temporaries and constants get no more bits than their values need.

    Parameters
    ----------
    program : ProgramIR
    roles : mapping of int to MemoryRole
        By number of the buffer.
    """
    storage = {n: _constant_type(buffer, roles[n]) for n, buffer in enumerate(program.buffers)}
    storage |= _state_types(program, roles, storage)
    _narrowed(program, roles, storage)
    return storage


def _state_types(
    program: ProgramIR, roles: Mapping[int, MemoryRole], storage: Mapping[int, DType]
) -> dict[int, DType]:
    """Types of state in integers that hold the first contents and all that runs store, which begin with such a state.

    The range of a state grows from its first contents until a run stores nothing out of it, by induction then no run
    does; one that still grows after `_ROUNDS` keeps its whole type.
    """
    found: dict[int, Interval] = {}
    for n in program.state_buffers():
        first = program.buffers[n].initial
        if program.buffers[n].dtype.is_int and first is not None and len(first):
            found[n] = int(np.min(first)), int(np.max(first))
    types: dict[int, DType] = {}
    growing, rounds = set(found), 0
    while growing:
        types = {n: _narrowest(interval, program.buffers[n].dtype) for n, interval in found.items()}
        stored = _narrowed(program, roles, {**storage, **types}, by_comparison=True)
        wider = {
            n: (min(found[n][0], stored[n][0]), max(found[n][1], stored[n][1])) for n in found if n in stored
        }
        growing = {n for n, interval in wider.items() if interval != found[n]}
        found |= wider
        rounds += 1
        if rounds % _ROUNDS == 0:
            for n in growing:
                dtype = program.buffers[n].dtype
                found[n] = dtype.min_value, dtype.max_value
    return types


def _narrowed(
    program: ProgramIR,
    roles: Mapping[int, MemoryRole],
    storage: dict[int, DType],
    *,
    by_comparison: bool = False,
) -> dict[int, Interval]:
    """Narrow the types of temporaries in `storage`; returns the range of the values in each buffer of integers.

    `by_comparison` is that of `RangeAnalysis`.
    """
    written = Counter(
        buffer
        for call in program.calls
        for meta, buffer in zip(call.kernel.buffers, call.buffers, strict=True)
        # Runs on tiles of one weight write parts of one buffer.
        if meta.is_output and not any(roles[n].streamed for n in call.buffers)
    )
    found: dict[int, Interval] = {}
    for call in program.calls:
        slots = call.slots
        inputs = element_ranges({idx: storage[buffer] for idx, buffer in slots.items()})
        for idx, interval in _stored(call.kernel, inputs, by_comparison).items():
            buffer = slots[idx]
            meta = program.buffers[buffer]
            low, high = found.get(buffer, interval)
            found[buffer] = min(low, interval[0]), max(high, interval[1])
            private = meta.role == "temporary" and meta.initial is None and written[buffer] <= 1
            if private and meta.dtype.is_int:
                storage[buffer] = _narrowest(found[buffer], meta.dtype)
    return found


def _constant_type(buffer: ProgramBuffer, role: MemoryRole) -> DType:
    """Type of a buffer by its contents, where nothing but kernels reads it and nothing writes it."""
    private = not (role.written or role.host_writes or role.host_reads)
    if not private or not buffer.dtype.is_int or buffer.initial is None or not len(buffer.initial):
        return buffer.dtype
    return _narrowest((int(np.min(buffer.initial)), int(np.max(buffer.initial))), buffer.dtype)


def _stored(kernel: KernelIR, inputs: dict[int, Interval], by_comparison: bool) -> dict[int, Interval]:
    ranges = RangeAnalysis(accumulator_ranges(kernel, inputs), inputs, by_comparison=by_comparison)
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
