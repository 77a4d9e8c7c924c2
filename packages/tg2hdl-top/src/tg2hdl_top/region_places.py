"""Where buffers begin in a memory that they share."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

from tg2hdl_ir import AffineAnalysis, IRBufLoad, IRBufStore, KernelIR, LoopIR
from tg2hdl_lower import HardwarePlan, MemoryPlan
from tg2hdl_lower.plan import LeafPlan
from tg2hdl_lower.plan.accesses import Load, Store
from tg2hdl_top.design import Design
from tg2hdl_top.lifetimes import lifetimes, run_times
from tg2hdl_top.sequencer.step_values import steps_of

__all__ = ["RegionPlaces"]

_STRIDES = 8
"""Strides of the smallest buffer where addresses are added: fewer bits to add, and little is lost."""


class RegionPlaces:
    """Places of the buffers of a design; buffers that are needed at the same time have different words."""

    def __init__(self, design: Design) -> None:
        self.design = design
        self.lives, self.times = lifetimes(design), run_times(design)
        self._pair = cache(self._related)
        self._memories = {memory.name: memory for memory in design.buffers}

    def first_words(self, members: Sequence[MemoryPlan], *, aligned: bool) -> tuple[int, ...]:
        """First words of buffers: the largest buffer is placed first, each where nothing is that meets it.

        Parameters
        ----------
        members : sequence of MemoryPlan
            Buffers, in any order.
        aligned : bool
            Whether a buffer begins at a multiple of its size, rounded up to a power of two.
        """
        stride = 1 << (max(1, min(m.layout.words for m in members) // _STRIDES).bit_length() - 1)
        placed: list[tuple[int, int]] = []
        for number in sorted(range(len(members)), key=lambda n: -members[n].layout.words):
            words = members[number].layout.words
            step = 1 << (words - 1).bit_length() if aligned else stride
            taken = []
            for n, base in placed:
                meets, over = self._of(members[n].name, members[number].name)
                if meets:
                    taken.append((base, base + members[n].layout.words, over))
            bases = {
                0,
                *(-(-end // step) * step for _, end, _ in taken),
                *(b for b, _, over in taken if over),
            }
            base = min(
                base
                for base in bases
                if all(base + words <= b or end <= base or (over and base == b) for b, end, over in taken)
            )
            placed.append((number, base))
        return tuple(base for _, base in sorted(placed))

    def _of(self, one: str, other: str) -> tuple[bool, bool]:
        return self._pair(min(one, other), max(one, other))

    def _related(self, one: str, other: str) -> tuple[bool, bool]:
        """Whether two buffers are needed at the same time, and may have the same words nevertheless."""
        if not any(a.meets(b) for a in self.lives[one] for b in self.lives[other]):
            return False, False
        first, second = self._memories[one], self._memories[other]
        same = first.layout == second.layout and not self.design.sequencer.starts
        return True, same and (self._replaces(first, second) or self._replaces(second, first))

    def _replaces(self, old: MemoryPlan, new: MemoryPlan) -> bool:
        """Whether a kernel may write a buffer over the one that it reads last: each element after it has been read.

        Both are needed during the run of this kernel, and not together in any other one.
        """
        touching = {kernel for memory in (old, new) for kernel, _ in memory.slots}
        for before in self.lives[old.name]:
            for after in filter(before.meets, self.lives[new.name]):
                users = [k for k in touching if self.times[k].first == after.first]
                if before.end != after.first + 1 or len(users) != 1:
                    return False
                if not _writes_over(self.design.kernels[users[0]], users[0], old, new):
                    return False
        return True


def _writes_over(plan: HardwarePlan, call: int, old: MemoryPlan, new: MemoryPlan) -> bool:
    """Whether each iteration of a kernel reads an element of a buffer, and then writes that of another one."""
    reads, writes = ({buffer for kernel, buffer in m.slots if kernel == call} for m in (old, new))
    loads = [n for n in plan.live() if isinstance(n, Load) and n.buffer in reads]
    stores = [n for n in plan.live() if isinstance(n, Store) and n.buffer in writes]
    if not loads or not stores or not _same_elements(plan.kernel, reads, writes, old.layout.depth):
        return False
    accesses = {n.number for n in (*loads, *stores)}
    leaf = next((leaf for leaf in plan.leaves if accesses <= {*leaf.nodes}), None)
    if leaf is None or accesses & {*plan.run_constant}:
        return False
    read, written = ([_cycle(plan, n) for n in nodes] for nodes in (loads, stores))
    return max(read) < min(written) and not _meet(plan, leaf, loads, stores)


def _cycle(plan: HardwarePlan, access: Load | Store) -> int:
    """Cycle of an access after its step has begun."""
    return plan.placement(access.number).issue + plan.port_registers.delay(access)


def _meet(plan: HardwarePlan, leaf: LeafPlan, loads: Sequence[Load], stores: Sequence[Store]) -> bool:
    """Whether a word may be read in the cycle in which another step writes some of its lanes."""
    words = plan.layouts[stores[0].buffer].words
    places: list[npt.NDArray[np.int64]] = []
    for accesses in (loads, stores):
        found = []
        for steps in steps_of(plan, leaf):
            for access in accesses:
                address = steps.of(access.address)
                if address is None:
                    return True
                found.append((steps.steps * plan.ii + _cycle(plan, access)) * words + address)
        places.append(np.concatenate(found))
    return bool(np.intersect1d(places[0], places[1]).size)


def _same_elements(kernel: KernelIR, reads: Collection[int], writes: Collection[int], elements: int) -> bool:
    """Whether each iteration of a kernel reads one element of some buffers, and writes the same one of others."""
    affine = AffineAnalysis()
    places = set()
    for loop, iterations, access in _accesses(kernel.loop_tree):
        if access.buf_idx in (*reads, *writes):
            if access.buf_idx not in (writes if isinstance(access, IRBufStore) else reads):
                return False
            places.add((id(loop), iterations, affine.of(access.addr)))
    if len(places) != 1:
        return False
    ((_, iterations, address),) = places
    return address is not None and iterations == elements


def _accesses(loop: LoopIR, outer: int = 1) -> Iterator[tuple[LoopIR, int, IRBufLoad | IRBufStore]]:
    """Loads and stores with the level that they are in, and how often it is run."""
    iterations = outer * (loop.bound if isinstance(loop.bound, int) else 0)
    for item in loop.items:
        if isinstance(item, LoopIR):
            yield from _accesses(item, iterations)
        elif isinstance(item, (IRBufLoad, IRBufStore)):
            yield loop, iterations, item
