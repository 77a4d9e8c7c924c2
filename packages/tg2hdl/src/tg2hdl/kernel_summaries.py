"""Summaries of the planned kernels of a design."""

from __future__ import annotations

import math
from collections.abc import Mapping

from tg2hdl.layers import layers_of, weight_origins
from tg2hdl.macs import count_macs, issued_products
from tg2hdl.results import KernelSummary
from tg2hdl_backend import CapturedProgram
from tg2hdl_lower import HardwarePlan
from tg2hdl_top import CompileOptions, Design

__all__ = ["kernel_summaries"]


def kernel_summaries(
    captured: CapturedProgram, design: Design, variables: Mapping[str, int] | None = None
) -> tuple[KernelSummary, ...]:
    """Summaries in execution order, for the values of variables in the example unless others are given.

    Parameters
    ----------
    captured : CapturedProgram
    design : Design
    variables : mapping of str to int, optional
        Values of run-time variables by name.
    """
    variables, program = dict(variables or captured.var_vals), design.program
    layers = layers_of(program, weight_origins((captured.preparation, design.preparation)))
    found = []
    for kernel, plan, layer in zip(design.sources, design.kernels, layers, strict=True):
        macs, issued = count_macs(kernel, variables), issued_products(plan, variables)
        found.append(
            KernelSummary(
                kernel.name,
                plan.steps(variables),
                plan.ii,
                plan.cycles(variables),
                plan.multipliers,
                macs,
                # More MACs than products: each product is several MACs.
                math.ceil(macs / math.ceil(macs / issued)) if macs and issued else macs,
                (*plan.notes, *_excess(plan, design.options)),
                layer,
            )
        )
    return tuple(found)


def _excess(plan: HardwarePlan, options: CompileOptions) -> tuple[str, ...]:
    """Note about a kernel that uses more multipliers than the budget."""
    asked = options.multipliers or 1
    if plan.multipliers <= asked or not options.chooses_lanes:
        return ()
    return (f"one step needs {plan.multipliers} multipliers, which is more than multipliers={asked}",)
