"""Kernels whose plans have one shape run on one core: its loop bounds, addresses and constants are those of the run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tg2hdl_ir import InputError, KernelIR
from tg2hdl_lower import HardwarePlan
from tg2hdl_lower.plan.variants import have_one_shape
from tg2hdl_top.design_program import plan_arrays, plan_memories
from tg2hdl_top.options import CompileOptions
from tg2hdl_top.repeats.find import Repeats
from tg2hdl_top.repeats.groups import buffer_groups, runs_of, unsuited_kernels
from tg2hdl_top.roles import buffer_roles

__all__ = ["with_cores_of_one_shape"]

LEAST_NODES = 32
"""Least nodes of a plan for which a core is larger than the multiplexers between its runs."""


def with_cores_of_one_shape(
    repeats: Repeats,
    plans: Sequence[HardwarePlan],
    bounded: Callable[[int], HardwarePlan | None],
    options: CompileOptions,
) -> tuple[Repeats, list[HardwarePlan]]:
    """The same calls on fewer cores: each kernel runs on the core of the first one that its plan has the shape of.

    Parameters
    ----------
    plans : sequence of HardwarePlan
        By core.
    bounded : callable
        Another plan of a core by its number, which is taken where it has the shape of an earlier one.

    Returns
    -------
    tuple of Repeats and list of HardwarePlan
        The plans by call.
    """
    kernels = list(runs_of(repeats.program))
    found = dict(zip(kernels, plans, strict=True))
    first: list[KernelIR] = []
    for number, (kernel, plan) in enumerate(zip(kernels, plans, strict=True)):
        alike = [
            other
            for other in first
            if len(plan.nodes) >= LEAST_NODES
            and (found[other].ii, found[other].depth) == (plan.ii, plan.depth)
        ]
        merged = _merged(repeats, kernel, plan, alike, found, options)
        if merged is None and alike and (other_plan := bounded(number)) is not None:
            merged = _merged(repeats, kernel, other_plan, alike, found, options)
        if merged is None:
            first.append(kernel)
        else:
            repeats = merged
    return repeats, [found[call.kernel] for call in repeats.program.calls]


def _merged(
    repeats: Repeats,
    kernel: KernelIR,
    plan: HardwarePlan,
    others: Sequence[KernelIR],
    found: dict[KernelIR, HardwarePlan],
    options: CompileOptions,
) -> Repeats | None:
    """The kernel on the core of one of the others, with this plan, which is then found; None where it fits none."""
    roles = buffer_roles(repeats.program, options)
    for other in others:
        if have_one_shape(found[other], plan):
            same = {**repeats.same, kernel: other}
            trial = replace(repeats, same=same, groups=buffer_groups(repeats.program, same))
            plans = [{**found, kernel: plan}[call.kernel] for call in repeats.program.calls]
            if not unsuited_kernels(repeats.program, roles, same) and _fits(trial, plans, options):
                found[kernel] = plan
                return trial
    return None


def _fits(repeats: Repeats, plans: Sequence[HardwarePlan], options: CompileOptions) -> bool:
    """Whether the kernels were planned for the memories that they would have."""
    try:
        memories = plan_memories(repeats.program, options, plans, repeats)
        plan_arrays(repeats.program, options, memories, repeats)
    except InputError:
        return False
    return True
