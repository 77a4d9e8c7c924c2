"""Element types of the memories that kernels share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from tg2hdl_ir.analysis.accumulators import accumulator_ranges
from tg2hdl_ir.analysis.ranges import Interval, RangeAnalysis, bits_for
from tg2hdl_ir.dtype import DType
from tg2hdl_ir.nodes import IRBufStore, KernelIR
from tg2hdl_ir.program import ProgramBuffer, ProgramIR
from tg2hdl_lower.memory.memories import element_ranges
from tg2hdl_lower.memory.use import MemoryRole

__all__ = ["element_types"]


def element_types(program: ProgramIR, roles: Mapping[int, MemoryRole]) -> dict[int, DType]:
    """Element type of each buffer; temporaries and constants get no more bits than their values need."""
    storage = {n: _constant_type(buffer, roles[n]) for n, buffer in enumerate(program.buffers)}
    written = Counter(
        buffer
        for call in program.calls
        for meta, buffer in zip(call.kernel.buffers, call.buffers, strict=True)
        # Runs on tiles of one weight write parts of one buffer.
        if meta.is_output and not any(roles[n].streamed for n in call.buffers)
    )
    found: dict[int, Interval] = {}
    for call in program.calls:
        slots = {meta.idx: buffer for meta, buffer in zip(call.kernel.buffers, call.buffers, strict=True)}
        inputs = element_ranges({idx: storage[buffer] for idx, buffer in slots.items()})
        for idx, interval in _stored(call.kernel, inputs).items():
            buffer = slots[idx]
            meta = program.buffers[buffer]
            private = meta.role == "temporary" and meta.initial is None and written[buffer] <= 1
            if private and meta.dtype.is_int:
                low, high = found.get(buffer, interval)
                found[buffer] = min(low, interval[0]), max(high, interval[1])
                storage[buffer] = _narrowest(found[buffer], meta.dtype)
    return storage


def _constant_type(buffer: ProgramBuffer, role: MemoryRole) -> DType:
    """Type of a buffer by its contents, where nothing but kernels reads it and nothing writes it."""
    private = not (role.written or role.host_writes or role.host_reads)
    if not private or not buffer.dtype.is_int or buffer.initial is None or not len(buffer.initial):
        return buffer.dtype
    return _narrowest((int(np.min(buffer.initial)), int(np.max(buffer.initial))), buffer.dtype)


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
