"""Memories for tests of memories and of their cells."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tg2hdl_ir import DType
from tg2hdl_lower import Layout, MemoryPlan, kind_named
from tg2hdl_lower.families import GENERIC
from tg2hdl_lower.memory.kind import choose_kind
from tg2hdl_lower.memory.use import MemoryRole, MemoryUse

__all__ = ["rom"]


def rom(name: str, width: int, words: int, ports: int, written: bool = False) -> MemoryPlan:
    """A memory with random words at power on; read-only unless kernels write it."""
    dtype, role = DType.from_width(2, False), MemoryRole(written, False, False, False)
    use = MemoryUse(words, width, role, 2)
    chosen = choose_kind(use, GENERIC)
    kind, layout = kind_named(chosen), Layout((words, width // 2), (1, width // 2))
    use = replace(use, latency=2 + kind.extra_latency(use, GENERIC))
    contents = np.random.default_rng(words).integers(0, 4, layout.depth).astype(dtype.numpy())
    planned = (
        kind.pieces(use, GENERIC, ports),
        kind.area(use, GENERIC, ports),
        kind.style(use, ports),
        contents,
    )
    return MemoryPlan(name, dtype, layout, chosen, (), role, tuple(range(ports)), use.latency, *planned)
