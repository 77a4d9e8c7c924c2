"""The rewrites of plugins, which come before everything else that is done to a kernel."""

from __future__ import annotations

from dataclasses import replace

from tg2hdl_ir.nodes import KernelIR
from tg2hdl_ir.plugins.descriptors import resolve
from tg2hdl_ir.plugins.registry import registry
from tg2hdl_ir.program import ProgramIR
from tg2hdl_ir.verifier import verify

__all__ = ["rewrite_kernel", "rewrite_program"]


def rewrite_kernel(kernel: KernelIR) -> KernelIR:
    """Run the passes of all plugins in order, verifying after each."""
    for definition in registry().passes():
        kernel = verify(resolve(definition.run)(kernel))
    return kernel


def rewrite_program(program: ProgramIR) -> ProgramIR:
    """Run the passes of all plugins on every kernel; calls of one kernel share the result."""
    if not registry().passes():
        return program
    kernels = {kernel: rewrite_kernel(kernel) for kernel in {c.kernel: None for c in program.calls}}
    return replace(program, calls=tuple(replace(c, kernel=kernels[c.kernel]) for c in program.calls))
