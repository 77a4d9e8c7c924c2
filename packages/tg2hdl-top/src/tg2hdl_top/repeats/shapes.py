"""Kernels whose plans have one shape run on one core: its loop bounds, addresses and constants are those of the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tg2hdl_ir.errors import InputError
from tg2hdl_ir.nodes import KernelIR
from tg2hdl_lower import HardwarePlan
from tg2hdl_lower.plan.variants import have_one_shape
from tg2hdl_top.design_program import plan_arrays, plan_memories
from tg2hdl_top.options import CompileOptions
from tg2hdl_top.repeats.find import Repeats
from tg2hdl_top.repeats.groups import buffer_groups, unsuited_kernels
from tg2hdl_top.roles import buffer_roles

__all__ = ["with_cores_of_one_shape"]

LEAST_NODES = 32
"""Nodes of a plan from which on a core is worth more than what chooses between its runs."""


def with_cores_of_one_shape(
    repeats: Repeats, plans: Sequence[HardwarePlan], options: CompileOptions
) -> Repeats:
    """The same calls on fewer cores: each kernel runs on the core of the first one that its plan has the shape of."""
    roles = buffer_roles(repeats.program, options)
    found = {call.kernel: plan for call, plan in zip(repeats.program.calls, plans, strict=True)}
    first: list[KernelIR] = []
    for kernel, plan in found.items():
        for other in first if len(plan.nodes) >= LEAST_NODES else ():
            if have_one_shape(found[other], plan):
                same = {**repeats.same, kernel: other}
                groups = buffer_groups(repeats.program, same)
                trial = replace(repeats, same=same, groups=groups)
                if not unsuited_kernels(repeats.program, roles, same) and _fits(trial, plans, options):
                    repeats = trial
                    break
        else:
            first.append(kernel)
    return repeats


def _fits(repeats: Repeats, plans: Sequence[HardwarePlan], options: CompileOptions) -> bool:
    """Whether the kernels were planned for the memories that they would have."""
    try:
        memories = plan_memories(repeats.program, options, plans, repeats)
        plan_arrays(repeats.program, options, memories, repeats)
    except InputError:
        return False
    return True
