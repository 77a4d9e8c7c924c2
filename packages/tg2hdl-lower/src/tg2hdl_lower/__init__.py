"""Compiles kernel IR to pipelined Amaranth hardware: schedule, datapath, control, memories."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

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
_OWNERS = {
    "ArithResult": "plan.emission",
    "ArithmeticLowering": "emit.arithmetic_lowering",
    "CompiledKernel": "emit.compiled_kernel",
    "HardwarePlan": "plan.hardware_plan",
    "KernelCore": "emit.core",
    "Layout": "memory.layout",
    "LowerOptions": "options",
    "build_control": "emit.control",
    "create_counters": "emit.control",
    "plan_kernel": "planner",
}


def __getattr__(name: str) -> Any:
    if name not in _OWNERS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_OWNERS[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
