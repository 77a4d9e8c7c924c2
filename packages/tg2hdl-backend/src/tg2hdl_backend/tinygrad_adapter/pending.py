"""Updates that tensors wait for when a model is captured: tinygrad computes them once, not in each run.

``w += 1`` of a tensor that has contents is such an update, and so is each step of the counter behind random weights.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy.typing as npt
from tinygrad import Tensor
from tinygrad.uop.ops import Ops, UOp

from tg2hdl_ir import KernelCall, ProgramBuffer, ProgramIR, UnsupportedError, evaluate

__all__ = ["pending_tensors", "with_pending_updates"]

_UPDATES = {op for name in ("AFTER", "ASSIGN") if (op := getattr(Ops, name, None)) is not None}


def pending_tensors(tensors: Iterable[tuple[Tensor, UOp]], used: Collection[UOp]) -> list[Tensor]:
    """Tensors to compute before the model runs: those updated, and those that need a value between two updates.

    Parameters
    ----------
    tensors : iterable of (Tensor, UOp)
        All tensors, with their graphs before the run.
    used : collection of UOp
        Nodes that the model's results need.
    """
    found = [(t, u, [n for n in u.toposort() if n.op in _UPDATES]) for t, u in tensors if u in used]
    last = {u.base for _, u, updates in found if updates and u.base.op in _UPDATES}
    return [t for t, u, updates in found if u.base in last or any(n not in last for n in updates)]


def with_pending_updates(
    program: ProgramIR, origins: Sequence[Any], once: Sequence[bool]
) -> tuple[ProgramIR, tuple[Any, ...]]:
    """The program without the calls that are made once, and with their results as contents.

    Parameters
    ----------
    origins : sequence
        One value per call; it stays with its call.
    once : sequence of bool
        For each call, whether it is such a call.

    Raises
    ------
    UnsupportedError
        When one depends on a variable.
    """
    if not any(once):
        return program, tuple(origins)
    calls = [call for call, early in zip(program.calls, once, strict=True) if not early]
    left = tuple(origin for origin, early in zip(origins, once, strict=True) if not early)
    used = {b for call in calls for b in call.buffers} | set(program.outputs)
    contents = _evaluated([c for c, early in zip(program.calls, once, strict=True) if early], program, used)
    written = {b for call in calls for b in call.accesses()[1]}

    def known(number: int, buffer: ProgramBuffer) -> ProgramBuffer:
        if number in contents and number in used and buffer.role != "input":
            role = buffer.role
            if role != "output":
                role = "temporary" if number in written else "weight"
            return replace(buffer, role=role, initial=contents[number])
        if number not in used and buffer.role == "temporary":
            return replace(buffer, initial=None)
        return buffer

    buffers = tuple(known(n, b) for n, b in enumerate(program.buffers))
    return replace(program, buffers=buffers, calls=tuple(calls)), left


def _evaluated(
    early: Sequence[KernelCall], program: ProgramIR, used: Collection[int]
) -> dict[int, npt.NDArray[Any]]:
    """Contents that the calls leave in buffers which are used later."""
    needed, wanted = set(used), []
    for call in reversed(early):
        reads, writes = call.accesses()
        if writes & needed:
            wanted.append(call)
            needed |= reads
    contents = {n: b.initial for n, b in enumerate(program.buffers) if b.initial is not None}
    changed: set[int] = set()
    for call in reversed(wanted):
        if call.kernel.variables:
            raise UnsupportedError(
                "an update that depends on a variable waits for its tensor to be computed",
                where=f"kernel {call.kernel.name}",
                hint="call .realize() on the tensor before the model is compiled",
            )
        slots = call.slots
        given = {slot: contents[n] for slot, n in slots.items() if n in contents}
        for slot, result in evaluate(call.kernel, given).items():
            contents[slots[slot]] = result
            changed.add(slots[slot])
    return {n: array for n, array in contents.items() if n in changed}
