"""Where a program is cut into parts that follow each other, and the parts as programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Any

from tg2hdl_backend import CapturedProgram
from tg2hdl_backend.tinygrad_adapter.capture import OutputSlot
from tg2hdl_backend.tinygrad_adapter.model_inputs import ProgramTensor
from tg2hdl_ir import KernelCall, ProgramIR, UnsupportedError
from tg2hdl_ir.errors import model_place

__all__ = ["BALANCE", "ModelCut", "choose_cuts", "cut_program", "possible_cuts"]

BALANCE = 1.1
"""Cycles of the longest part, as a ratio to those of the best balance, that are accepted for fewer bits."""


@dataclass(frozen=True)
class ModelCut:
    """A place between two kernels.

    Parameters
    ----------
    before : int
        Kernel calls before it.
    buffers : tuple of int
        Program buffers that the first side writes and the second one reads.
    bits : int
        Of these buffers.
    """

    before: int
    buffers: tuple[int, ...]
    bits: int


def possible_cuts(program: ProgramIR) -> tuple[list[ModelCut], str]:
    """Cuts through which only results of the first side go; and why the last other place is none.

    The first side has all inputs of the program, the second one all outputs, and state is on one side.
    """
    found, reason = [], "it has one kernel"
    accesses = [call.accesses() for call in program.calls]
    state, names = program.state_buffers(), [b.name for b in program.buffers]
    for before in range(1, len(program.calls)):
        sides = accesses[:before], accesses[before:]
        (reads, writes), (later_reads, later_writes) = (
            tuple(set().union(*(each[kind] for each in side)) for kind in (0, 1)) for side in sides
        )
        crossing = writes & later_reads
        place = f"before kernel {before}"
        inputs = [n for n in later_reads if program.buffers[n].role == "input" and n not in writes]
        if inputs:
            reason = f"{place} input {names[inputs[0]]!r} is still read"
        elif early := [n for n in program.outputs if n not in later_writes]:
            reason = f"{place} output {names[early[0]]!r} is written already"
        elif both := state & (reads | writes) & (later_reads | later_writes):
            reason = f"{place} state {names[min(both)]!r} is used on both sides"
        elif changed := crossing & later_writes:
            reason = f"{place} {names[min(changed)]!r} is written on both sides"
        else:
            buffers = tuple(sorted(crossing))
            sizes = (program.buffers[n].depth * program.buffers[n].dtype.bit_width for n in buffers)
            found.append(ModelCut(before, buffers, sum(sizes)))
    return found, reason


def choose_cuts(program: ProgramIR, cycles: Sequence[int], parts: int) -> list[ModelCut]:
    """The cuts with the fewest bits among those whose longest part is within `BALANCE` of the shortest possible.

    Parameters
    ----------
    program : ProgramIR
    cycles : sequence of int
        Of each kernel call.
    parts : int

    Raises
    ------
    UnsupportedError
        When there are not so many places for a cut.
    """
    cuts, reason = possible_cuts(program)
    ends = [*cuts, ModelCut(len(program.calls), (), 0)]

    @cache
    def best(end: int, left: int, limit: float) -> tuple[float, int, tuple[ModelCut, ...]] | None:
        """Longest part, bits and cuts of `left` parts that end at a place."""
        found = []
        here = ends[end]
        if left == 1:
            length = sum(cycles[: here.before])
            return (length, 0, ()) if length <= limit else None
        for start in range(end):
            cut = ends[start]
            length = sum(cycles[cut.before : here.before])
            # A value that passes a part unused would need another path.
            if length > limit or set(cut.buffers) & set(here.buffers):
                continue
            if (before := best(start, left - 1, limit)) is not None:
                found.append((max(before[0], length), before[1] + cut.bits, (*before[2], cut)))
        order = (lambda f: (f[1], f[0])) if limit < float("inf") else (lambda f: (f[0], f[1]))
        return min(found, key=order, default=None)

    balanced = best(len(ends) - 1, parts, float("inf"))
    if balanced is None:
        raise UnsupportedError(
            f"the model cannot be cut into {parts} parts: there are {len(cuts)} places for a cut",
            where=model_place(program.name),
            notes=(reason,) if reason else (),
            hint="ask for fewer parts, or move what later layers need through the layers before them",
        )
    chosen = best(len(ends) - 1, parts, BALANCE * balanced[0])
    assert chosen is not None, "the balanced cuts are within the limit"
    return list(chosen[2])


def cut_program(captured: CapturedProgram, cuts: Sequence[ModelCut]) -> list[CapturedProgram]:
    """The parts, each with the buffers that it uses; results of one are the inputs of the next, in their order.

    Parameters
    ----------
    captured : CapturedProgram
    cuts : sequence of ModelCut
        In order.
    """
    program = captured.program
    places = [0, *(cut.before for cut in cuts), len(program.calls)]
    carried = [(), *(cut.buffers for cut in cuts), ()]
    made = []
    for number, (first, last) in enumerate(pairwise(places)):
        calls = program.calls[first:last]
        given, found = carried[number], carried[number + 1]
        outputs = found or program.outputs
        used = sorted({n for call in calls for n in call.buffers} | set(outputs))
        place = {n: k for k, n in enumerate(used)}
        roles = {n: "input" for n in given} | {n: "output" for n in found}
        buffers = tuple(replace(program.buffers[n], role=roles.get(n, program.buffers[n].role)) for n in used)
        moved = tuple(
            KernelCall(call.kernel, tuple(place[n] for n in call.buffers), call.values) for call in calls
        )
        part = ProgramIR(
            f"{program.name}_part{number + 1}",
            buffers,
            moved,
            tuple(place[n] for n in outputs),
        )

        def tensors(numbers: Sequence[int], place: dict[int, int] = place) -> tuple[ProgramTensor, ...]:
            listed = (program.buffers[n] for n in numbers)
            return tuple(
                ProgramTensor(b.name, b.shape, b.dtype, place[n])
                for n, b in zip(numbers, listed, strict=True)
            )

        is_first, is_last = number == 0, number == len(cuts)
        kept = tuple(replace(t, buffer=place[t.buffer]) for t in captured.inputs if t.buffer in place)
        results = tuple(replace(t, buffer=place[t.buffer]) for t in captured.outputs) if is_last else ()
        made.append(
            CapturedProgram(
                part,
                kept if is_first else tensors(given),
                results if is_last else tensors(found),
                captured.kernel_uops[first:last],
                structure=captured.structure if is_last else _structure(len(found)),
            )
        )
    return made


def _structure(outputs: int) -> Any:
    """One array, or a tuple of them."""
    slots = tuple(map(OutputSlot, range(outputs)))
    return slots[0] if outputs == 1 else slots
