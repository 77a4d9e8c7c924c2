"""Compiles kernel IR to pipelined Amaranth hardware: schedule, datapath, control, memories."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tg2hdl_ir.lazy import lazy_names

if TYPE_CHECKING:
    from tg2hdl_lower.emit.arithmetic_lowering import ArithmeticLowering
    from tg2hdl_lower.emit.compiled_kernel import CompiledKernel
    from tg2hdl_lower.emit.control import build_control, create_counters
    from tg2hdl_lower.emit.core import KernelCore
    from tg2hdl_lower.memory.layout import Layout
    from tg2hdl_lower.options import LowerOptions
    from tg2hdl_lower.plan.emission import ArithResult
    from tg2hdl_lower.plan.hardware_plan import HardwarePlan
    from tg2hdl_lower.planner import plan_kernel

__all__ = [
    "ArithResult",
    "ArithmeticLowering",
    "CompiledKernel",
    "HardwarePlan",
    "KernelCore",
    "Layout",
    "LowerOptions",
    "build_control",
    "create_counters",
    "plan_kernel",
]

# Loaded on demand: the plugin module of this package must not bring in Amaranth.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        ".emit.arithmetic_lowering": ("ArithmeticLowering",),
        ".emit.compiled_kernel": ("CompiledKernel",),
        ".emit.control": ("build_control", "create_counters"),
        ".emit.core": ("KernelCore",),
        ".memory.layout": ("Layout",),
        ".options": ("LowerOptions",),
        ".plan.emission": ("ArithResult",),
        ".plan.hardware_plan": ("HardwarePlan",),
        ".planner": ("plan_kernel",),
    },
)
