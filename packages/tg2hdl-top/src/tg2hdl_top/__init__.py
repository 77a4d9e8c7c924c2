"""Joins kernels into one design: shared buffers, sequencing and host ports."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tg2hdl_lower.memory.plan import MemoryPlan
    from tg2hdl_top.compile import compile_program, program_of_kernel
    from tg2hdl_top.design import Design
    from tg2hdl_top.external.memory_model import MemoryModel
    from tg2hdl_top.external.sdram.model import SdramModel
    from tg2hdl_top.options import CompileOptions
    from tg2hdl_top.top_module import TopModule

__all__ = [
    "CompileOptions",
    "Design",
    "MemoryModel",
    "MemoryPlan",
    "SdramModel",
    "TopModule",
    "compile_program",
    "program_of_kernel",
]

# Loaded on demand: the plugin module of this package must not bring in Amaranth.
_OWNERS = {
    "CompileOptions": "tg2hdl_top.options",
    "Design": "tg2hdl_top.design",
    "MemoryModel": "tg2hdl_top.external.memory_model",
    "SdramModel": "tg2hdl_top.external.sdram.model",
    "MemoryPlan": "tg2hdl_lower.memory.plan",
    "TopModule": "tg2hdl_top.top_module",
    "compile_program": "tg2hdl_top.compile",
    "program_of_kernel": "tg2hdl_top.compile",
}


def __getattr__(name: str) -> Any:
    if name not in _OWNERS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_OWNERS[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
