"""Temporaries of one array take each other's region once their last reader has run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tg2hdl_ir import DType, ProgramIR
from tg2hdl_ir.passes.instrument import ir_pass
from tg2hdl_top.repeats.groups import BufferGroups
from tg2hdl_top.repeats.pairs import followers_of

__all__ = ["with_reused_temporaries"]


@ir_pass("reuse-temporaries")
def with_reused_temporaries(
    program: ProgramIR, groups: BufferGroups, storage: Mapping[int, DType]
) -> ProgramIR:
    """The program with as few temporaries in each array as are alive at once.

    Parameters
    ----------
    storage : mapping of int to DType
        Element type of each buffer; only equal ones take each other's place.
    """
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    beside = followers_of(program)
    for number, call in enumerate(program.calls):
        # A kernel may run at the same time as the one that it follows.
        number -= number in beside
        for buffer in call.buffers:
            first.setdefault(buffer, number)
            last[buffer] = number
    place: dict[int, int] = {}
    for buffers in groups.regions().values():
        free_after: dict[int, int] = {}
        for buffer in sorted(buffers, key=lambda n: first[n]):
            meta = program.buffers[buffer]
            if meta.role != "temporary" or meta.initial is not None or buffer in program.outputs:
                continue
            taken = next(
                (n for n, end in free_after.items() if end < first[buffer] and storage[n] == storage[buffer]),
                buffer,
            )
            place[buffer] = taken
            free_after[taken] = last[buffer]
    calls = tuple(
        replace(call, buffers=tuple(place.get(n, n) for n in call.buffers)) for call in program.calls
    )
    return replace(program, calls=calls)
