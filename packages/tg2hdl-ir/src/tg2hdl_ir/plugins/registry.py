"""The registry: loads plugins, names conflicts and answers what is there."""

from __future__ import annotations

import importlib.metadata
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import pluggy

from tg2hdl_ir.dtype import DType
from tg2hdl_ir.errors import PluginError, UnsupportedError
from tg2hdl_ir.plugins import hookspecs
from tg2hdl_ir.plugins.descriptors import (
    ArithmeticUnit,
    CommandDef,
    FamilyDef,
    HostPortDef,
    MemoryKindDef,
    OnnxOperatorDef,
    OpDef,
    OpLowering,
    PassDef,
    QuantizerDef,
    ReportSection,
    SequencerDef,
    SimulatorDef,
    TargetDef,
    resolve,
)
from tg2hdl_ir.plugins.selection import best_lowering, best_unit

__all__ = ["BrokenPlugin", "Registry", "registry", "use_registry"]

log = logging.getLogger("tg2hdl")
T = TypeVar("T")


@dataclass(frozen=True)
class BrokenPlugin:
    """A plugin that could not be loaded, or whose hook failed."""

    name: str
    distribution: str
    reason: str

    def __str__(self) -> str:
        return f"plugin {self.name!r} of {self.distribution} is broken: {self.reason}"


