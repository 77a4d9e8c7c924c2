"""Timing of the products of kernels that share many multipliers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tg2hdl_ir.nodes import KernelIR
from tg2hdl_lower.sharing.arbiter import HeldOperands
from tg2hdl_top.lane_choice import total_multiplications
from tg2hdl_top.options import CompileOptions

__all__ = ["with_held_operands"]


def with_held_operands(options: CompileOptions, kernels: Sequence[KernelIR]) -> CompileOptions:
    """Options with the cycle of `HeldOperands`, where kernels share so many multipliers that paths to them are long.

    Parameters
    ----------
    options : CompileOptions
    kernels : sequence of KernelIR
        By call.
    """
    users = sum(total_multiplications(kernel) > 0 for kernel in kernels)
    if not options.share_multipliers or not options.spread or users < HeldOperands.KERNELS:
        return options
    return replace(options, product_latency=options.timing.product_latency + HeldOperands.latency)
