"""The kind of a memory, with its ports and its cost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy.typing as npt

from tg2hdl_ir import FamilyDef, InputError
from tg2hdl_lower.memory.kind import choose_kind, kind_named
from tg2hdl_lower.memory.plan import MemoryPlan, Slot
from tg2hdl_lower.memory.use import MemoryRole, MemoryUse, ring_words
from tg2hdl_lower.plan.hardware_plan import HardwarePlan

__all__ = ["plan_memory", "with_kind", "with_ports", "with_ring"]


def plan_memory(
    name: str,
    plans: list[HardwarePlan],
    slots: tuple[Slot, ...],
    role: MemoryRole,
    family: FamilyDef,
    contents: npt.NDArray[Any] | None = None,
    array: MemoryRole | None = None,
    words: int = 0,
) -> MemoryPlan:
    """Choose the kind of the memory that kernels share as these slots; they agree on its layout.

    Parameters
    ----------
    array : MemoryRole, optional
        Role of the array, where the memory is a region of one.
    words : int
        Words of the array, where its regions have several sizes.
    """
    kernel, buffer = slots[0]
    plan = plans[kernel]
    dtype, layout = plan.storage[buffer], plan.layouts[buffer]
    use = MemoryUse.of(layout, dtype.bit_width, array or role, plan.read_latency)
    if words and _unplanned(use, plans, slots, family):
        # As many regions as large as this one would be a slower memory than the array is.
        use = replace(use, words=words)
    ports = {p.number for k, b in slots for p in plans[k].ports if p.reads and p.buffer == b}
    ports |= {0} if role.host_reads else set()
    name_of_kind = choose_kind(use, family)
    kind = kind_named(name_of_kind)
    latency = use.latency + kind.extra_latency(use, family)
    for k, b in _unplanned(use, plans, slots, family):
        raise InputError(
            f"memory {name!r} is of kind {name_of_kind!r} with a latency of {latency} cycles, "
            f"but kernel {k} was planned for {plans[k].latencies[b]}",
            hint="plan the kernels of a design together with compile_program, or pass roles= to plan_kernel",
        )
    return MemoryPlan(
        name,
        dtype,
        layout,
        name_of_kind,
        slots,
        role,
        tuple(sorted(ports)),
        latency,
        kind.pieces(use, family, len(ports)),
        kind.area(use, family, len(ports)),
        kind.style(use, len(ports)),
        contents,
        ring=ring_words(layout, role.spans),
    )


def _unplanned(
    use: MemoryUse, plans: list[HardwarePlan], slots: tuple[Slot, ...], family: FamilyDef
) -> list[Slot]:
    """Slots that are read by kernels which were planned for another latency."""
    latency = use.latency + kind_named(choose_kind(use, family)).extra_latency(use, family)
    return [
        (k, b)
        for k, b in slots
        if plans[k].latencies[b] != latency and any(p.reads and p.buffer == b for p in plans[k].ports)
    ]


def with_ring(memory: MemoryPlan, words: int, family: FamilyDef) -> MemoryPlan:
    """The memory as a ring of `words` words, a power of two, or with all (0); kernels are planned for its latency.

    Parameters
    ----------
    memory : MemoryPlan
    words : int
        A power of two; 0 for all words of the buffer.
    family : FamilyDef
    """
    ring = replace(memory, ring=words)
    return with_kind(ring, choose_kind(ring.use, family), family)


def with_kind(memory: MemoryPlan, name: str, family: FamilyDef) -> MemoryPlan:
    """The memory as one of this kind, with the same latency.

    Parameters
    ----------
    memory : MemoryPlan
    name : str
        Of a registered kind.
    family : FamilyDef
    """
    kind, ports = kind_named(name), len(memory.ports)
    return replace(
        memory,
        kind=name,
        pieces=kind.pieces(memory.use, family, ports),
        area=kind.area(memory.use, family, ports),
        style=kind.style(memory.use, ports),
    )


def with_ports(
    memory: MemoryPlan,
    ports: tuple[int, ...],
    routes: tuple[tuple[Slot, int, int], ...],
    family: FamilyDef,
) -> MemoryPlan:
    """The memory with other read ports, at their cost.

    Parameters
    ----------
    memory : MemoryPlan
    ports : tuple of int
        Numbers of the read ports; the host reads through port 0.
    routes : tuple of (Slot, int, int)
        As of `MemoryPlan`.
    family : FamilyDef
    """
    return with_kind(replace(memory, ports=ports, routes=routes), memory.kind, family)
