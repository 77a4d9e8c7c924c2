"""A kernel's view of its memories: layout, element type and kind of each buffer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tg2hdl_ir import DType, FamilyDef, Interval
from tg2hdl_lower.families import GENERIC
from tg2hdl_lower.memory.kind import MemoryKind, choose_kind, kind_named
from tg2hdl_lower.memory.layout import Layout
from tg2hdl_lower.memory.use import MemoryRole, MemoryUse

__all__ = ["Memories", "element_ranges"]


@dataclass(frozen=True)
class Memories:
    """Layout and element type per buffer, and the facts that decide its kind.

    Parameters
    ----------
    roles : dict of int to MemoryRole
        Of buffers that others than this kernel and the host use.
    latency : int
        Cycles from an address to its word that the options require.
    """

    layouts: dict[int, Layout]
    storage: dict[int, DType]
    roles: Mapping[int, MemoryRole] = field(default_factory=dict)
    family: FamilyDef = GENERIC
    latency: int = 2

    def use(self, buffer: int) -> MemoryUse:
        """Size and role of a buffer's memory."""
        role = self.roles.get(buffer, MemoryRole())
        return MemoryUse.of(self.layouts[buffer], self.storage[buffer].bit_width, role, self.latency)

    def kind(self, buffer: int) -> MemoryKind:
        """Kind of a buffer's memory."""
        return kind_named(choose_kind(self.use(buffer), self.family))

    def read_ports(self, buffer: int) -> int:
        """Read ports that a buffer may have."""
        return self.kind(buffer).read_ports(self.use(buffer), self.family)

    def read_latency(self, buffer: int) -> int:
        """Cycles from an address to its word."""
        return self.latency + self.kind(buffer).extra_latency(self.use(buffer), self.family)


def element_ranges(storage: Mapping[int, DType]) -> dict[int, Interval]:
    """Ranges of the integer elements that fit each storage type."""
    return {i: (t.min_value, t.max_value) for i, t in storage.items() if not t.is_float}