class Registry:
    """Everything that the plugins of this environment contribute.

    Parameters
    ----------
    entry_points : iterable of (distribution name, entry point), optional
        Plugins to load; by default those of the group ``tg2hdl`` of all installed distributions.  Loading waits for
        the first lookup.

    Attributes
    ----------
    generation : int
        Changes whenever a plugin is registered or removed, for caches that depend on the registry.
    """

    def __init__(
        self, entry_points: Iterable[tuple[str, importlib.metadata.EntryPoint]] | None = None
    ) -> None:
        self._entry_points = entry_points
        self._manager = pluggy.PluginManager("tg2hdl")
        self._manager.add_hookspecs(hookspecs)
        self._distributions: dict[str, str] = {}
        self._broken: list[BrokenPlugin] = []
        self._loaded = False
        self._cache: dict[Any, Any] = {}
        self.generation = 0

    # Loading

    @property
    def broken(self) -> tuple[BrokenPlugin, ...]:
        """Plugins that failed; what they would have contributed is missing."""
        self._load()
        return tuple(self._broken)

    def _load(self) -> None:
        if self._loaded:
            return
        self._loaded = True
        entry_points = _installed() if self._entry_points is None else self._entry_points
        for distribution, entry in entry_points:
            name = f"{distribution}:{entry.name}"
            try:
                self._register(entry.load(), name, distribution)
            except PluginError as error:
                self._report(name, error.message)
            except Exception as error:
                self._distributions.setdefault(name, distribution)
                self._report(name, f"{type(error).__name__}: {error}")

    def _register(self, plugin: object, name: str, distribution: str) -> None:
        self._distributions[name] = distribution
        self._manager.register(plugin, name)
        try:
            self._manager.check_pending()
        except pluggy.PluginValidationError as error:
            self._manager.unregister(name=name)
            known = ", ".join(n for n in vars(hookspecs) if n.startswith("tg2hdl_"))
            raise PluginError(
                f"plugin {name!r} of {distribution} implements a hook that does not exist: {error}",
                hint=f"known hooks: {known}",
            ) from error
        self._changed()

    def _report(self, name: str, reason: str) -> None:
        broken = BrokenPlugin(name, self._distributions[name], reason)
        if broken not in self._broken:
            self._broken.append(broken)
            log.warning("%s", broken)

    @contextmanager
    def extended(self, *plugins: object, distribution: str = "extra") -> Iterator[Registry]:
        """Register further plugin objects (modules or namespaces with hook implementations) for a while.

        Raises
        ------
        PluginError
            When one implements a hook that does not exist.
        """
        self._load()
        names: list[str] = []
        broken = list(self._broken)
        try:
            for number, plugin in enumerate(plugins):
                name = f"{distribution}:{getattr(plugin, '__name__', type(plugin).__name__)}.{number}"
                self._register(plugin, name, distribution)
                names.append(name)
            yield self
        finally:
            for name in names:
                if self._manager.has_plugin(name):
                    self._manager.unregister(name=name)
                del self._distributions[name]
            self._broken = broken
            self._changed()

    def _changed(self) -> None:
        self._cache.clear()
        self.generation += 1

    # Collecting

    def _collect(self, hook: str) -> tuple[tuple[Any, str], ...]:
        """All descriptors of a hook, each with the name of its plugin; a hook that raises breaks its plugin."""
        self._load()
        if hook in self._cache:
            return self._cache[hook]  # type: ignore[no-any-return]
        found: list[tuple[Any, str]] = []
        for implementation in getattr(self._manager.hook, hook).get_hookimpls():
            name = implementation.plugin_name
            try:
                found.extend((d, name) for d in implementation.function())
            except Exception as error:
                self._report(name, f"{hook} raised {type(error).__name__}: {error}")
        self._cache[hook] = result = tuple(found)
        return result

    def _named(self, hook: str) -> dict[str, tuple[Any, str]]:
        """Descriptors of a hook by name.

        Raises
        ------
        PluginError
            When two have the same name.
        """
        key = ("named", hook)
        if key not in self._cache:
            table: dict[str, tuple[Any, str]] = {}
            for descriptor, plugin in self._collect(hook):
                if descriptor.name in table:
                    one, two = (self._distributions[p] for p in (table[descriptor.name][1], plugin))
                    raise PluginError(
                        f"{_HOOKS[hook]} {descriptor.name!r} is registered twice: by {one} and by {two}",
                        hint="uninstall one of the two distributions",
                    )
                table[descriptor.name] = (descriptor, plugin)
            self._cache[key] = table
        return self._cache[key]  # type: ignore[no-any-return]

    def _all(self, hook: str, _: type[T], order: Callable[[T], Any]) -> tuple[T, ...]:
        return tuple(sorted((d for d, _ in self._named(hook).values()), key=order))

    def distribution(self, descriptor: object) -> str:
        """Name of the distribution that registered a descriptor."""
        for hook in _HOOKS:
            for known, plugin in self._collect(hook):
                if known is descriptor:
                    return self._distributions[plugin]
        raise PluginError(f"{descriptor!r} is not registered")

    def notes(self) -> tuple[str, ...]:
        """Lines about broken plugins, for an error that one of them may explain."""
        return tuple(map(str, self.broken))

    # Lookups

    def op(self, name: str) -> OpDef:
        """Return the op of a name.

        Raises
        ------
        UnsupportedError
            When no plugin registers it.
        """
        table = self._named("tg2hdl_ops")
        if name not in table:
            raise UnsupportedError(
                f"unknown op {name!r}",
                notes=self.notes(),
                hint="known: " + ", ".join(sorted(table)) + "; a plugin may add others",
            )
        return table[name][0]  # type: ignore[no-any-return]

    def ops(self) -> tuple[OpDef, ...]:
        """All ops, by name."""
        return self._all("tg2hdl_ops", OpDef, lambda d: d.name)

    def units(
        self,
        op: str | None = None,
        operands: tuple[DType, ...] | None = None,
        result: DType | None = None,
    ) -> tuple[ArithmeticUnit, ...]:
        """Arithmetic units, all or those that match exactly; highest priority first."""
        key = ("units", op, operands, result)
        if key not in self._cache:
            found = self._all("tg2hdl_arithmetic_units", ArithmeticUnit, lambda u: (-u.priority, u.name))
            self._cache[key] = tuple(
                u
                for u in found
                if op in (None, u.op) and operands in (None, u.operands) and result in (None, u.result)
            )
        return self._cache[key]  # type: ignore[no-any-return]

    def select_unit(
        self,
        op: str,
        operands: tuple[DType, ...],
        result: DType,
        *,
        target: str = "generic",
        explicit: Mapping[str, str | Sequence[str]] | None = None,
    ) -> ArithmeticUnit | None:
        """Choose the unit of an op.

        Of the units with these formats: the explicit choice, then that of a policy plugin, then units for the target
        before generic ones, then the highest priority.

        Parameters
        ----------
        target : str
            Target family; units of other families are not considered.
        explicit : mapping, optional
            Unit names by op: one, or several of different formats.  Named units of other formats are passed over.

        Returns
        -------
        ArithmeticUnit or None
            None when no unit matches.

        Raises
        ------
        PluginError
            On an explicit name that no plugin registers, on a tie, and when a policy returns something else.
        """
        names = _names(explicit, op)
        key = ("select", op, operands, result, target, names)
        if key not in self._cache:
            self._cache[key] = best_unit(self, op, operands, result, target, names)
        return self._cache[key]  # type: ignore[no-any-return]

    def policy(
        self, op: str, operands: tuple[DType, ...], result: DType, candidates: list[ArithmeticUnit]
    ) -> ArithmeticUnit | None:
        """Choice of the first policy plugin that makes one."""
        self._load()
        chosen: ArithmeticUnit | None = self._manager.hook.tg2hdl_select_unit(
            op=op, operands=operands, result=result, candidates=candidates
        )
        return chosen

    def evaluation(
        self,
        op: str,
        operands: tuple[DType, ...],
        result: DType,
        *,
        target: str = "generic",
        explicit: Mapping[str, str | Sequence[str]] | None = None,
    ) -> Callable[..., Any]:
        """Golden evaluation of an op: that of the selected unit when it has one, else that of the op.

        Where all units that may be chosen agree, none needs to be selected.
        """
        names = _names(explicit, op)
        eligible = [
            u for u in self.units(op, operands, result) if u.target in ("generic", target) or u.name in names
        ]
        goldens = list(dict.fromkeys(u.golden for u in eligible))
        golden = goldens[0] if len(goldens) == 1 else None
        if len(goldens) > 1:
            unit = self.select_unit(op, operands, result, target=target, explicit=explicit)
            golden = None if unit is None else unit.golden
        return resolve(self.op(op).evaluate if golden is None else golden)

    def lowerings(self, op: str | None = None) -> tuple[OpLowering, ...]:
        """Combinational lowerings, all or those of an op; highest priority first."""
        found = self._all("tg2hdl_op_lowerings", OpLowering, lambda d: (-d.priority, d.name))
        return tuple(d for d in found if op in (None, d.op))

    def select_lowering(self, op: str, operands: tuple[DType, ...], result: DType) -> OpLowering | None:
        """Combinational lowering of highest priority that matches; None without one.

        Raises
        ------
        PluginError
            On a tie.
        """
        key = ("lowering", op, operands, result)
        if key not in self._cache:
            self._cache[key] = best_lowering(self, op, operands, result)
        return self._cache[key]  # type: ignore[no-any-return]

    def passes(self) -> tuple[PassDef, ...]:
        """Passes of plugins, by order and name."""
        return self._all("tg2hdl_passes", PassDef, lambda d: (d.order, d.name))

    def simulators(self) -> tuple[SimulatorDef, ...]:
        """Simulation engines, highest priority first."""
        return self._all("tg2hdl_simulators", SimulatorDef, lambda d: (-d.priority, d.name))

    def targets(self) -> tuple[TargetDef, ...]:
        """FPGA targets, by name."""
        return self._all("tg2hdl_targets", TargetDef, lambda d: d.name)

    def families(self) -> tuple[FamilyDef, ...]:
        """FPGA families, by name."""
        return self._all("tg2hdl_families", FamilyDef, lambda d: d.name)

    def memory_kinds(self) -> tuple[MemoryKindDef, ...]:
        """Kinds of memory, highest priority first."""
        return self._all("tg2hdl_memory_kinds", MemoryKindDef, lambda d: (-d.priority, d.name))

    def quantizers(self) -> tuple[QuantizerDef, ...]:
        """Quantization methods, by name."""
        return self._all("tg2hdl_quantizers", QuantizerDef, lambda d: d.name)

    def onnx_operator(self, op_type: str, domain: str, version: int) -> OnnxOperatorDef | None:
        """Definition of an operator of ONNX files in a version of its operator set; None without one."""
        key = ("onnx operators",)
        if key not in self._cache:
            found: dict[tuple[str, str], list[OnnxOperatorDef]] = {}
            for definition, _ in self._named("tg2hdl_onnx_operators").values():
                found.setdefault((definition.domain, definition.op_type), []).append(definition)
            self._cache[key] = found
        eligible = [d for d in self._cache[key].get((domain, op_type), ()) if d.since_version <= version]
        return max(eligible, key=lambda d: (d.priority, d.since_version), default=None)

    def report_sections(self) -> tuple[ReportSection, ...]:
        """Sections of the report, in order."""
        return self._all("tg2hdl_report_sections", ReportSection, lambda d: (d.order, d.name))

    def commands(self) -> tuple[CommandDef, ...]:
        """Subcommands, by name."""
        return self._all("tg2hdl_commands", CommandDef, lambda d: d.name)

    def simulator(self, name: str) -> SimulatorDef:
        """Return the simulation engine of a name; others are a PluginError that lists the known ones."""
        return self._one("tg2hdl_simulators", name)  # type: ignore[no-any-return]

    def target(self, name: str) -> TargetDef:
        """Return the target of a name; others are a PluginError that lists the known ones."""
        return self._one("tg2hdl_targets", name)  # type: ignore[no-any-return]

    def memory_kind(self, name: str) -> MemoryKindDef:
        """Return the kind of memory of a name; others are a PluginError that lists the known ones."""
        return self._one("tg2hdl_memory_kinds", name)  # type: ignore[no-any-return]

    def port(self, name: str) -> HostPortDef:
        """Return the host port of a name; others are a PluginError that lists the known ones."""
        return self._one("tg2hdl_ports", name)  # type: ignore[no-any-return]

    def sequencer(self, name: str) -> SequencerDef:
        """Return the sequencing policy of a name; others are a PluginError that lists the known ones."""
        return self._one("tg2hdl_sequencers", name)  # type: ignore[no-any-return]

    def quantizer(self, name: str) -> QuantizerDef:
        """Return the quantization method of a name; others are a PluginError that lists the known ones."""
        return self._one("tg2hdl_quantizers", name)  # type: ignore[no-any-return]

    def _one(self, hook: str, name: str) -> Any:
        table = self._named(hook)
        if name not in table:
            raise PluginError(
                f"no {_HOOKS[hook]} is named {name!r}",
                notes=self.notes(),
                hint="known: " + (", ".join(sorted(table)) or "none"),
            )
        return table[name][0]

    def describe(self) -> dict[str, Any]:
        """Plugins, what each contributes, and what is broken: plain data for ``tg2hdl plugins list --json``."""
        self._load()
        provides: dict[str, dict[str, list[str]]] = {name: {} for name in self._distributions}
        conflicts: list[str] = []
        for hook in _HOOKS:
            for descriptor, name in self._collect(hook):
                provides[name].setdefault(hook, []).append(descriptor.name)
            try:
                self._named(hook)
            except PluginError as error:
                conflicts.append(error.message)
        failed = {b.name for b in self._broken}
        plugins = [
            {
                "name": name,
                "distribution": distribution,
                "version": _version(distribution),
                "status": "broken" if name in failed else "loaded",
                "provides": {hook: sorted(names) for hook, names in provides[name].items()},
            }
            for name, distribution in sorted(self._distributions.items())
        ]
        broken = [{"name": b.name, "distribution": b.distribution, "reason": b.reason} for b in self._broken]
        return {"plugins": plugins, "broken": broken, "conflicts": conflicts}


