"""The table of all rewrites of this package from capture to plan, by stage, in the order in which they run.

The search and the planner run what the table has: `run_stage` and `Rewrite.candidates`.  Rewrites of plugins are in
it too.  Those of `tg2hdl_top` rewrite programs where that is worth it (see `pass_names`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from tg2hdl_ir.errors import PluginError, Tg2hdlError
from tg2hdl_ir.limits import system_error
from tg2hdl_ir.nodes import KernelIR
from tg2hdl_ir.passes.alternatives import add_alternatives
from tg2hdl_ir.passes.balance import balance
from tg2hdl_ir.passes.bias import start_at_bias
from tg2hdl_ir.passes.clearing import clear_with_last
from tg2hdl_ir.passes.common_kernels import with_bound_values, with_common_kernels
from tg2hdl_ir.passes.constant_taps import with_constant_taps
from tg2hdl_ir.passes.cut_kernel import cut_kernel
from tg2hdl_ir.passes.cut_products import cut_products
from tg2hdl_ir.passes.divided import split_divided_loops
from tg2hdl_ir.passes.flatten import flatten
from tg2hdl_ir.passes.fold_scales import fold_scales
from tg2hdl_ir.passes.follow import in_order, with_idle_steps
from tg2hdl_ir.passes.gated_addresses import simplify_gated_addresses
from tg2hdl_ir.passes.guarded_loops import guard_loops
from tg2hdl_ir.passes.hoist_weights import hoist_weights
from tg2hdl_ir.passes.hold import hold_overwritten_loads
from tg2hdl_ir.passes.initial import choose_initial_late
from tg2hdl_ir.passes.initial_registers import set_initial_registers
from tg2hdl_ir.passes.instrument import Rewrite, Rewritten, applied, known_passes, made_kernels, pass_of
from tg2hdl_ir.passes.interleave import interleave
from tg2hdl_ir.passes.lead_in import lead_in
from tg2hdl_ir.passes.merge_branches import merge_branches
from tg2hdl_ir.passes.mulacc import expand_mulacc
from tg2hdl_ir.passes.outside import gate_outside_accesses
from tg2hdl_ir.passes.pack_products import pack_products
from tg2hdl_ir.passes.partial_sums import split_sum
from tg2hdl_ir.passes.phases import phase_forms
from tg2hdl_ir.passes.producers import producer_forms
from tg2hdl_ir.passes.registers import forward_registers
from tg2hdl_ir.passes.scan import scan_forms
from tg2hdl_ir.passes.sections import section_forms
from tg2hdl_ir.passes.signs import choose_signs
from tg2hdl_ir.passes.single_registers import drop_single_indices
from tg2hdl_ir.passes.split import split_axis
from tg2hdl_ir.passes.split_loops import split_loops
from tg2hdl_ir.passes.unroll import unroll
from tg2hdl_ir.plugins.descriptors import PassDef
from tg2hdl_ir.plugins.registry import registry
from tg2hdl_ir.program import ProgramIR
from tg2hdl_ir.verifier import verify

__all__ = [
    "PIPELINE",
    "STAGES",
    "ChangeLog",
    "canonicalize",
    "pass_names",
    "rewrite_kernel",
    "rewrite_program",
    "rewrites",
    "run_stage",
]


def _table(*functions: Callable[..., Any]) -> tuple[Rewrite, ...]:
    return tuple(map(pass_of, functions))


STAGES: dict[str, tuple[Rewrite, ...]] = {
    # First "captured", which has passes of plugins only: see `rewrite_program`.  Then tables instead of weights.
    "weights": _table(fold_scales, hoist_weights),
    # The form that analyses and planning start from, of captured kernels and of all that are made of them.
    "canonical": _table(
        expand_mulacc,
        choose_signs,
        gate_outside_accesses,
        simplify_gated_addresses,
        add_alternatives,
        drop_single_indices,
        guard_loops,
        set_initial_registers,
        split_loops,
    ),
    # Equal kernels of a program.
    "calls": _table(with_common_kernels, with_bound_values),
    # Candidates of the search for a kernel, by its steps; of forms the first rewrite that has any, and all of plugins.
    "merges": _table(merge_branches),
    "producers": _table(producer_forms),
    "forms": _table(scan_forms, phase_forms, section_forms, split_divided_loops, with_constant_taps),
    "cuts": _table(start_at_bias, cut_kernel, cut_products, split_sum),
    # One flat sequence of steps with the chosen lanes, of each kernel that is planned.
    "lanes": _table(flatten, unroll, pack_products),
    # Other loops for these steps: the planner tries several.
    "loops": _table(lead_in, interleave, in_order, with_idle_steps),
    # The registers of a sequence of steps, before it is scheduled.
    "registers": _table(forward_registers, balance, choose_initial_late, clear_with_last),
    # Parts of other rewrites.
    "parts": _table(split_axis, hold_overwritten_loads),
}
"""All rewrites of this package by stage, in the order in which they run."""

PIPELINE: tuple[Rewrite, ...] = tuple(chain.from_iterable(STAGES.values()))


def rewrites(stage: str) -> tuple[Rewrite, ...]:
    """The rewrites of a stage, those of plugins last."""
    return *STAGES.get(stage, ()), *map(_of_plugin, _definitions(stage))


def run_stage(stage: str, kernel: KernelIR, **facts: Any) -> KernelIR:
    """Run the rewrites of a stage in order.

    Parameters
    ----------
    facts
        What they need, by name: see `Rewrite.needs`.  Those of which one is None are left out.
    """
    for entry in rewrites(stage):
        given = entry.given(facts)
        if all(value is not None for value in given.values()):
            kernel = entry.run(kernel, **given)
    return kernel


def canonicalize(kernel: KernelIR) -> KernelIR:
    """Bring a kernel into the form that analyses and planning start from."""
    return run_stage("canonical", kernel)


def rewrite_kernel(kernel: KernelIR, passes: Sequence[PassDef] | None = None) -> KernelIR:
    """Run the passes of plugins on a captured kernel in order, or some of them, verifying after each.

    Raises
    ------
    PluginError
        When a pass raises, or returns something else than a kernel that keeps the rules of the IR.
    """
    for definition in _definitions("captured") if passes is None else passes:
        kernel = _of_plugin(definition).run(kernel)
    return kernel


def _definitions(stage: str) -> list[PassDef]:
    return [definition for definition in registry().passes() if definition.place == stage]


def _of_plugin(definition: PassDef) -> Rewrite:
    """The rewrite of a plugin, whose faults name it."""

    def run(kernel: KernelIR) -> Any:
        made = _run(definition, kernel)
        for form in made if definition.proposes else [made]:
            applied(definition.name, kernel, form)
        return made

    return Rewrite(definition.name, definition.description, run, definition.term)


def _run(definition: PassDef, kernel: KernelIR) -> Any:
    plugin = registry().plugin(definition)

    def failure(what: str, notes: tuple[str, ...] = ()) -> PluginError:
        return PluginError(
            f"pass {definition.name!r} of plugin {plugin!r} {what}",
            where=kernel.where,
            notes=notes,
            hint=f"upgrade the plugin, or disable it with --no-plugin {plugin}",
        )

    run = registry().factory(definition, "run")
    try:
        made = run(kernel)
    except (Exception, SystemExit) as error:
        if found := system_error(error):
            raise found from error
        raise failure(f"raised {type(error).__name__}: {error}") from error
    forms = [made]
    if definition.proposes:
        if not isinstance(made, list):
            raise failure(f"returned {type(made).__name__}, not a list of kernels")
        forms = made = [form if isinstance(form, tuple) else (form,) for form in made]
    parts = [part for form in forms for part in (form if isinstance(form, tuple) else (form,))]
    for part in parts:
        if not isinstance(part, KernelIR):
            raise failure(f"returned {type(part).__name__}, not a KernelIR")
    try:
        for part in parts:
            verify(part)
        return made
    except Tg2hdlError as error:
        notes = (error.message, *((f"at {error.where}",) if error.where else ()))
        raise failure("broke the rules of the IR", notes) from error


def rewrite_program(program: ProgramIR, passes: Sequence[PassDef] | None = None) -> ProgramIR:
    """Run the passes of all plugins, or some of them, on every kernel; calls of one kernel share the result."""
    passes = _definitions("captured") if passes is None else passes
    if not passes:
        return program
    kernels = {kernel: rewrite_kernel(kernel, passes) for kernel in {c.kernel: None for c in program.calls}}
    return replace(program, calls=tuple(replace(c, kernel=kernels[c.kernel]) for c in program.calls))


def pass_names() -> list[str]:
    """Names of all passes: those of plugins, those of the table in order, and those outside this package."""
    table = [entry.name for entry in PIPELINE]
    others = [name for name in known_passes() if name not in table]
    return [*(d.name for d in registry().passes()), *table, *others]


@dataclass
class ChangeLog:
    """A watcher that notes which passes changed which kernel, in the order of their first change."""

    changes: dict[str, list[str]] = field(default_factory=dict)

    def __call__(self, name: str, before: KernelIR | ProgramIR, after: Rewritten) -> None:
        """Compare the printed forms."""
        for old, new in made_kernels(before, after):
            if new is not old and (old is None or new.format() != old.format()):
                found = self.changes.setdefault(new.name, [])
                if name not in found:
                    found.append(name)
