"""What a kernel knows of its memories: layout and element type of each buffer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tg2hdl_ir.analysis.ranges import Interval
from tg2hdl_ir.dtype import DType
from tg2hdl_lower.memory.layout import Layout

__all__ = ["Memories", "element_ranges", "extra_latency", "read_ports"]

SMALL_BITS = 2048
"""What may stay in LUT RAM; larger memories are block RAM."""

SHALLOW_WORDS = 16
"""What fits one row of LUT RAM, of whatever width."""

DEEPEST_BLOCK = 16384
"""Words of a block RAM of one bit; deeper memories have a choice of blocks behind their registers."""

BLOCK_BITS = 18432
"""A block RAM, of which a memory may have some copies."""

WIDE_BITS = 1024
"""Bits of a word from which the way of an address to its blocks takes a cycle of its own."""

SMALL_PORTS = 16
BLOCK_PORTS = 4
LARGE_PORTS = 2


@dataclass(frozen=True)
class Memories:
    """Layout and element type per buffer."""

    layouts: dict[int, Layout]
    storage: dict[int, DType]


def extra_latency(layout: Layout) -> int:
    """Cycles that a kernel's read takes longer than the read latency: a register on the way from many blocks."""
    return int(layout.words > DEEPEST_BLOCK)


def element_ranges(storage: Mapping[int, DType]) -> dict[int, Interval]:
    """Ranges of the integer elements that fit each storage type."""
    return {i: (t.min_value, t.max_value) for i, t in storage.items() if not t.is_float}


def read_ports(bits: int) -> int:
    """Read ports that a memory of this size may have: every port is a copy."""
    if bits <= SMALL_BITS:
        return SMALL_PORTS
    return BLOCK_PORTS if bits <= BLOCK_BITS else LARGE_PORTS
