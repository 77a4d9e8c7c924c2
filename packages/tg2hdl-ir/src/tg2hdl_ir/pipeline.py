"""The table of all rewrites from capture to plan, by stage, as plugins register them, the built-in ones too.

The search and the planner run this table: `run_stage` and `Rewrite.candidates`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any
from weakref import WeakKeyDictionary

from tg2hdl_ir.errors import PluginError, Tg2hdlError
from tg2hdl_ir.limits import system_error
from tg2hdl_ir.nodes import KernelIR
from tg2hdl_ir.passes.instrument import Rewrite, Rewritten, applied, made_kernels
from tg2hdl_ir.plugins.descriptors import PASS_STAGES, PassDef
from tg2hdl_ir.plugins.loader import BUILT_IN
from tg2hdl_ir.plugins.registry import Registry, registry
from tg2hdl_ir.program import ProgramIR
from tg2hdl_ir.verifier import verify

__all__ = [
    "ChangeLog",
    "all_rewrites",
    "canonicalize",
    "exchange",
    "pass_names",
    "rewrite_kernel",
    "rewrite_program",
    "rewrites",
    "run_stage",
]


_tables: WeakKeyDictionary[Registry, tuple[int, dict[str, tuple[Rewrite, ...]]]] = WeakKeyDictionary()
"""Rewrites by stage of each registry, and its generation then."""


def rewrites(stage: str) -> tuple[Rewrite, ...]:
    """The rewrites of a stage, in the order in which they run.

    Parameters
    ----------
    stage : str
        One of `tg2hdl_ir.plugins.descriptors.PASS_STAGES`.
    """
    known = registry()
    generation, table = _tables.get(known, (-1, {}))
    if generation != known.generation:
        # Asking may load the plugins, which is another generation.
        known.passes()
        table = {}
        _tables[known] = known.generation, table
    if stage not in table:
        table[stage] = tuple(_rewrite(each) for each in known.passes() if each.place == stage)
    return table[stage]


def all_rewrites() -> dict[str, Rewrite]:
    """All rewrites, built-in and of plugins, by name in the order in which they run."""
    return {entry.name: entry for stage in PASS_STAGES for entry in rewrites(stage)}


def exchange(name: str, rewrite: Rewrite) -> Rewrite:
    """Run another rewrite in the place of one, for tests, until a plugin comes or goes; returns the one before.

    Parameters
    ----------
    name : str
        Of the one that does not run.
    """
    (stage,) = {stage for stage in PASS_STAGES for entry in rewrites(stage) if entry.name == name}
    found, table = rewrites(stage), _tables[registry()][1]
    table[stage] = tuple(rewrite if entry.name == name else entry for entry in found)
    return next(entry for entry in found if entry.name == name)


def run_stage(stage: str, kernel: KernelIR, **facts: Any) -> KernelIR:
    """Run the rewrites of a stage in order.

    Parameters
    ----------
    facts
        Arguments by name, see `Rewrite.needs`.  A rewrite that needs one which is None is left out.
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
    """Run the rewrites of captured kernels in order, or some of them, verifying after each.

    Parameters
    ----------
    kernel : KernelIR
        As captured.
    passes : sequence of PassDef, optional
        Those that run; all of the stage ``captured`` unless given.

    Raises
    ------
    PluginError
        When a pass raises, or returns something else than a kernel that keeps the rules of the IR.
    """
    for entry in rewrites("captured") if passes is None else map(_rewrite, passes):
        kernel = entry.run(kernel)
    return kernel


def _rewrite(definition: PassDef) -> Rewrite:
    """The entry of a registered rewrite; faults of one of a plugin name the plugin."""
    run = registry().factory(definition, "run")
    if registry().distribution(definition) not in BUILT_IN:
        run = _guarded(definition, run)
    return Rewrite(definition.name, definition.description, run, definition.term, definition.exclusive)


def _guarded(definition: PassDef, function: Callable[..., Any]) -> Callable[..., Any]:
    """A rewrite of a plugin, whose faults name it."""

    @wraps(function)
    def run(kernel: KernelIR, **facts: Any) -> Any:
        made = _run(definition, function, kernel, facts)
        for form in made if definition.proposes else [made]:
            applied(definition.name, kernel, form)
        return made

    return run


def _run(
    definition: PassDef, function: Callable[..., Any], kernel: KernelIR, facts: Mapping[str, Any]
) -> Any:
    plugin = registry().plugin(definition)

    def failure(what: str, notes: tuple[str, ...] = ()) -> PluginError:
        return PluginError(
            f"pass {definition.name!r} of plugin {plugin!r} {what}",
            where=kernel.where,
            notes=notes,
            hint=f"upgrade the plugin, or disable it with --no-plugin {plugin}",
        )

    try:
        made = function(kernel, **facts)
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
    """Run the rewrites of captured kernels, or some of them, on every kernel; calls of one kernel share the result.

    Parameters
    ----------
    program : ProgramIR
        As captured.
    passes : sequence of PassDef, optional
        Those that run; all of the stage ``captured`` unless given.
    """
    if not (rewrites("captured") if passes is None else passes):
        return program
    kernels = {kernel: rewrite_kernel(kernel, passes) for kernel in {c.kernel: None for c in program.calls}}
    return replace(program, calls=tuple(replace(c, kernel=kernels[c.kernel]) for c in program.calls))


def pass_names() -> list[str]:
    """Names of all rewrites, in the order in which they run."""
    return [definition.name for definition in registry().passes()]


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
