"""Kernel IR to pipelined Amaranth hardware: schedule, datapath, control, memories."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tg2hdl_lower.control import build_control, create_counters
    from tg2hdl_lower.core import CompiledKernel, KernelCore
    from tg2hdl_lower.datapath import ArithmeticLowering, ArithResult
    from tg2hdl_lower.layout import Layout
    from tg2hdl_lower.options import LowerOptions
    from tg2hdl_lower.plan import HardwarePlan
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
    "ArithResult": "datapath",
    "ArithmeticLowering": "datapath",
    "CompiledKernel": "core",
    "HardwarePlan": "plan",
    "KernelCore": "core",
    "Layout": "layout",
    "LowerOptions": "options",
    "build_control": "control",
    "create_counters": "control",
    "plan_kernel": "planner",
}


def __getattr__(name: str) -> Any:
    if name not in _OWNERS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_OWNERS[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
