"""Initial contents of a model's own tensors that it updates, where they are not computed yet."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy.typing as npt

from tg2hdl_ir import ProgramIR, evaluate

__all__ = ["with_initial_state"]


def with_initial_state(
    program: ProgramIR, origins: Sequence[Any], held: Collection[str]
) -> tuple[ProgramIR, tuple[Any, ...]]:
    """Make the first contents of each state buffer those at power on, as tinygrad computes them only once.

    A lazy tensor that the model holds and updates is otherwise filled anew by a kernel in each run, and the state
    of the run before would be lost.

    Parameters
    ----------
    program : ProgramIR
    origins : sequence
        One value per call; it stays with its call.
    held : collection of str
        Names of the tensors that the model holds; a buffer that it makes while it runs starts again in each run.
    """
    known: dict[int, npt.NDArray[Any]] = {
        n: b.initial for n, b in enumerate(program.buffers) if b.role == "weight" and b.initial is not None
    }
    accesses = [call.accesses() for call in program.calls]
    buffers, dropped = list(program.buffers), set()
    for n, call in enumerate(program.calls):
        reads, writes = accesses[n]
        if call.kernel.variables or not reads <= known.keys():
            for buffer in writes:
                known.pop(buffer, None)
            continue
        slots = call.slots
        for slot, result in evaluate(
            call.kernel, {s: known[b] for s, b in slots.items() if b in known}
        ).items():
            known[slots[slot]] = result
        (written,) = writes if len(writes) == 1 else (None,)
        before = (r | w for r, w in accesses[:n])
        if (
            written is not None
            and buffers[written].name in held
            and buffers[written].initial is None
            and buffers[written].role == "temporary"
            and not any(written in used for used in before)
            and any(written in later for _, later in accesses[n + 1 :])
        ):
            buffers[written] = replace(buffers[written], initial=known[written])
            dropped.add(n)
    calls = [call for n, call in enumerate(program.calls) if n not in dropped]
    left = tuple(origin for n, origin in enumerate(origins) if n not in dropped)
    return replace(program, buffers=tuple(buffers), calls=tuple(calls)), left
