"""Compile what tinygrad schedules for a tensor: kernels by themselves, or one design."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tg2hdl_backend.execution_order import ordered_calls
from tg2hdl_backend.optional_use import may_stay_unused
from tg2hdl_backend.tinygrad_adapter.buffer_info import BufferInfo
from tg2hdl_backend.tinygrad_adapter.schedule import program_of_schedule
from tg2hdl_ir.pipeline import rewrite_program
from tg2hdl_ir.program import ProgramIR
from tg2hdl_lower import CompiledKernel
from tg2hdl_top import CompileOptions, TopModule
from tg2hdl_top.placement import place_program

__all__ = ["KernelSpec", "compile_model", "compile_top_module", "count_cycles_from_schedule"]


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
        For something that is no schedule, or kernels that wait for each other.
    UnsupportedError
        For an op or dtype without hardware.
    """
    program, uops, _ = _program(schedule)
    return _specs(program, uops, _options(unroll_factor, reduce_unroll_factor))


def compile_top_module(
    schedule: Any, *, unroll_factor: int = 1, reduce_unroll_factor: int = 1
) -> tuple[TopModule, list[tuple[int, int, int, int]], list[KernelSpec]]:
    """Compile a schedule to one design that runs its kernels in dependency order on shared memories.

    Returns
    -------
    top : TopModule
    connections : list of (src_kernel, src_buf, dst_kernel, dst_buf)
        Slots that are the same buffer.
    kernel_specs : list of KernelSpec
    """
    program, uops, _ = _program(schedule)
    specs = _specs(program, uops, _options(unroll_factor, reduce_unroll_factor))
    connections = _connections(specs)
    depths = {(k, info.idx): info.depth for k, spec in enumerate(specs) for info in spec.buf_infos}
    initial = {(k, slot): array for k, spec in enumerate(specs) for slot, array in spec.initial.items()}
    written = {b for spec in specs for b in _written(spec)}
    contents = {s: a for s, a in initial.items() if specs[s[0]].buf_map[s[1]] in written}
    top = TopModule(
        [s.kernel.plan for s in specs],
        connections,
        depths,
        contents=contents,
        external=sorted(contents),
    )
    return may_stay_unused(top), connections, specs


def count_cycles_from_schedule(schedule: Any) -> int:
    """Clock cycles of a schedule from start to done, without simulation; exact."""
    program, _, var_vals = _program(schedule)
    return sum(plan.cycles(var_vals) for plan in place_program(program, CompileOptions()))


def _program(schedule: Any) -> tuple[ProgramIR, tuple[tuple[Any, ...], ...], dict[str, int]]:
    built, var_vals = program_of_schedule(schedule)
    program, uops = ordered_calls(built.program, built.uops)
    return rewrite_program(program), uops, var_vals


def _options(unroll_factor: int, reduce_unroll_factor: int) -> CompileOptions:
    return CompileOptions(unroll_factor=unroll_factor, reduce_unroll_factor=reduce_unroll_factor)


def _specs(
    program: ProgramIR, uops: tuple[tuple[Any, ...], ...], options: CompileOptions
) -> list[KernelSpec]:
    specs = []
    for call, plan, origin in zip(program.calls, place_program(program, options), uops, strict=True):
        infos = [BufferInfo.from_meta(m) for m in call.kernel.buffers]
        buf_map = {m.idx: number for m, number in zip(call.kernel.buffers, call.buffers, strict=True)}
        initial = {
            slot: array
            for slot, number in buf_map.items()
            if (array := program.buffers[number].initial) is not None
        }
        kernel = may_stay_unused(CompiledKernel(plan, infos))
        specs.append(KernelSpec(kernel, origin, infos, buf_map, initial))
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


def _written(spec: KernelSpec) -> list[int]:
    return [spec.buf_map[slot] for slot in _written_slots(spec)]
