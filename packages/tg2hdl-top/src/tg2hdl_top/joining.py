"""Kernels joined by hand: connections between their buffers define a program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy.typing as npt

from tg2hdl_ir import InputError, KernelCall, ProgramBuffer, ProgramIR
from tg2hdl_lower import HardwarePlan, Slot
from tg2hdl_top.design import Design
from tg2hdl_top.design_program import design_program
from tg2hdl_top.options import CompileOptions
from tg2hdl_top.validation.validate import with_validated_plans

__all__ = ["join_kernels"]


def join_kernels(
    plans: Sequence[HardwarePlan],
    connections: Sequence[tuple[int, int, int, int]] = (),
    *,
    contents: Mapping[Slot, npt.NDArray[Any]] | None = None,
    outputs: Sequence[Slot] | None = None,
    external: Sequence[Slot] = (),
    names: Mapping[Slot, str] | None = None,
    options: CompileOptions | None = None,
) -> Design:
    """Design of planned kernels, whose slots are the same buffer where they are connected.

    Parameters
    ----------
    plans : sequence of HardwarePlan
        In execution order.
    connections : sequence of (src_kernel, src_buf, dst_kernel, dst_buf)
        Slots that are the same buffer.
    contents : mapping of (kernel, buf) to ndarray, optional
        Elements at power on.
    outputs : sequence of (kernel, buf), optional
        Buffers that the host reads; the output of the last kernel when absent.
    external : sequence of (kernel, buf), optional
        Buffers that the host writes besides those that no kernel produces and that have no contents.
    names : mapping of (kernel, buf) to str, optional
        Names of buffers.
    options : CompileOptions, optional
        Default options unless given.

    Raises
    ------
    InputError
        When kernels are missing, connected buffers differ, or a connection names an unknown one.
    ValidationError
        When a plan of `plan_kernel` does not compute its kernel's results, unless ``options.validate`` is ``"off"``.
    """
    if not plans:
        raise InputError("a design needs at least one kernel", hint="give at least one compiled kernel")
    groups = _groups(plans, connections)
    number_of = {slot: n for n, slots in enumerate(groups) for slot in slots}
    given = {number_of[slot]: array for slot, array in (contents or {}).items()}
    host = {number_of[slot] for slot in external}
    host |= {n for n, slots in enumerate(groups) if n not in given and _is_read_first(plans, slots)}
    buffers = []
    for number, slots in enumerate(groups):
        meta = plans[slots[0][0]].kernel.buffer(slots[0][1])
        name = next((names[s] for s in slots if names and s in names), f"b{number}")
        role = "input" if number in host else "temporary"
        buffers.append(ProgramBuffer(name, meta.dtype, (meta.depth,), role, given.get(number)))
    if outputs is None:
        last = len(plans) - 1
        outputs = [(last, next(b.idx for b in plans[last].kernel.buffers if b.is_output))]
    calls = tuple(
        KernelCall(plan.kernel, tuple(number_of[k, b.idx] for b in plan.kernel.buffers))
        for k, plan in enumerate(plans)
    )
    variables = tuple({v.name: v for plan in plans for v in plan.kernel.variables}.values())
    program = ProgramIR("top", tuple(buffers), calls, tuple(number_of[s] for s in outputs), variables)
    sources = [plan.source or plan.kernel for plan in plans]
    kept = [replace(plan, source=None) for plan in plans]
    design = design_program(program, options or CompileOptions(schedule="serial"), kept, sources)
    return with_validated_plans(design)


def _is_read_first(plans: Sequence[HardwarePlan], slots: Sequence[Slot]) -> bool:
    """Whether a kernel reads the buffer before any kernel has written it."""
    for kernel, buffer in slots:
        if any(p.buffer == buffer and p.reads for p in plans[kernel].ports):
            return True
        if plans[kernel].kernel.buffer(buffer).is_output:
            return False
    return False


def _groups(
    plans: Sequence[HardwarePlan], connections: Sequence[tuple[int, int, int, int]]
) -> list[list[Slot]]:
    """Slots of each buffer."""
    parent: dict[Slot, Slot] = {(k, b.idx): (k, b.idx) for k, p in enumerate(plans) for b in p.kernel.buffers}

    def root(slot: Slot) -> Slot:
        if slot not in parent:
            raise InputError(
                f"connection names buffer {slot[1]} of kernel {slot[0]}, which does not exist",
                hint=f"buffers: {sorted(parent)}",
            )
        while parent[slot] != slot:
            slot = parent[slot]
        return slot

    for src_kernel, src_buf, dst_kernel, dst_buf in connections:
        parent[root((dst_kernel, dst_buf))] = root((src_kernel, src_buf))
    groups: dict[Slot, list[Slot]] = {}
    for slot in parent:
        groups.setdefault(root(slot), []).append(slot)
    return list(groups.values())
