"""The functions of the reference: kernels and schedules of tinygrad, each compiled and simulated by itself.

All stand on `tg2hdl_top.compile_program` and on `Runner`, as `tg2hdl.compile` does, which new programs use.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_backend.bench import BenchResult, run_bench
from tg2hdl_backend.hdl_renderer import HDLRenderer
from tg2hdl_backend.runner import Runner
from tg2hdl_backend.tinygrad_adapter import (
    BufferInfo,
    analyze_buffers,
    format_uops,
    pretty_print_uops,
    uop_to_ir,
    uops_to_kernel_ir,
)
from tg2hdl_backend.tinygrad_adapter.schedule import program_of_schedule
from tg2hdl_ir import InputError, ProgramIR
from tg2hdl_lower import CompiledKernel, HardwarePlan
from tg2hdl_top import CompileOptions, Design, TopModule, compile_program, program_of_kernel
from tg2hdl_top.joining import join_kernels

__all__ = [
    "BenchResult",
    "BufferInfo",
    "HDLRenderer",
    "KernelSpec",
    "analyze_buffers",
    "compile_kernel",
    "compile_model",
    "compile_top_module",
    "count_cycles_from_schedule",
    "format_uops",
    "ordered_calls",
    "pretty_print_uops",
    "run_bench",
    "simulate_kernel",
    "simulate_top",
    "uop_to_ir",
    "uops_to_kernel_ir",
]

Slot = tuple[int, int]


def compile_kernel(
    uops: Sequence[Any], *, unroll_factor: int = 1, reduce_unroll_factor: int = 1
) -> CompiledKernel:
    """Compile linearized UOps to hardware with memories of its own.

    Parameters
    ----------
    uops : sequence of UOp
    unroll_factor, reduce_unroll_factor : int
        Lanes over the innermost independent axis and over the innermost reduction axis.

    Raises
    ------
    UnsupportedError
        For an op or dtype without hardware.
    """
    kernel, infos = uops_to_kernel_ir(uops)
    options = CompileOptions(
        unroll_factor=unroll_factor, reduce_unroll_factor=reduce_unroll_factor, cut_kernels=False
    )
    design = compile_program(program_of_kernel(kernel), options)
    return CompiledKernel(design.kernels[0], infos)


def simulate_kernel(
    kernel: CompiledKernel,
    input_data: Mapping[int, npt.NDArray[Any]],
    clock_period: float = 1e-8,
    *,
    variables: Mapping[str, int] | None = None,
    engine: str = "auto",
) -> tuple[npt.NDArray[Any], int, float]:
    """Simulate a kernel cycle by cycle.

    Parameters
    ----------
    kernel : CompiledKernel
    input_data : mapping of int to ndarray
        Contents of buffers by slot; others start with zeros.
    clock_period : float
        Period of the simulated clock (s); no result depends on it.
    variables : mapping of str to int, optional
        Values of the run-time variables.
    engine : str
        Name of a simulation engine, or ``auto``.

    Returns
    -------
    output : ndarray
        Flat contents of the first buffer that the kernel writes.
    cycles : int
        Clock cycles from start to done.
    wall_time : float
        Time that the simulation took (s).

    Raises
    ------
    InputError
        For a buffer that the kernel does not have, or contents that do not fit it.
    """
    if clock_period <= 0:
        raise InputError(f"clock_period is {clock_period} s", hint="give a positive time, e.g. 1e-8")
    plan = kernel.plan
    contents = {b.idx: np.zeros(b.depth, b.dtype.numpy()) for b in plan.kernel.buffers}
    for slot, array in input_data.items():
        contents[slot] = _checked(plan, slot, array)
    slots = [(0, idx) for idx in contents]
    design = join_kernels([plan], external=slots, names={slot: f"b{slot[1]}" for slot in slots})
    started = time.perf_counter()
    with Runner(design, engine, component=kernel) as runner:
        run = runner.run({f"b{idx}": array for idx, array in contents.items()}, variables)
    return run.outputs[0], run.compute, time.perf_counter() - started


def _checked(plan: HardwarePlan, slot: int, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if slot not in plan.layouts:
        raise InputError(
            f"kernel {plan.kernel.name} has no buffer {slot}",
            hint="its buffers are " + ", ".join(str(b.idx) for b in plan.kernel.buffers),
        )
    meta, array = plan.kernel.buffer(slot), np.asarray(array)
    if array.size != meta.depth or array.dtype != meta.dtype.numpy():
        raise InputError(
            f"buffer {slot} of kernel {plan.kernel.name} has {meta.depth} elements of {meta.dtype.numpy()}, "
            f"got {array.size} of {array.dtype}",
            hint="reshape or convert the array",
        )
    return array


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


def simulate_top(
    top: TopModule,
    input_data: Mapping[Slot, npt.NDArray[Any]],
    clock_period: float = 1e-8,
    *,
    kernel_specs: Sequence[KernelSpec] = (),
    variables: Mapping[str, int] | None = None,
    engine: str = "auto",
) -> tuple[npt.NDArray[Any], dict[str, Any], float]:
    """Load the inputs, run all kernels once and read the first output.

    Parameters
    ----------
    top : TopModule
    input_data : mapping of (kernel, buf) to ndarray
        Contents of every input that no kernel produces; one slot per memory is enough.
    clock_period : float
        Period of the simulated clock (s); no result depends on it.
    kernel_specs : sequence of KernelSpec
        Of `compile_top_module`: gives the contents that tinygrad knows (weights) where `input_data` has none.
    variables : mapping of str to int, optional
        Values of the run-time variables.
    engine : str
        Name of a simulation engine, or ``auto``.

    Returns
    -------
    output : ndarray
        Flat contents of the first output.
    cycle_counts : dict
        Clock cycles: ``load``, ``compute`` (start pulse to done pulse), ``readback``, ``total``, and
        ``states``, a dict with the cycles of each kernel.
    wall_s : float
        Time that the simulation took (s).

    Raises
    ------
    InputError
        For an input that is missing, unknown or unfit.
    """
    if clock_period <= 0:
        raise InputError(f"clock_period is {clock_period} s", hint="give a positive time, e.g. 1e-8")
    inputs = _inputs(top, input_data, kernel_specs)
    started = time.perf_counter()
    with Runner(top.design, engine, component=top) as runner:
        run = runner.run(inputs, variables)
    counts = {
        "load": run.load,
        "compute": run.compute,
        "readback": run.readback,
        "total": run.total,
        "states": {f"kernel{n}": cycles for n, cycles in enumerate(run.kernels)},
    }
    return run.outputs[0], counts, time.perf_counter() - started


def _inputs(
    top: TopModule, input_data: Mapping[Slot, npt.NDArray[Any]], specs: Sequence[KernelSpec]
) -> dict[str, npt.NDArray[Any]]:
    """Contents of the program's buffers by name."""
    design = top.design
    buffers = {
        slot: design.program.buffers[n]
        for n, memory in design.memories.items()
        if memory.role.host_writes
        for slot in memory.slots
    }
    found = {
        buffers[number, slot].name: array
        for number, spec in enumerate(specs)
        for slot, array in spec.initial.items()
    }
    for slot, array in input_data.items():
        if slot not in buffers:
            raise InputError(
                f"{slot} is not an input of the design",
                hint="inputs (kernel, buf): " + ", ".join(map(str, buffers)),
            )
        buffer, dtype = buffers[slot], buffers[slot].dtype.numpy()
        array = np.asarray(array)
        if array.size != buffer.depth or array.dtype != dtype:
            raise InputError(
                f"input {slot} has {buffer.depth} elements of {dtype}, got {array.size} of {array.dtype}",
                hint="reshape or convert the array",
            )
        found[buffer.name] = array
    missing = {buffer.name: slot for slot, buffer in reversed(buffers.items()) if buffer.name not in found}
    if missing:
        raise InputError(
            "no data for input " + ", ".join(str(slot) for slot in reversed(missing.values())),
            hint="pass input_data={(kernel, buf): array}, and kernel_specs=... for contents that tinygrad knows",
        )
    return found
