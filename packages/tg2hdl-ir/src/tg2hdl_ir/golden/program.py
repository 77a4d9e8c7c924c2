"""Golden evaluation of a whole program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir.errors import InputError
from tg2hdl_ir.golden.kernel import evaluate
from tg2hdl_ir.program import KernelCall, ProgramBuffer, ProgramIR, check_contents

__all__ = ["CallRun", "evaluate_program", "initial_contents", "run_calls"]

Array = npt.NDArray[Any]


def evaluate_program(
    program: ProgramIR,
    inputs: Mapping[str, Array],
    variables: Mapping[str, int] | None = None,
    *,
    target: str = "generic",
    units: Mapping[str, str | Sequence[str]] | None = None,
    state: MutableMapping[str, Array] | None = None,
) -> dict[str, Array]:
    """Run all kernels of a program in software.

    Parameters
    ----------
    program : ProgramIR
    inputs : mapping of str to ndarray
        Contents by buffer name: every input, and any weight or state that is to differ from its initial contents.
        Shape and type are those of the buffer; a flat array is accepted too.
    variables, target, units :
        As in `evaluate`.
    state : mutable mapping of str to ndarray, optional
        Contents of memories from run to run, by buffer name: a buffer that is not an input starts with the contents
        that are there, and holds those that kernels write afterwards.  Without it every run starts as after power on.

    Returns
    -------
    dict of str to ndarray
        Contents, in their shape, of the outputs (the main one first) and of every buffer with initial contents that a
        kernel wrote.

    Raises
    ------
    InputError
        On an unknown name, a missing input, a wrong shape or type, or a buffer that is read without contents.
    SimulationError
        On an index outside its array of registers.
    """
    names = [b.name for b in program.buffers]
    for name in inputs:
        if name not in names:
            raise InputError(
                f"program {program.name} has no buffer named {name!r}",
                hint="its inputs are " + ", ".join(b.name for b in program.buffers if b.role == "input"),
            )
    contents = initial_contents(program, {**(state or {}), **inputs})
    written: set[int] = set()
    for run in run_calls(program, contents, variables, target=target, units=units):
        written |= run.written.keys()
    if state is not None:
        state.update({names[n]: contents[n] for n in written})
    kept = [n for n in sorted(written) if program.buffers[n].initial is not None]
    wanted = dict.fromkeys([*program.outputs, *kept])
    return {names[n]: contents[n].reshape(program.buffers[n].shape) for n in wanted}


@dataclass(frozen=True)
class CallRun:
    """One call of a program that has run.

    Parameters
    ----------
    before : dict of int to ndarray
        Contents by slot that the kernel was given.
    variables : dict of str to int
    results : dict of int to ndarray
        New contents by slot.
    """

    call: KernelCall
    before: dict[int, Array]
    variables: dict[str, int]
    results: dict[int, Array]

    @property
    def written(self) -> dict[int, Array]:
        """New contents by program buffer."""
        slots = self.call.slots
        return {slots[slot]: array for slot, array in self.results.items()}


def initial_contents(program: ProgramIR, known: Mapping[str, Array]) -> list[Array]:
    """Flat contents of all buffers before the first kernel, given some by name; errors as of `evaluate_program`.

    Parameters
    ----------
    program : ProgramIR
    known : mapping of str to ndarray
        Contents by buffer name, in place of the initial ones.
    """
    check_contents(program, known)
    return [_contents(program, buffer, known) for buffer in program.buffers]


def run_calls(
    program: ProgramIR,
    contents: list[Array],
    variables: Mapping[str, int] | None = None,
    *,
    target: str = "generic",
    units: Mapping[str, str | Sequence[str]] | None = None,
) -> Iterator[CallRun]:
    """Run the kernels of a program in software, one after the other; `contents` of its buffers change in place.

    Parameters
    ----------
    program : ProgramIR
    contents : list of ndarray
        Flat contents of all buffers, by number.
    variables, target, units
        As of `evaluate`.
    """
    for call in program.calls:
        slots = call.slots
        values = {
            v.name: (variables or {})[v.name] for v in call.host_variables if v.name in (variables or {})
        } | dict(call.values)
        before = {slot: contents[number] for slot, number in slots.items()}
        results = evaluate(call.kernel, before, values, target=target, units=units)
        for slot, array in results.items():
            contents[slots[slot]] = array
        yield CallRun(call, before, values, results)


def _contents(program: ProgramIR, buffer: ProgramBuffer, inputs: Mapping[str, Array]) -> Array:
    where = f"program {program.name}, buffer {buffer.name}"
    storage = buffer.dtype.numpy()
    if buffer.name not in inputs:
        if buffer.initial is not None:
            return np.asarray(buffer.initial).reshape(-1)
        if buffer.role == "input":
            raise InputError("an input has no contents", where=where, hint=f"pass {{{buffer.name!r}: array}}")
        return np.zeros(buffer.depth, dtype=storage)
    array = np.asarray(inputs[buffer.name])
    if array.dtype != storage:
        raise InputError(
            f"contents have type {array.dtype}, expected {storage}",
            where=where,
            hint=f"convert with .astype({str(storage)!r})",
        )
    if array.shape not in (buffer.shape, (buffer.depth,)):
        raise InputError(f"contents have shape {array.shape}, expected {buffer.shape}", where=where)
    return array.reshape(-1)
