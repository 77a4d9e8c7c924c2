"""Kernel IR to pipelined Amaranth hardware: schedule, datapath, control, memories."""

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
