"""From a program to a design: one plan per kernel call, one memory per buffer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir.errors import InputError
from tg2hdl_ir.nodes import KernelIR
from tg2hdl_ir.passes.hoist_weights import hoist_weights
from tg2hdl_ir.pipeline import canonicalize
from tg2hdl_ir.plugins.registry import registry
from tg2hdl_ir.program import ProgramBuffer, ProgramIR, check_contents
from tg2hdl_lower import HardwarePlan
from tg2hdl_top.cut_kernels import with_cut_kernels
from tg2hdl_top.options import CompileOptions
from tg2hdl_top.partial_sums import with_partial_sums
from tg2hdl_top.placement import place_program
from tg2hdl_top.top_module import SharedMemory, Slot, TopModule

__all__ = ["CompiledProgram", "compile_program"]


@dataclass(frozen=True, eq=False)
class CompiledProgram:
    """A program and its hardware.

    Parameters
    ----------
    plans : tuple of HardwarePlan
        One per kernel call, in execution order.
    program : ProgramIR
        What the hardware computes, bit for bit.
    slots : dict of int to (kernel, buffer)
        A kernel slot of each used program buffer.
    kernels : tuple of KernelIR
        One per kernel call, without lanes and turns.
    preparation : ProgramIR, optional
        Computes the weights that depend on other weights alone; its outputs are buffers of `program` by name.
    """

    program: ProgramIR
    options: CompileOptions
    plans: tuple[HardwarePlan, ...]
    top: TopModule
    slots: dict[int, Slot]
    kernels: tuple[KernelIR, ...]
    preparation: ProgramIR | None = None

    def predicted_cycles(self, variables: Mapping[str, int] | None = None) -> int:
        """Clock cycles from start to done."""
        return sum(self.top.predicted_cycles(variables))

    def memory(self, buffer: int) -> SharedMemory:
        """Memory of a program buffer."""
        return self.top.memory(self.slots[buffer])

    def loads(
        self, inputs: Mapping[str, npt.NDArray[Any]]
    ) -> list[tuple[SharedMemory, npt.NDArray[np.uint64]]]:
        """Words to write through the host ports before `start`: each memory with bit patterns (words, lanes).

        Raises
        ------
        InputError
            When an input is missing or has another size or dtype.
        """
        result = []
        for index, slot in self.slots.items():
            memory, buffer = self.top.memory(slot), self.program.buffers[index]
            if memory.external:
                array = _input(buffer, inputs)
                result.append((memory, memory.layout.pack(array, memory.dtype)))
        return result

    def load_cycles(self) -> int:
        """Clock cycles to write all inputs, one word of each memory after the other."""
        return sum(
            self.top.memory(s).layout.words for s in self.slots.values() if self.top.memory(s).external
        )


def _input(buffer: ProgramBuffer, inputs: Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[Any]:
    array = inputs.get(buffer.name, buffer.initial)
    if array is None:
        raise InputError(f"input {buffer.name!r} is missing", hint=f"give an array of shape {buffer.shape}")
    array = np.asarray(array)
    if array.size != buffer.depth:
        raise InputError(
            f"input {buffer.name!r} has shape {array.shape}, expected {buffer.shape}",
            hint="reshape it, or compile the model for this shape",
        )
    if array.dtype != buffer.dtype.numpy():
        raise InputError(
            f"input {buffer.name!r} has dtype {array.dtype}, expected {buffer.dtype}",
            hint=f"convert it with .astype({str(buffer.dtype.numpy())!r})",
        )
    return array.reshape(-1)


def compile_program(program: ProgramIR, options: CompileOptions | None = None) -> CompiledProgram:
    """Plan all kernels of a program and build its top level.

    Raises
    ------
    InputError
        When the program has no kernels, or reads a buffer that has no contents.
    UnsupportedError
        When a kernel cannot become hardware.
    """
    options = options or CompileOptions()
    registry().check_units(options.units)
    if not program.calls:
        raise InputError(
            f"program {program.name!r} has no kernels: its result does not depend on a computation",
            hint="return a computed tensor, not an input or a constant",
        )
    check_contents(program)
    program, preparation = hoist_weights(
        program, loadable=options.weights == "loadable", target=options.target, units=options.units
    )
    whole = _canonical(program)
    canonical = with_cut_kernels(whole, options)
    if len(canonical.calls) > len(whole.calls):
        program = canonical
    if options.float_order == "relaxed":
        program = canonical = with_partial_sums(canonical, options)
    plans = place_program(canonical, options)
    kernels = tuple(call.kernel for call in program.calls)
    program = _as_added(program, plans)
    uses: dict[int, list[Slot]] = {}
    for number, call in enumerate(program.calls):
        for meta, buffer in zip(call.kernel.buffers, call.buffers, strict=True):
            uses.setdefault(buffer, []).append((number, meta.idx))
    connections = [(*slots[0], *other) for slots in uses.values() for other in slots[1:]]
    slots = {buffer: found[0] for buffer, found in uses.items()}
    contents, external = {}, []
    for buffer, slot in slots.items():
        meta = program.buffers[buffer]
        if meta.initial is None:
            continue
        if meta.role == "weight" and options.weights == "loadable":
            external.append(slot)
        else:
            contents[slot] = meta.initial
    top = TopModule(
        plans,
        connections,
        contents=contents,
        outputs=[slots[b] for b in program.outputs if b in slots],
        external=[*external, *(slots[b] for b in slots if program.buffers[b].role == "input")],
        names={slot: _identifier(program.buffers[b].name) for b, slot in slots.items()},
        share_multipliers=options.share_multipliers,
    )
    return CompiledProgram(program, options, tuple(plans), top, slots, kernels, preparation)


def _canonical(program: ProgramIR) -> ProgramIR:
    calls = tuple(replace(call, kernel=canonicalize(call.kernel)) for call in program.calls)
    return replace(program, calls=calls)


def _as_added(program: ProgramIR, plans: list[HardwarePlan]) -> ProgramIR:
    """Program whose kernels add in the order of the hardware."""
    calls = tuple(
        replace(call, kernel=plan.kernel) if plan.regrouped else call
        for call, plan in zip(program.calls, plans, strict=True)
    )
    return replace(program, calls=calls)


def _identifier(name: str) -> str:
    clean = "".join(c if c.isalnum() and c.isascii() else "_" for c in name).strip("_") or "buffer"
    return clean if not clean[0].isdigit() else f"b{clean}"
