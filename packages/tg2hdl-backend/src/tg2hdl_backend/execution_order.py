"""The order of kernel calls that follows from their reads and writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tg2hdl_ir.errors import InputError
from tg2hdl_ir.program import ProgramIR

__all__ = ["ordered_calls"]


def ordered_calls(program: ProgramIR, origins: Sequence[Any]) -> tuple[ProgramIR, tuple[Any, ...]]:
    """Put calls after their producers; calls that are in order already stay in place.

    Parameters
    ----------
    program : ProgramIR
    origins : sequence
        One value per call; it stays with its call.

    Raises
    ------
    InputError
        When kernels wait for each other.
    """
    found = [c.accesses() for c in program.calls]
    waits: dict[int, set[int]] = {n: set() for n in range(len(found))}
    for n, (reads, _) in enumerate(found):
        for buffer in reads:
            writers = [w for w, (_, writes) in enumerate(found) if buffer in writes]
            if writers and min(writers) > n and program.buffers[buffer].initial is None:
                waits[n].add(min(writers))
            waits[n].update(w for w in writers if w < n)
    order: list[int] = []
    while waits:
        ready = next((n for n, needed in waits.items() if needed <= set(order)), None)
        if ready is None:
            names = ", ".join(f"{program.calls[n].kernel.name} ({n})" for n in waits)
            raise InputError(
                f"kernels wait for each other: {names}",
                where=f"program {program.name}",
                hint="give the kernels of one schedule, in which no buffer depends on itself",
            )
        order.append(ready)
        del waits[ready]
    if order == sorted(order):
        return program, tuple(origins)
    calls = tuple(program.calls[n] for n in order)
    return replace(program, calls=calls), tuple(origins[n] for n in order)
