"""Plans one kernel."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from tg2hdl_ir import (
    DType,
    KernelIR,
)
from tg2hdl_lower.decisions import decide
from tg2hdl_lower.lower_latency import lower_latency_units
from tg2hdl_lower.memory.layout import Layout
from tg2hdl_lower.memory.use import MemoryRole
from tg2hdl_lower.options import LowerOptions
from tg2hdl_lower.plan.hardware_plan import HardwarePlan
from tg2hdl_lower.planning import Planning, alternative, decided, longest

__all__ = ["PreparedKernel", "plan_kernel"]


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


@dataclass(frozen=True)
class PreparedKernel:
    """A kernel that is planned more than once, as others decide which of its units are shared.

    Everything that does not depend on the shared units is computed once.
    """

    planning: Planning
    flat: KernelIR

    @classmethod
    def of(
        cls,
        kernel: KernelIR,
        options: LowerOptions | None = None,
        lanes: dict[int, int] | None = None,
        layouts: dict[int, Layout] | None = None,
        storage: dict[int, DType] | None = None,
        roles: Mapping[int, MemoryRole] | None = None,
    ) -> PreparedKernel:
        """Prepare a kernel; parameters and errors are those of `plan_kernel`.

        Parameters
        ----------
        kernel : KernelIR
        options : LowerOptions, optional
        lanes, layouts, storage, roles
            As of `plan_kernel`.
        """
        return cls(*Planning.of(kernel, options or LowerOptions(), lanes, layouts, storage, (), roles))

    def plan(self, shared: Collection[str] = ()) -> HardwarePlan:
        """Plan it with these units outside; errors as of `plan_kernel`."""
        planning, flat = replace(self.planning, shared=frozenset(shared)), self.flat
        options = planning.options
        plan = planning.interleaved(flat)
        if plan.ii > 1 and not planning.waits_for_multipliers(plan):
            flat, plan = planning.warmed_up(flat, plan)
            flat, plan = planning.forwarding(flat, plan)
        shorter = lower_latency_units(plan, options)
        first = alternative("units of the options", plan)
        plan = planning.chaining(flat, plan)
        if shorter:
            units = replace(options, units={**options.units, **shorter})
            trial = replace(planning, options=units).interleaved(flat)
            names = ", ".join(sorted(shorter.values()))
            fewer = trial if longest(trial) < longest(plan) else None
            made, decision = decide(
                "units",
                flat.name,
                "lower-latency unit",
                first,
                [(alternative(names, trial), fewer)],
                prefer=options.prefer,
            )
            if made is not None:
                note = f"lower-latency units shorten accumulator stalls: {names}"
                plan = replace(made, notes=(*made.notes, note))
            plan = decided(plan, decision)
        return planning.marked(plan)
