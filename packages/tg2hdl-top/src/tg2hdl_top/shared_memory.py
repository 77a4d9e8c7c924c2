"""Buffers that kernels share: which they are, and what they hold at power on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt
from amaranth import unsigned
from amaranth.lib.memory import MemoryData

from tg2hdl_ir.dtype import DType
from tg2hdl_ir.errors import InputError
from tg2hdl_lower import HardwarePlan, Layout

__all__ = ["SharedMemory", "Slot", "memory_data", "read_first", "shared_memories"]

Slot = tuple[int, int]


@dataclass
class SharedMemory:
    """A buffer of the design and the kernel slots that use it.

    Parameters
    ----------
    slots : list of (kernel, buffer)
    writers : list of (kernel, buffer)
        The slots that store to it.
    contents : ndarray, optional
        Elements at power on, in order.
    """

    name: str
    dtype: DType
    layout: Layout
    slots: list[Slot]
    writers: list[Slot]
    contents: npt.NDArray[Any] | None = None
    external: bool = False
    output: bool = False
    data: MemoryData = field(init=False)

    @property
    def word_width(self) -> int:
        """Bits of a word."""
        return self.layout.lanes * self.dtype.bit_width


def shared_memories(
    plans: list[HardwarePlan], connections: Sequence[tuple[int, int, int, int]], names: Mapping[Slot, str]
) -> list[SharedMemory]:
    """Group the buffers of all kernels by the connections.

    Raises
    ------
    InputError
        When connected buffers differ, or a connection names none.
    """
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
    return [_shared(plans, slots, names, n) for n, slots in enumerate(groups.values())]


def _shared(
    plans: list[HardwarePlan], slots: list[Slot], names: Mapping[Slot, str], number: int
) -> SharedMemory:
    kernel, buffer = slots[0]
    meta, layout = plans[kernel].kernel.buffer(buffer), plans[kernel].layouts[buffer]
    storage = plans[kernel].storage[buffer]
    for k, b in slots[1:]:
        other = plans[k].kernel.buffer(b)
        found = (plans[k].storage[b], other.depth, plans[k].layouts[b])
        if found != (storage, meta.depth, layout):
            raise InputError(
                f"connected buffers differ: {storage}[{meta.depth}] {layout} of kernel {kernel} and "
                f"{plans[k].storage[b]}[{other.depth}] {plans[k].layouts[b]} of kernel {k}",
                hint="plan both kernels with the same layout for the buffer",
            )
    writers = [(k, b) for k, b in slots if plans[k].kernel.buffer(b).is_output]
    name = next((names[s] for s in slots if s in names), f"b{number}")
    return SharedMemory(name, storage, layout, slots, writers)


def read_first(memory: SharedMemory, plans: list[HardwarePlan]) -> bool:
    """Whether a kernel reads the buffer before any kernel has written it."""
    for kernel, buffer in sorted(memory.slots):
        if any(p.buffer == buffer and p.reads for p in plans[kernel].ports):
            return True
        if (kernel, buffer) in memory.writers:
            return False
    return False


def memory_data(memory: SharedMemory) -> MemoryData:
    """Words of the memory, with its contents at power on."""
    init: list[int] = []
    if memory.contents is not None:
        packed = memory.layout.pack(memory.contents, memory.dtype)
        width = memory.dtype.bit_width
        if packed.shape[1] == 1:
            init = [int(w) for w in packed[:, 0]]
        else:
            init = [sum(int(bits) << (n * width) for n, bits in enumerate(row)) for row in packed]
    return MemoryData(shape=unsigned(memory.word_width), depth=memory.layout.words, init=init)
