"""Temporaries of one array take each other's region once their last reader has run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tg2hdl_ir import DType, ProgramIR
from tg2hdl_ir.passes.instrument import ir_pass
from tg2hdl_top.repeats.groups import BufferGroups

__all__ = ["followers_of", "with_reused_temporaries"]


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


def followers_of(program: ProgramIR) -> set[int]:
    """Calls that may follow the sums before them, never two in a row.

    Only they read these sums, before anything else is written there.
    """
    accesses = [call.accesses() for call in program.calls]
    found: set[int] = set()
    # Those that carry no values from one element to the next come first: they are the rest of a cut kernel.
    for carries in (False, True):
        for number in range(1, len(accesses)):
            (before, written), (read, _) = accesses[number - 1 : number + 1]
            between = written & read
            first, second = (call.kernel for call in program.calls[number - 1 : number + 1])
            if {number - 1, number, number + 1} & found or bool(second.registers) != carries:
                continue
            if not first.registers or not between or between & before:
                continue
            later = accesses[number + 1 :]
            if all(_is_between(program, n) and not _is_read_again(later, n) for n in between):
                found.add(number)
    return found


def _is_read_again(accesses: Sequence[tuple[set[int], set[int]]], buffer: int) -> bool:
    """Whether one of some calls reads a buffer, and none before that only writes it."""
    return buffer in next((reads for reads, writes in accesses if buffer in reads | writes), ())


def _is_between(program: ProgramIR, buffer: int) -> bool:
    """Whether only kernels use a buffer."""
    meta = program.buffers[buffer]
    return meta.role == "temporary" and meta.initial is None and buffer not in program.outputs