_HOOKS = {
    "tg2hdl_ops": "op",
    "tg2hdl_op_lowerings": "op lowering",
    "tg2hdl_arithmetic_units": "arithmetic unit",
    "tg2hdl_passes": "pass",
    "tg2hdl_simulators": "simulator",
    "tg2hdl_targets": "target",
    "tg2hdl_families": "family",
    "tg2hdl_memory_kinds": "memory kind",
    "tg2hdl_ports": "host port",
    "tg2hdl_sequencers": "sequencer",
    "tg2hdl_quantizers": "quantizer",
    "tg2hdl_onnx_operators": "ONNX operator",
    "tg2hdl_report_sections": "report section",
    "tg2hdl_commands": "command",
}
"""Hooks that return descriptors, and what one of these is called."""


def _names(explicit: Mapping[str, str | Sequence[str]] | None, op: str) -> tuple[str, ...]:
    names = (explicit or {}).get(op, ())
    return (names,) if isinstance(names, str) else tuple(names)


def _installed() -> Iterator[tuple[str, importlib.metadata.EntryPoint]]:
    seen: set[tuple[str, str]] = set()
    for distribution in importlib.metadata.distributions():
        name = distribution.metadata["Name"]
        for entry in distribution.entry_points:
            if entry.group == hookspecs.ENTRY_POINT_GROUP and (name, entry.name) not in seen:
                seen.add((name, entry.name))
                yield name, entry


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""


_default = Registry()


def registry() -> Registry:
    """Return the registry of this process; plugins load at the first lookup."""
    return _default


@contextmanager
def use_registry(replacement: Registry) -> Iterator[Registry]:
    """Make another registry the one of this process for a while."""
    global _default
    previous, _default = _default, replacement
    try:
        yield replacement
    finally:
        _default = previous
