"""Calls that may follow the sums before them: only they read these, before anything else is written there."""

from __future__ import annotations

from collections.abc import Sequence

from tg2hdl_ir import ProgramIR

__all__ = ["followers_of"]


def followers_of(program: ProgramIR) -> set[int]:
    """Numbers of such calls; never two in a row."""
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
