"""Joins kernels into one design: shared buffers, sequencing and host ports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tg2hdl_ir.lazy import lazy_names

if TYPE_CHECKING:
    from tg2hdl_lower import MemoryPlan
    from tg2hdl_top.compile import compile_program, program_of_kernel
    from tg2hdl_top.design import Design
    from tg2hdl_top.external.memory_model import MemoryModel
    from tg2hdl_top.external.sdram.model import SdramModel
    from tg2hdl_top.loop import Loop
    from tg2hdl_top.options import CompileOptions
    from tg2hdl_top.top_module import TopModule

__all__ = [
    "CompileOptions",
    "Design",
    "Loop",
    "MemoryModel",
    "MemoryPlan",
    "SdramModel",
    "TopModule",
    "compile_program",
    "program_of_kernel",
]

# Loaded on demand: the plugin module of this package must not bring in Amaranth.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        ".compile": ("compile_program", "program_of_kernel"),
        ".design": ("Design",),
        ".external.memory_model": ("MemoryModel",),
        ".external.sdram.model": ("SdramModel",),
        ".loop": ("Loop",),
        ".options": ("CompileOptions",),
        ".top_module": ("TopModule",),
        "tg2hdl_lower": ("MemoryPlan",),
    },
)
