"""From a program to a design."""

from __future__ import annotations

from dataclasses import replace

from tg2hdl_ir import InputError, KernelCall, KernelIR, ProgramBuffer, ProgramIR, registry, verify
from tg2hdl_ir.passes.constant_channels import drop_constant_channels
from tg2hdl_ir.passes.fold_scales import fold_scales
from tg2hdl_ir.passes.hoist_weights import hoist_weights
from tg2hdl_ir.pipeline import canonicalize, rewrite_program
from tg2hdl_ir.program import check_contents
from tg2hdl_ir.turns import compiles
from tg2hdl_lower import Alternative, Decision
from tg2hdl_top.design import Design
from tg2hdl_top.memo import remembered
from tg2hdl_top.options import CompileOptions
from tg2hdl_top.search.search import Captured, best_design
from tg2hdl_top.validation.validate import validated

__all__ = ["compile_program", "program_of_kernel"]


@compiles
def compile_program(program: ProgramIR, options: CompileOptions | None = None) -> Design:
    """Rewrite, verify, canonicalize and place the kernels of a program, and decide about the design around them.

    Parameters
    ----------
    program : ProgramIR
    options : CompileOptions, optional
        Default options unless given.

    Raises
    ------
    InputError
        When the program has no kernels.
    InputError
        When `options.units` names an op or a unit that no plugin registers.
    UnsupportedError
        When a kernel cannot become hardware.
    ValidationError
        When results of the design and the program differ: a bug of the compiler or of a plugin's pass.
    """
    options = options or CompileOptions()
    if not isinstance(program, ProgramIR):
        raise InputError(
            f"compile_program takes a ProgramIR, not {type(program).__name__}",
            hint="tg2hdl.compile takes models",
        )
    registry().check_units(options.units)
    if not program.calls:
        raise InputError(
            f"program {program.name!r} has no kernels: its result does not depend on a computation",
            hint="return a computed tensor, not an input or a constant",
        )
    check_contents(program)
    return validated(program, options, _compiled)


def _compiled(program: ProgramIR, options: CompileOptions) -> Design:
    """The design of a program, not validated."""
    captured, whole = remembered(("captured", program), lambda: _prepared(program, options))
    return best_design(replace(captured, options=options), whole)


def _prepared(program: ProgramIR, options: CompileOptions) -> tuple[Captured, ProgramIR]:
    """The rewritten program, and the same with canonical kernels; both are the same for all budgets."""
    program = rewrite_program(program)
    for kernel in {call.kernel for call in program.calls}:
        verify(kernel)
    if options.fold_batchnorm:
        program = fold_scales(program)
    decisions: list[Decision] = []
    if options.weights != "loadable":
        program, gone, channels = drop_constant_channels(program)
        decisions += [_about_channels(program.name, gone, channels)] if gone else []
    program, preparation = hoist_weights(
        program, loadable=options.weights == "loadable", target=options.target, units=options.units
    )
    return Captured(program, preparation, options, tuple(decisions)), _canonical(program)


def _about_channels(name: str, gone: int, channels: int) -> Decision:
    every = Alternative("all channels", None, f"{channels:,} between kernels")
    fewer = Alternative("those that are needed", None, f"{gone:,} fewer, whose part of sums is in biases")
    why = "their values are the same in all runs, or nothing depends on them"
    return Decision("constant-channels", name, (every, fewer), 1, why, "program")


def program_of_kernel(kernel: KernelIR) -> ProgramIR:
    """Program of one kernel: every buffer is an input, and those that it writes are outputs too."""
    buffers = tuple(
        ProgramBuffer(b.name or f"b{b.idx}", b.dtype, (b.depth,), "input") for b in kernel.buffers
    )
    written = tuple(n for n, b in enumerate(kernel.buffers) if b.is_output)
    call = KernelCall(kernel, tuple(range(len(buffers))))
    return ProgramIR(kernel.name, buffers, (call,), written, kernel.variables)


def _canonical(program: ProgramIR) -> ProgramIR:
    calls = tuple(replace(call, kernel=canonicalize(call.kernel)) for call in program.calls)
    return replace(program, calls=calls)
