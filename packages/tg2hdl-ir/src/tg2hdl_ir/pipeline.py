"""The rewrites that bring a kernel into the form that planning starts from, in order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tg2hdl_ir.nodes import KernelIR
from tg2hdl_ir.passes.alternatives import add_alternatives
from tg2hdl_ir.passes.guarded_loops import guard_loops
from tg2hdl_ir.passes.initial_registers import set_initial_registers
from tg2hdl_ir.passes.mulacc import expand_mulacc
from tg2hdl_ir.passes.signs import choose_signs
from tg2hdl_ir.passes.single_registers import drop_single_indices
from tg2hdl_ir.passes.split_loops import split_loops
from tg2hdl_ir.plugins.descriptors import resolve
from tg2hdl_ir.plugins.registry import registry
from tg2hdl_ir.program import ProgramIR
from tg2hdl_ir.verifier import verify

__all__ = ["CANONICAL", "IRPass", "canonicalize", "rewrite_kernel", "rewrite_program"]


@dataclass(frozen=True)
class IRPass:
    """A rewrite that keeps every result of a kernel."""

    name: str
    description: str
    run: Callable[[KernelIR], KernelIR]


CANONICAL: tuple[IRPass, ...] = (
    IRPass("expand-mulacc", "mulacc becomes a multiplication and an addition", expand_mulacc),
    IRPass("choose-signs", "products with a sign become a choice of both signs", choose_signs),
    IRPass("add-alternatives", "gated loads without an alternative get zero", add_alternatives),
    IRPass("drop-single-indices", "arrays of one register become registers", drop_single_indices),
    IRPass("guard-loops", "loops that take more steps than they run are masked", guard_loops),
    IRPass("set-initial-registers", "registers that are read first start at zero", set_initial_registers),
    IRPass("split-loops", "counters that are divided by constants become two nested loops", split_loops),
)


def canonicalize(kernel: KernelIR) -> KernelIR:
    """Apply all passes of the table."""
    for entry in CANONICAL:
        kernel = entry.run(kernel)
    return kernel


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
