"""IR rewrites of plugins, applied to a whole program before it is planned."""

from __future__ import annotations

from dataclasses import replace

from tg2hdl_ir.nodes import KernelIR
from tg2hdl_ir.plugins.descriptors import PassDef, resolve
from tg2hdl_ir.plugins.registry import registry
from tg2hdl_ir.program import ProgramIR
from tg2hdl_ir.verifier import verify

__all__ = ["rewrite_program"]


def rewrite_program(program: ProgramIR) -> ProgramIR:
    """Run the rewrite passes of all plugins on every kernel, verifying after each."""
    passes = sorted((p for p in registry().passes() if p.stage == "rewrite"), key=lambda p: (p.order, p.name))
    if not passes:
        return program
    done: dict[KernelIR, KernelIR] = {}
    for call in program.calls:
        if call.kernel not in done:
            done[call.kernel] = _rewrite(call.kernel, passes)
    return replace(program, calls=tuple(replace(c, kernel=done[c.kernel]) for c in program.calls))


def _rewrite(kernel: KernelIR, passes: list[PassDef]) -> KernelIR:
    for definition in passes:
        kernel = resolve(definition.run)(kernel)
        verify(kernel)
    return kernel
