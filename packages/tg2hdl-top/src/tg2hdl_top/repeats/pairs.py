"""Calls that may follow the sums before them: only they read these, before anything else is written there."""

from __future__ import annotations

from tg2hdl_ir.program import ProgramIR

__all__ = ["followers_of"]


def followers_of(program: ProgramIR) -> dict[int, set[int]]:
    """The buffers between the call before and each such call, by number of the call; never two calls in a row."""
    accesses = [call.accesses() for call in program.calls]
    found: dict[int, set[int]] = {}
    # Those that carry no values from one element to the next come first: they are what is left of a cut kernel.
    for carries in (False, True):
        for number in range(1, len(accesses)):
            (before, written), (read, _) = accesses[number - 1 : number + 1]
            between = written & read
            first, second = (call.kernel for call in program.calls[number - 1 : number + 1])
            if {number - 1, number, number + 1} & found.keys() or bool(second.registers) != carries:
                continue
            if not first.registers or not between or between & before:
                continue
            if all(_is_between(program, buffer) for buffer in between) and not any(
                buffer
                in next((reads for reads, writes in accesses[number + 1 :] if buffer in reads | writes), ())
                for buffer in between
            ):
                found[number] = between
    return found


def _is_between(program: ProgramIR, buffer: int) -> bool:
    """Whether only kernels use a buffer."""
    meta = program.buffers[buffer]
    return meta.role == "temporary" and meta.initial is None and buffer not in program.outputs
