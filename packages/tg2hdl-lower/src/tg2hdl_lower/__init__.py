"""Compiles kernel IR to pipelined Amaranth hardware: schedule, datapath, control, memories."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tg2hdl_ir.lazy import lazy_names

if TYPE_CHECKING:
    from tg2hdl_lower.compat import ArithmeticLowering, CompiledKernel, build_control, create_counters
    from tg2hdl_lower.component import Component
    from tg2hdl_lower.decisions import Alternative, Cost, Decision
    from tg2hdl_lower.emit.core import KernelCore
    from tg2hdl_lower.families import family_named
    from tg2hdl_lower.follower import plan_follower
    from tg2hdl_lower.loop_orders import plan_orders
    from tg2hdl_lower.memory.array import MemoryArray
    from tg2hdl_lower.memory.host import HostBuffer, HostLoop, HostShape, variables_signature
    from tg2hdl_lower.memory.kind import MemoryKind, kind_named
    from tg2hdl_lower.memory.layout import Layout
    from tg2hdl_lower.memory.plan import MemoryPlan, Slot
    from tg2hdl_lower.memory.words import from_words, to_words
    from tg2hdl_lower.options import LowerOptions
    from tg2hdl_lower.plan.emission import ArithResult
    from tg2hdl_lower.plan.hardware_plan import HardwarePlan
    from tg2hdl_lower.plan_check import plan_faults
    from tg2hdl_lower.planner import plan_kernel
    from tg2hdl_lower.planning import PreparedKernel

__all__ = [
    "Alternative",
    "ArithResult",
    "ArithmeticLowering",
    "CompiledKernel",
    "Component",
    "Cost",
    "Decision",
    "HardwarePlan",
    "HostBuffer",
    "HostLoop",
    "HostShape",
    "KernelCore",
    "Layout",
    "LowerOptions",
    "MemoryArray",
    "MemoryKind",
    "MemoryPlan",
    "PreparedKernel",
    "Slot",
    "build_control",
    "create_counters",
    "family_named",
    "from_words",
    "kind_named",
    "plan_faults",
    "plan_follower",
    "plan_kernel",
    "plan_orders",
    "to_words",
    "variables_signature",
]

# Loaded on demand: the plugin module of this package must not bring in Amaranth.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        ".compat": ("ArithmeticLowering", "CompiledKernel", "build_control", "create_counters"),
        ".component": ("Component",),
        ".decisions": ("Alternative", "Cost", "Decision"),
        ".emit.core": ("KernelCore",),
        ".families": ("family_named",),
        ".follower": ("plan_follower",),
        ".loop_orders": ("plan_orders",),
        ".memory.array": ("MemoryArray",),
        ".memory.host": ("HostBuffer", "HostLoop", "HostShape", "variables_signature"),
        ".memory.kind": ("MemoryKind", "kind_named"),
        ".memory.layout": ("Layout",),
        ".memory.plan": ("MemoryPlan", "Slot"),
        ".memory.words": ("from_words", "to_words"),
        ".options": ("LowerOptions",),
        ".plan.emission": ("ArithResult",),
        ".plan.hardware_plan": ("HardwarePlan",),
        ".plan_check": ("plan_faults",),
        ".planner": ("plan_kernel",),
        ".planning": ("PreparedKernel",),
    },
)
