"""Compile tinygrad's schedule of a tensor: each kernel separately, or all as one design in its order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tg2hdl_backend.tinygrad_adapter.buffer_info import BufferInfo
from tg2hdl_backend.tinygrad_adapter.schedule import program_of_schedule
from tg2hdl_ir import InputError, ProgramIR
from tg2hdl_lower import CompiledKernel
from tg2hdl_top import CompileOptions, Design, TopModule, compile_program

__all__ = ["KernelSpec", "compile_model", "compile_top_module", "count_cycles_from_schedule", "ordered_calls"]


@dataclass(frozen=True, eq=False)
class KernelSpec:
    """A compiled kernel of a model.

    Parameters
    ----------
    kernel : CompiledKernel
    uops : tuple of UOp
        Linearized; empty for a copy.
    buf_infos : list of BufferInfo
    buf_map : dict of int to int
        Buffer of the whole model by slot: slots of two kernels with the same number are the same memory.
    initial : dict of int to ndarray
        Contents that tinygrad knows, by slot: weights and realized tensors.
    """

    kernel: CompiledKernel
    uops: tuple[Any, ...]
    buf_infos: list[BufferInfo]
    buf_map: dict[int, int]
    initial: dict[int, Any] = field(default_factory=dict)


def compile_model(
    schedule: Any, *, unroll_factor: int = 1, reduce_unroll_factor: int = 1
) -> list[KernelSpec]:
    """Compile each kernel of a schedule, in execution order.

    Parameters
    ----------
    schedule : Tensor, or the result of ``linear_with_vars``
    unroll_factor, reduce_unroll_factor : int
        Lanes over the innermost independent axis and over the innermost reduction axis.

    Raises
    ------
    InputError
        For something that is not a schedule, or kernels that wait for each other.
    UnsupportedError
        For an op or dtype without hardware.
    """
    design, initial, uops, _ = _design(schedule, _options(unroll_factor, reduce_unroll_factor))
    return _specs(design, initial, uops)


def compile_top_module(
    schedule: Any, *, unroll_factor: int = 1, reduce_unroll_factor: int = 1
) -> tuple[TopModule, list[tuple[int, int, int, int]], list[KernelSpec]]:
    """Compile a schedule to one design that runs its kernels in dependency order on shared memories.

    Parameters
    ----------
    schedule : Tensor, or the result of ``linear_with_vars``
    unroll_factor, reduce_unroll_factor : int
        As in `CompileOptions`.

    Returns
    -------
    top : TopModule
    connections : list of (src_kernel, src_buf, dst_kernel, dst_buf)
        Slots that are the same buffer.
    kernel_specs : list of KernelSpec
    """
    design, initial, uops, _ = _design(schedule, _options(unroll_factor, reduce_unroll_factor))
    specs = _specs(design, initial, uops)
    return TopModule(design), _connections(specs), specs


def count_cycles_from_schedule(schedule: Any) -> int:
    """Clock cycles of a schedule from start to done, without simulation; exact."""
    design, _, _, var_vals = _design(schedule, CompileOptions())
    return design.predicted_cycles(var_vals)


def _design(
    schedule: Any, options: CompileOptions
) -> tuple[Design, tuple[Any, ...], tuple[tuple[Any, ...], ...], dict[str, int]]:
    """Design into which the host loads all that no kernel produces, contents, UOps of each kernel, and variables."""
    built, var_vals = program_of_schedule(schedule)
    program, uops = ordered_calls(built.program, built.uops)
    written = set().union(*(call.accesses()[1] for call in program.calls))
    initial = tuple(b.initial for b in program.buffers)
    buffers = tuple(
        b if b.initial is None else replace(b, role="input", initial=b.initial if n in written else None)
        for n, b in enumerate(program.buffers)
    )
    last = program.calls[-1]
    output = next(last.slots[meta.idx] for meta in last.kernel.buffers if meta.is_output)
    program = replace(program, buffers=buffers, outputs=(output,))
    return compile_program(program, replace(options, cut_kernels=False)), initial, uops, var_vals


def _options(unroll_factor: int, reduce_unroll_factor: int) -> CompileOptions:
    return CompileOptions(unroll_factor=unroll_factor, reduce_unroll_factor=reduce_unroll_factor)


def _specs(design: Design, contents: tuple[Any, ...], uops: tuple[tuple[Any, ...], ...]) -> list[KernelSpec]:
    specs = []
    for call, plan, origin in zip(design.program.calls, design.kernels, uops, strict=True):
        infos = [BufferInfo.from_meta(m) for m in call.kernel.buffers]
        buf_map = call.slots
        initial = {slot: array for slot, number in buf_map.items() if (array := contents[number]) is not None}
        specs.append(KernelSpec(CompiledKernel(plan, infos), origin, infos, buf_map, initial))
    return specs


def _connections(specs: list[KernelSpec]) -> list[tuple[int, int, int, int]]:
    source: dict[int, tuple[int, int]] = {}
    found = []
    for number, spec in enumerate(specs):
        for slot, buffer in spec.buf_map.items():
            if buffer in source:
                found.append((*source[buffer], number, slot))
            else:
                source[buffer] = (number, slot)
        for slot in _written_slots(spec):
            source[spec.buf_map[slot]] = (number, slot)
    return found


def _written_slots(spec: KernelSpec) -> list[int]:
    return [info.idx for info in spec.buf_infos if info.is_output]


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
