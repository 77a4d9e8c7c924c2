"""Plans one kernel."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from tg2hdl_ir import (
    DType,
    KernelIR,
)
from tg2hdl_lower.memory.layout import Layout
from tg2hdl_lower.memory.use import MemoryRole
from tg2hdl_lower.options import LowerOptions
from tg2hdl_lower.plan.hardware_plan import HardwarePlan
from tg2hdl_lower.planning import PreparedKernel

__all__ = ["plan_kernel"]


def plan_kernel(
    kernel: KernelIR,
    options: LowerOptions | None = None,
    *,
    lanes: dict[int, int] | None = None,
    layouts: dict[int, Layout] | None = None,
    storage: dict[int, DType] | None = None,
    shared: Collection[str] = (),
    roles: Mapping[int, MemoryRole] | None = None,
) -> HardwarePlan:
    """Plan the hardware of a kernel.

    The plan is not compared with the kernel here: `tg2hdl_top.TopModule` does that for the plans that it is given.

    Parameters
    ----------
    kernel : KernelIR
    options : LowerOptions, optional
        Default options unless given.
    lanes : dict of int to int, optional
        Lanes per axis.
    layouts : dict of int to Layout, optional
        Physical layout per buffer; one element a word when absent.
    storage : dict of int to DType, optional
        Narrower element type per buffer, for buffers whose values are known to fit.
    shared : collection of str, optional
        Names of the units that the kernel finds outside.
    roles : mapping of int to MemoryRole, optional
        Who else uses each buffer; the host writes and reads it when absent.

    Raises
    ------
    InputError
        When no part and no unit is of the family `options.target`.
    UnsupportedError
        When an operation has no hardware; a `BudgetError` when the options allow too little of it.
    """
    plan = PreparedKernel.of(kernel, options, lanes, layouts, storage, roles).plan(shared)
    return replace(plan, source=None if plan.regrouped else kernel)
