"""A memory of a design, as planned."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy.typing as npt
from amaranth import unsigned
from amaranth.lib.memory import MemoryData

from tg2hdl_ir.dtype import DType
from tg2hdl_ir.errors import InputError
from tg2hdl_ir.plugins.descriptors import Area, FamilyDef
from tg2hdl_lower.memory.kind import ArrayStyle, choose_kind, kind_named
from tg2hdl_lower.memory.layout import Layout, joined_lanes
from tg2hdl_lower.memory.use import MemoryRole, MemoryUse
from tg2hdl_lower.plan.hardware_plan import HardwarePlan

__all__ = ["MemoryPlan", "Slot", "plan_memory"]

Slot = tuple[int, int]
"""Kernel of a design, and buffer of that kernel."""


@dataclass(frozen=True, eq=False)
class MemoryPlan:
    """A memory of a design.

    Parameters
    ----------
    kind : str
        Name of its `MemoryKind`.
    slots : tuple of (kernel, buffer)
        Who uses it.
    role : MemoryRole
    ports : tuple of int
        Numbers of its read ports; the host reads through port 0.
    read_latency : int
        Cycles from an address to its word.
    bank_words : int
        Words of each array that it is built of.
    area : Area
    style : ArrayStyle
    contents : ndarray, optional
        Elements at power on, in order.
    banks : int
        Copies of all words for runs that overlap; a power of two.
    routes : tuple of (slot, int, int)
        Read ports of kernels that are not the memory's port of the same number: slot, its port, and that of the memory.
    """

    name: str
    dtype: DType
    layout: Layout
    kind: str
    slots: tuple[Slot, ...]
    role: MemoryRole
    ports: tuple[int, ...]
    read_latency: int
    bank_words: int
    area: Area
    style: ArrayStyle
    contents: npt.NDArray[Any] | None = None
    routes: tuple[tuple[Slot, int, int], ...] = ()
    banks: int = 1

    def port_of(self, slot: Slot, port: int) -> int:
        """Read port that serves a kernel's read port."""
        return next((to for user, number, to in self.routes if (user, number) == (slot, port)), port)

    @property
    def use(self) -> MemoryUse:
        """Size and role, without its banks."""
        return MemoryUse(self.layout.words, self.word_width, self.role, self.read_latency)

    def with_ports(
        self, ports: tuple[int, ...], routes: tuple[tuple[Slot, int, int], ...], family: FamilyDef
    ) -> MemoryPlan:
        """The memory with other read ports, at their cost."""
        kind = kind_named(self.kind)
        area, style = kind.area(self.use, family, len(ports)), kind.style(self.use, len(ports))
        return replace(self, ports=ports, routes=routes, area=area, style=style)

    @property
    def word_width(self) -> int:
        """Bits of a word."""
        return self.layout.lanes * self.dtype.bit_width

    @property
    def depth(self) -> int:
        """Words of all banks."""
        if self.banks == 1 or self.layout.words == 1:
            return self.banks * self.layout.words
        return self.banks << self.layout.address_width

    def words(self) -> list[int]:
        """Words at power on; none where there are no contents, which means zeros."""
        if self.contents is None:
            return []
        packed = self.layout.pack(self.contents, self.dtype)
        if packed.shape[1] == 1:
            return list(packed[:, 0].tolist())
        return joined_lanes(packed, self.dtype.bit_width)

    def data(self) -> MemoryData:
        """Words of the memory at power on."""
        return MemoryData(shape=unsigned(self.word_width), depth=self.depth, init=self.words())

    def format(self) -> str:
        """One line."""
        role = self.role
        users = [f"k{k}.{b}" for k, b in self.slots]
        users += ["host writes"] * role.host_writes + ["host reads"] * role.host_reads
        banks = f" in each of {self.banks} banks" if self.banks > 1 else ""
        initial = ", initial contents" if self.contents is not None else ""
        return (
            f"{self.name}: {self.dtype} {self.layout}, {self.kind}, {self.layout.words} words of "
            f"{self.word_width} bits{banks}, {len(self.ports)} read ports, latency {self.read_latency}, "
            f"{self.style}{initial}; " + ", ".join(users)
        )


def plan_memory(
    name: str,
    plans: list[HardwarePlan],
    slots: tuple[Slot, ...],
    role: MemoryRole,
    family: FamilyDef,
    contents: npt.NDArray[Any] | None = None,
    array: MemoryRole | None = None,
) -> MemoryPlan:
    """Choose the kind of the memory that kernels share as these slots; they agree on its layout.

    Parameters
    ----------
    array : MemoryRole, optional
        Role of the whole array of which the memory is a region.
    """
    kernel, buffer = slots[0]
    plan = plans[kernel]
    dtype, layout = plan.storage[buffer], plan.layouts[buffer]
    use = MemoryUse.of(layout, dtype.bit_width, array or role, plan.read_latency)
    ports = {p.number for k, b in slots for p in plans[k].ports if p.reads and p.buffer == b}
    ports |= {0} if role.host_reads else set()
    name_of_kind = choose_kind(use, family)
    kind = kind_named(name_of_kind)
    latency = use.latency + kind.extra_latency(use, family)
    for k, b in slots:
        if plans[k].latencies[b] != latency and any(p.reads and p.buffer == b for p in plans[k].ports):
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
        kind.bank_words(use, family),
        kind.area(use, family, len(ports)),
        kind.style(use, len(ports)),
        contents,
    )
