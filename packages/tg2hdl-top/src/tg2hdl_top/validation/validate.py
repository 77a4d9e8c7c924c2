"""Compiling with validation: the design is compared with its program, and a wrong rewrite is named.

Plans that are joined by hand are compared with the kernels that they were made of.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from tg2hdl_ir import ProgramIR, ValidationError, registry
from tg2hdl_ir.passes.instrument import watch_passes
from tg2hdl_ir.pipeline import rewrite_program
from tg2hdl_top.design import Design
from tg2hdl_top.options import CompileOptions
from tg2hdl_top.validation.check import compared
from tg2hdl_top.validation.compare import WrongResult
from tg2hdl_top.validation.inputs import KINDS
from tg2hdl_top.validation.planned import plans_compared
from tg2hdl_top.validation.report import located, reported
from tg2hdl_top.validation.rewrites import RewriteCheck

__all__ = ["validated", "with_validated_plans"]

FEW = 2
"""Kinds of inputs on which joined plans are compared, unless all are."""


def validated(
    program: ProgramIR, options: CompileOptions, compiled: Callable[[ProgramIR, CompileOptions], Design]
) -> Design:
    """Compile a program with `compiled`, and compare the design with the program as `options.validate` says.

    Parameters
    ----------
    program : ProgramIR
    options : CompileOptions
        Its `validate` decides how much is compared.
    compiled : callable
        Compiles without comparing.

    Raises
    ------
    ValidationError
        When a result differs; it names the rewrite that made it wrong.
    """
    mode, keep = options.validation, options.validate_keep
    # A design does not depend on how it was validated.
    options = replace(options, validate="auto", validate_keep=None)
    if mode == "off":
        return compiled(program, options)
    watched: Any = nullcontext()
    changing = [definition for definition in registry().passes() if definition.changes_numbers]
    reference = rewrite_program(program, changing)
    try:
        if mode == "each":
            watched = watch_passes(RewriteCheck(reference, options))
        with watched:
            design = compiled(program, options)
        found = compared(reference, design, options, is_full=mode != "auto")
    except WrongResult as wrong:
        cause = located(wrong, reference, options, lambda: compiled(program, options))
        raise reported(reference, wrong, cause, keep) from None
    if reference is not program and reference != program:
        names = ", ".join(definition.name for definition in changing)
        note = f"passes that may change numbers made the reference: {names}"
        found = replace(found, notes=(*found.notes, note))
    return replace(design, validation=found)


def with_validated_plans(design: Design) -> Design:
    """A design of joined plans, where each was compared with the kernel that it was made of.

    Raises
    ------
    ValidationError
        When a plan computes something else.
    """
    mode = design.options.validation
    if mode == "off":
        return design
    is_full = mode != "auto"
    try:
        found = plans_compared(design, KINDS if is_full else KINDS[:FEW], is_full=is_full)
    except WrongResult as wrong:
        raise ValidationError(
            f"a plan does not compute its kernel: {wrong.what}",
            where=f"kernel {wrong.before[0].name}",
            notes=(f"inputs {wrong.inputs}",),
            hint='report this; options=CompileOptions(validate="off") joins it anyway',
        ) from None
    return replace(design, validation=found)
