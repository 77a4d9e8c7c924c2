"""Placement: lanes of each kernel and the layout of each shared buffer."""

from __future__ import annotations

from tg2hdl_ir.program import ProgramIR
from tg2hdl_lower import HardwarePlan, plan_kernel
from tg2hdl_top.options import CompileOptions

__all__ = ["place_program"]


def place_program(program: ProgramIR, options: CompileOptions) -> list[HardwarePlan]:
    """Plan every kernel call of a program."""
    return [plan_kernel(call.kernel, options) for call in program.calls]
