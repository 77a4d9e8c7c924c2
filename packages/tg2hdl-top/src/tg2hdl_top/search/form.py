"""A form of a program: the result of rewrites, and the decisions that led to it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import TypeAlias

from tg2hdl_ir import KernelCall, KernelIR, ProgramBuffer, ProgramIR
from tg2hdl_ir.passes.instrument import applied
from tg2hdl_lower import Decision

__all__ = ["Decide", "Form", "KernelChoice", "called", "rewritten"]


@dataclass(frozen=True, eq=False)
class Form:
    """A program with canonical kernels, and the decisions that made it.

    Parameters
    ----------
    program : ProgramIR
    trail : tuple of Decision
        In the order in which they were taken; those of forms that were not taken are not in it.
    """

    program: ProgramIR
    trail: tuple[Decision, ...] = ()


@dataclass(frozen=True)
class KernelChoice:
    """The kernels that take the place of one, and the decision; no decision where nothing could be chosen."""

    kernels: tuple[KernelIR, ...]
    decision: Decision | None = None


Decide: TypeAlias = Callable[[ProgramIR, KernelCall], KernelChoice]


def called(
    call: KernelCall, kernels: tuple[KernelIR, ...], buffers: list[ProgramBuffer], prefix: str
) -> list[KernelCall]:
    """Calls of the kernels that take the place of one; the buffers between them are added to `buffers`.

    Parameters
    ----------
    kernels : tuple of KernelIR
        They use the slots of the call, and further ones between them.
    prefix : str
        Of the names of buffers between them.
    """
    slots, calls = dict(call.slots), []
    for kernel in kernels:
        for meta in kernel.buffers:
            if meta.idx not in slots:
                slots[meta.idx] = len(buffers)
                name = f"{prefix}{len(buffers)}"
                buffers.append(ProgramBuffer(name, meta.dtype, (meta.depth,), "temporary"))
        calls.append(replace(call, kernel=kernel, buffers=tuple(slots[b.idx] for b in kernel.buffers)))
    return calls


def rewritten(
    form: Form,
    name: str,
    decide: Decide,
    *,
    prefix: str = "between",
    key: Callable[[KernelCall], Hashable] = lambda call: call.kernel,
    again: bool = False,
) -> Form:
    """Put the kernels that `decide` chooses in the place of each kernel; the same form where none changes.

    Parameters
    ----------
    name : str
        Of the rewrite, for those who watch the passes.
    decide : callable
        ``(program, call) -> KernelChoice``; the program has the buffers that were added so far.
    prefix : str
        Of the names of buffers between kernels.
    key : callable
        Calls with equal keys are decided once.
    again : bool
        Whether the chosen kernels are decided in turn.
    """
    program = form.program
    buffers, calls, trail = list(program.buffers), [], list(form.trail)
    pending = list(reversed(program.calls))
    chosen: dict[Hashable, KernelChoice] = {}
    while pending:
        call = pending.pop()
        known = key(call)
        if known not in chosen:
            chosen[known] = decide(replace(program, buffers=tuple(buffers)), call)
            if (decision := chosen[known].decision) is not None:
                trail.append(decision)
        kernels = chosen[known].kernels
        if kernels == (call.kernel,):
            calls.append(call)
            continue
        parts = called(call, kernels, buffers, prefix)
        if again:
            pending += reversed(parts)
        else:
            calls += parts
    if calls == list(program.calls):
        made = program
    else:
        made = replace(program, buffers=tuple(buffers), calls=tuple(calls))
        applied(name, program, made)
    return Form(made, tuple(trail))
