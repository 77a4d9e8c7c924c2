"""Constant folding of kernels: initializers, transposed weights, tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy.typing as npt

from tg2hdl_ir import KernelCall, ProgramBuffer, ProgramIR, evaluate

__all__ = ["FoldedProgram", "fold_constants"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class FoldedProgram:
    """A program without the kernels that read only weights.

    Parameters
    ----------
    program : ProgramIR
    origins : tuple
        Of the calls that are left.
    preparation : ProgramIR or None
        Computes the weights, its outputs, that took the place of kernels; None without such kernels.
    frozen : frozenset of str
        Weights that are folded into others permanently, because a buffer of these kernels has several contents.
    """

    program: ProgramIR
    origins: tuple[Any, ...]
    preparation: ProgramIR | None = None
    frozen: frozenset[str] = frozenset()


def fold_constants(program: ProgramIR, origins: Sequence[Any]) -> FoldedProgram:
    """Replace kernels that read only weights by the weights that they compute, and drop dead kernels.

    Buffers that keep state between runs (they have initial contents and are written) stay as they are.

    Parameters
    ----------
    program : ProgramIR
    origins : sequence
        One value per call; it stays with its call.
    """
    fixed = _foldable(program, [c.accesses() for c in program.calls])
    contents: dict[int, Array] = {
        n: b.initial for n, b in enumerate(program.buffers) if b.role == "weight" and b.initial is not None
    }
    versions: dict[int, int] = {}
    prepared: dict[int, int] = {}
    several = False
    buffers = list(program.buffers)
    calls: list[KernelCall] = []
    kept: list[Any] = []
    for n, call in enumerate(program.calls):
        if n in fixed:
            slots = call.slots
            given = {slot: contents[number] for slot, number in slots.items() if number in contents}
            for slot, result in evaluate(call.kernel, given).items():
                contents[slots[slot]] = result
                several = several or slots[slot] in versions
                versions.pop(slots[slot], None)
            continue
        renamed = []
        for number in call.buffers:
            if number in contents and program.buffers[number].role != "weight":
                if number not in versions:
                    old = program.buffers[number]
                    buffers.append(ProgramBuffer(old.name, old.dtype, old.shape, "weight", contents[number]))
                    versions[number] = prepared[number] = len(buffers) - 1
                number = versions[number]
            renamed.append(number)
        calls.append(replace(call, buffers=tuple(renamed)))
        kept.append(origins[n])
    folded, left, places = _without_dead(replace(program, buffers=tuple(buffers), calls=tuple(calls)), kept)
    folding = [call for n, call in enumerate(program.calls) if n in fixed]
    if several:
        read = {b for call in folding for b in call.accesses()[0]}
        names = frozenset(program.buffers[n].name for n in read if program.buffers[n].role == "weight")
        return FoldedProgram(folded, left, frozen=names)
    names_of = {old: folded.buffers[places[new]].name for old, new in prepared.items() if new in places}
    return FoldedProgram(folded, left, _preparation(program, folding, names_of))


def _preparation(
    program: ProgramIR, folding: Sequence[KernelCall], names: dict[int, str]
) -> ProgramIR | None:
    """Program of the kernels that were folded; `names` are those of their results that are left."""
    if not names:
        return None
    used = sorted({b for call in folding for b in call.buffers} | set(names))
    place = {old: new for new, old in enumerate(used)}
    buffers = tuple(
        replace(program.buffers[n], name=names[n], role="output") if n in names else program.buffers[n]
        for n in used
    )
    taken = {b.name for b in buffers if b.role == "output"}
    buffers = tuple(
        replace(b, name=f"{b.name}_before") if b.role != "output" and b.name in taken else b for b in buffers
    )
    calls = tuple(replace(call, buffers=tuple(place[b] for b in call.buffers)) for call in folding)
    return ProgramIR(f"{program.name}_weights", buffers, calls, tuple(place[n] for n in names))


def _foldable(program: ProgramIR, found: Sequence[tuple[set[int], set[int]]]) -> set[int]:
    """Calls whose results depend on no input, variable or state, on buffers that only such calls write."""
    moving = {
        n
        for n, b in enumerate(program.buffers)
        if b.role in ("input", "output") or (b.initial is not None and b.role != "weight")
    }
    moving |= {n for _, writes in found for n in writes if program.buffers[n].initial is not None}
    candidates = {n for n, call in enumerate(program.calls) if not call.kernel.variables}
    while True:
        left = {n for n in candidates if not (found[n][0] | found[n][1]) & moving}
        touched = {b for n, (_, writes) in enumerate(found) if n not in left for b in writes}
        if left == candidates and touched <= moving:
            return left
        candidates, moving = left, moving | touched


def _without_dead(
    program: ProgramIR, origins: Sequence[Any]
) -> tuple[ProgramIR, tuple[Any, ...], dict[int, int]]:
    live = set(program.outputs) | {
        n for n, b in enumerate(program.buffers) if b.initial is not None and b.role != "weight"
    }
    used: list[int] = []
    for n in range(len(program.calls) - 1, -1, -1):
        reads, writes = program.calls[n].accesses()
        if writes & live:
            used.insert(0, n)
            live |= reads
    named = {b for n in used for b in program.calls[n].buffers} | set(program.outputs)
    wanted = [n for n, b in enumerate(program.buffers) if n in named or b.role == "input"]
    number = {old: new for new, old in enumerate(wanted)}
    calls = tuple(
        replace(program.calls[n], buffers=tuple(number[b] for b in program.calls[n].buffers)) for n in used
    )
    variables = {v.name: v for c in calls for v in c.kernel.variables}
    folded = ProgramIR(
        program.name,
        tuple(_unique_names(program.buffers[n] for n in wanted)),
        calls,
        tuple(number[n] for n in program.outputs),
        tuple(v for v in program.variables if v.name in variables),
    )
    return folded, tuple(origins[n] for n in used), number


def _unique_names(buffers: Any) -> Any:
    taken: set[str] = set()
    for buffer in buffers:
        name, n = buffer.name, 1
        while name in taken:
            name, n = f"{buffer.name}_{n}", n + 1
        taken.add(name)
        yield buffer if name == buffer.name else replace(buffer, name=name)
