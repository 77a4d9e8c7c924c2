"""Kernels of a program that run on one core, and the consequences for its buffers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tg2hdl_ir import DType, KernelIR, ProgramIR
from tg2hdl_ir.analysis.ranges import bits_for
from tg2hdl_ir.passes.common_kernels import bind_values
from tg2hdl_ir.passes.instrument import ir_pass
from tg2hdl_lower.memory.array import union_of_roles
from tg2hdl_lower.memory.use import MemoryRole
from tg2hdl_top.element_types import element_types
from tg2hdl_top.options import CompileOptions
from tg2hdl_top.repeats.groups import BufferGroups, buffer_groups, runs_of, unsuited_kernels
from tg2hdl_top.repeats.reuse import with_reused_temporaries
from tg2hdl_top.roles import buffer_roles

__all__ = ["Repeats", "find_repeats"]


@dataclass(frozen=True)
class Repeats:
    """A program whose calls of one kernel run on one core.

    Parameters
    ----------
    program : ProgramIR
    groups : BufferGroups
    storage : mapping of int to DType
        Element type of each buffer.
    same : mapping of KernelIR to KernelIR
        Kernels that run on the core of another one, whose plan has the same shape.
    """

    program: ProgramIR
    groups: BufferGroups
    storage: Mapping[int, DType]
    same: Mapping[KernelIR, KernelIR] = field(default_factory=dict)

    @property
    def cores(self) -> tuple[int, ...]:
        """Core of each call, numbered in the order of their first runs."""
        numbers: dict[KernelIR, int] = {}
        first = [self.same.get(call.kernel, call.kernel) for call in self.program.calls]
        return tuple(numbers.setdefault(kernel, len(numbers)) for kernel in first)

    @property
    def repeated(self) -> bool:
        """Whether a core runs several times."""
        return len(set(self.cores)) < len(self.cores)

    def first_runs(self) -> ProgramIR:
        """One call of each core, on the first of the buffers that must have one layout."""
        calls = [
            replace(runs[0], buffers=tuple(self.groups.layouts[n] for n in runs[0].buffers))
            for runs in runs_of(self.program).values()
        ]
        return replace(self.program, calls=tuple(calls))

    def slot_roles(
        self, roles: Mapping[int, MemoryRole], *, arrays: bool = True
    ) -> list[dict[int, MemoryRole]]:
        """Role of each slot of each core, given those of the buffers; in arrays, or each in its own memory.

        Parameters
        ----------
        roles : mapping of int to MemoryRole
            Of each buffer by number.
        arrays : bool, default True
            Whether the buffers of a slot are regions of one array.
        """
        whole = dict(roles)
        for buffers in self.groups.regions().values() if arrays else ():
            union = union_of_roles([roles[n] for n in buffers])
            whole |= dict.fromkeys(buffers, union)
        found = []
        for kernel, calls in runs_of(self.program).items():
            mine = {}
            slots = zip(kernel.buffers, zip(*(c.buffers for c in calls), strict=True), strict=True)
            for meta, each in slots:
                distinct = [whole[n] for n in dict.fromkeys(each)]
                mine[meta.idx] = replace(union_of_roles(distinct), regions=distinct[0].regions)
            found.append(mine)
        return found


def find_repeats(program: ProgramIR, options: CompileOptions) -> Repeats:
    """Decide which calls of one kernel run on one core; the others have kernels of their own.

    Parameters
    ----------
    program : ProgramIR
        Canonical kernels; equal ones are one object.
    """
    roles = buffer_roles(program, options)
    while unsuited := [kernel for kernel, _ in unsuited_kernels(program, roles)]:
        program = separated(program, unsuited)
    groups = buffer_groups(program)
    storage = _group_types(element_types(program, roles), groups)
    program = with_reused_temporaries(program, groups, storage)
    return Repeats(program, buffer_groups(program), storage)


@ir_pass("separate-kernels")
def separated(program: ProgramIR, kernels: list[KernelIR]) -> ProgramIR:
    """The program in which each call of these kernels has a kernel of its own."""
    calls = [
        replace(call, kernel=replace(call.kernel)) if call.kernel in kernels else call
        for call in program.calls
    ]
    calls = [
        bind_values(new) if old.kernel in kernels else new
        for old, new in zip(program.calls, calls, strict=True)
    ]
    return replace(program, calls=tuple(calls))


def _group_types(storage: dict[int, DType], groups: BufferGroups) -> dict[int, DType]:
    """One element type for all buffers of a layout: the narrowest that has all their values."""
    members: dict[int, list[int]] = {}
    for buffer, group in groups.layouts.items():
        members.setdefault(group, []).append(buffer)
    found = dict(storage)
    for buffers in members.values():
        types = {storage[n] for n in buffers}
        if len(types) > 1:
            # Only integers are narrowed.
            low, high = min(t.min_value for t in types), max(t.max_value for t in types)
            found |= dict.fromkeys(buffers, DType.from_width(*bits_for((low, high))))
    return found
