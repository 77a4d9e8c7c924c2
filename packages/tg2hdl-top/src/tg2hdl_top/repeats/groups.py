"""Buffers that the runs of a core use in the same slot."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from tg2hdl_ir import IRBufLoad, IRBufStore, KernelCall, KernelIR, ProgramIR
from tg2hdl_lower.memory.use import MemoryRole

__all__ = ["BufferGroups", "buffer_groups", "runs_of", "unsuited_kernels"]


@dataclass(frozen=True)
class BufferGroups:
    """Groups of program buffers, each by its first buffer.

    Parameters
    ----------
    layouts : mapping of int to int
        Buffers that must have one layout: those of a slot.
    arrays : mapping of int to int
        Buffers that are regions of one array: those that a slot reads.  Buffers that it only writes may be separate
        memories: a write takes an enable for each, but a read would take a multiplexer of their words.
    """

    layouts: Mapping[int, int]
    arrays: Mapping[int, int]

    def regions(self) -> dict[int, list[int]]:
        """Buffers of each array that has several, in order."""
        found: dict[int, list[int]] = {}
        for buffer, array in sorted(self.arrays.items()):
            found.setdefault(array, []).append(buffer)
        return {array: buffers for array, buffers in found.items() if len(buffers) > 1}


_Same = Mapping[KernelIR, KernelIR]


def runs_of(program: ProgramIR, same: _Same | None = None) -> dict[KernelIR, list[KernelCall]]:
    """Calls of each core, by its first kernel; `same` as of `Repeats`.

    Parameters
    ----------
    program : ProgramIR
    same : _Same, optional
        As of `Repeats`.
    """
    runs: dict[KernelIR, list[KernelCall]] = {}
    for call in program.calls:
        runs.setdefault((same or {}).get(call.kernel, call.kernel), []).append(call)
    return runs


def buffer_groups(program: ProgramIR, same: _Same | None = None) -> BufferGroups:
    """Groups by all cores that run several times; `same` as of `Repeats`.

    Parameters
    ----------
    program : ProgramIR
    same : _Same, optional
        As of `Repeats`.
    """
    used = sorted({n for call in program.calls for n in call.buffers})
    layouts, arrays = _Union(used), _Union(used)
    for kernel, calls in runs_of(program, same).items():
        reads, _ = accessed_slots(kernel)
        for meta, buffers in zip(kernel.buffers, zip(*(c.buffers for c in calls), strict=True), strict=True):
            layouts.join(buffers)
            if meta.idx in reads:
                arrays.join(buffers)
    return BufferGroups(layouts.groups(), arrays.groups())


def unsuited_kernels(
    program: ProgramIR, roles: Mapping[int, MemoryRole], same: _Same | None = None
) -> list[tuple[KernelIR, str]]:
    """Kernels that cannot share a core, and why: of an array, the host and each kernel reach one region at a time.

    Parameters
    ----------
    program : ProgramIR
    roles : mapping of int to MemoryRole
        Of each buffer by number.
    same : _Same, optional
        As of `Repeats`.
    """
    groups = buffer_groups(program, same)
    found: dict[KernelIR, str] = {}
    for array, buffers in groups.regions().items():
        names = ", ".join(program.buffers[n].name for n in buffers)
        reason = ""
        if sum(roles[n].host_writes for n in buffers) > 1 or sum(roles[n].host_reads for n in buffers) > 1:
            reason = f"the host reaches several of {names}"
        elif len({(program.buffers[n].dtype, 0 if same else program.buffers[n].depth) for n in buffers}) > 1:
            reason = f"{names} are not of one type and size"
        elif any(_reaches_twice(call, set(buffers)) for call in program.calls):
            reason = f"a kernel reads or writes several of {names} at once"
        if not reason:
            continue
        for kernel, calls in runs_of(program, same).items():
            reads, _ = accessed_slots(kernel)
            slots = zip(kernel.buffers, zip(*(c.buffers for c in calls), strict=True), strict=True)
            if any(
                len(set(each)) > 1 and meta.idx in reads and groups.arrays[each[0]] == array
                for meta, each in slots
            ):
                found[kernel] = reason
    return list(found.items())


def accessed_slots(kernel: KernelIR) -> tuple[set[int], set[int]]:
    """Slots that a kernel reads, and that it writes."""
    statements = list(kernel.loop_tree.statements())
    reads = {s.buf_idx for s in statements if isinstance(s, IRBufLoad)}
    return reads, {s.buf_idx for s in statements if isinstance(s, IRBufStore)}


def _reaches_twice(call: KernelCall, buffers: Collection[int]) -> bool:
    slots = call.slots
    return any(sum(slots[idx] in buffers for idx in accessed) > 1 for accessed in accessed_slots(call.kernel))


class _Union:
    """Disjoint sets of buffers, each named by its smallest."""

    def __init__(self, buffers: Iterable[int]) -> None:
        self.parent = {n: n for n in buffers}

    def root(self, buffer: int) -> int:
        while self.parent[buffer] != buffer:
            buffer = self.parent[buffer]
        return buffer

    def join(self, buffers: Collection[int]) -> None:
        roots = {self.root(n) for n in buffers}
        for root in roots:
            self.parent[root] = min(roots)

    def groups(self) -> dict[int, int]:
        return {n: self.root(n) for n in self.parent}
