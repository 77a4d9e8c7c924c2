"""The contributions of plugins, by hook and name, with faults and conflicts kept apart."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tg2hdl_ir.errors import PluginError
from tg2hdl_ir.plugins import descriptors as d
from tg2hdl_ir.plugins.loader import BUILT_IN, PluginLoader
from tg2hdl_ir.plugins.pass_order import in_order
from tg2hdl_ir.plugins.validation import find_fault, find_pass_fault
from tg2hdl_ir.turns import in_turn

__all__ = ["KINDS", "Catalog", "Kind"]


@dataclass(frozen=True)
class Kind:
    """The contributions to a hook; families contribute too where one of their fields has such descriptors."""

    hook: str
    label: str
    descriptor: type[Any]
    of_families: str = ""


KINDS = {
    kind.hook: kind
    for kind in (
        Kind("tg2hdl_ops", "op", d.OpDef),
        Kind("tg2hdl_op_lowerings", "op lowering", d.OpLowering),
        Kind("tg2hdl_arithmetic_units", "arithmetic unit", d.ArithmeticUnit),
        Kind("tg2hdl_tinygrad_ops", "tinygrad op", d.TinygradOpDef),
        Kind("tg2hdl_passes", "pass", d.PassDef),
        Kind("tg2hdl_simulators", "simulator", d.SimulatorDef),
        Kind("tg2hdl_targets", "target", d.TargetDef, "parts"),
        Kind("tg2hdl_flows", "synthesis flow", d.FlowDef, "flows"),
        Kind("tg2hdl_families", "family", d.FamilyDef),
        Kind("tg2hdl_memory_kinds", "memory kind", d.MemoryKindDef),
        Kind("tg2hdl_ports", "host port", d.HostPortDef),
        Kind("tg2hdl_memory_ports", "memory port", d.MemoryPortDef),
        Kind("tg2hdl_boards", "board", d.BoardDef, "boards"),
        Kind("tg2hdl_sequencers", "sequencer", d.SequencerDef),
        Kind("tg2hdl_quantizers", "quantizer", d.QuantizerDef),
        Kind("tg2hdl_roundings", "rounding", d.RoundingDef),
        Kind("tg2hdl_frontends", "front end", d.FrontEndDef),
        Kind("tg2hdl_onnx_operators", "ONNX operator", d.OnnxOperatorDef),
        Kind("tg2hdl_report_sections", "report section", d.ReportSection),
        Kind("tg2hdl_commands", "command", d.CommandDef),
        Kind("tg2hdl_dimensions", "dimension", d.DimensionDef),
        Kind("tg2hdl_exports", "export", d.ExportDef),
    )
}


@dataclass
class _Table:
    """Descriptors of a hook by name, each with its plugin, and the names that several plugins claim."""

    by_name: dict[str, tuple[Any, str]] = field(default_factory=dict)
    contested: dict[str, tuple[str, str]] = field(default_factory=dict)


class Catalog:
    """Descriptors of all hooks; faulty ones are reported to the loader and left out."""

    def __init__(self, loader: PluginLoader) -> None:
        self._loader = loader
        self._tables: dict[str, _Table] = {}
        self._unfinished: dict[str, _Table] = {}
        self._owners: dict[int, tuple[Any, str]] = {}

    def clear(self) -> None:
        """Ask all hooks again at the next lookup."""
        self._tables.clear()
        self._owners.clear()

    def all(self, hook: str) -> Iterable[Any]:
        """Descriptors of a hook whose names are unique."""
        return [descriptor for descriptor, _ in self._table(hook).by_name.values()]

    def get(self, hook: str, name: str) -> Any | None:
        """Descriptor of a name, or None.

        Parameters
        ----------
        hook : str
            Such as ``"tg2hdl_ops"``.
        name : str

        Raises
        ------
        PluginError
            When two plugins claim the name.
        """
        table = self._table(hook)
        if name in table.contested:
            one, two = (self._loader.distributions[p] for p in table.contested[name])
            raise PluginError(
                f"{KINDS[hook].label} {name!r} is registered twice: by {one} and by {two}",
                hint=f"disable one of them: --no-plugin {table.contested[name][1]}",
            )
        return table.by_name[name][0] if name in table.by_name else None

    def names(self, hook: str) -> list[str]:
        """Names that `get` finds, in order."""
        return sorted(self._table(hook).by_name)

    def contested(self, hook: str) -> list[str]:
        """Names that two plugins claim; `get` says so."""
        return sorted(self._table(hook).contested)

    def owner(self, descriptor: object) -> str | None:
        """Plugin that registered a descriptor."""
        for hook in KINDS:
            self._table(hook)
        known, plugin = self._owners.get(id(descriptor), (None, ""))
        return plugin if known is descriptor else None

    def of_plugin(self, plugin: str) -> dict[str, list[Any]]:
        """Descriptors of a plugin by hook, in the order of their names."""
        found = {
            hook: [d for d, owner in self._table(hook).by_name.values() if owner == plugin] for hook in KINDS
        }
        return {hook: sorted(of, key=lambda d: d.name) for hook, of in found.items() if of}

    def check_all(self) -> None:
        """Ask all hooks, so that every problem is reported."""
        for hook in KINDS:
            self._table(hook)

    def _table(self, hook: str) -> _Table:
        return self._tables.get(hook) or self._asked(hook)

    @in_turn
    def _asked(self, hook: str) -> _Table:
        """Table of a hook, complete when other threads see it."""
        found = self._tables.get(hook) or self._unfinished.get(hook)
        if found is not None:
            return found
        table = self._unfinished[hook] = _Table()
        try:
            collected = [(plugin, d) for plugin, d in self._collect(hook) if self._fits(hook, plugin, d)]
            # Names of this project first: a plugin cannot take one over, whichever is loaded first.
            collected.sort(key=lambda pair: self._loader.distributions[pair[0]] not in BUILT_IN)
            for plugin, descriptor in collected:
                self._add(table, hook, plugin, descriptor)
            if hook == "tg2hdl_passes":
                self._leave_out_misplaced(table)
            self._tables[hook] = table
        finally:
            del self._unfinished[hook]
        return table

    def _collect(self, hook: str) -> list[tuple[str, Any]]:
        found: list[tuple[str, Any]] = []
        for plugin, implementation in self._loader.implementations(hook):
            try:
                returned = implementation.function()
                if isinstance(returned, str) or not isinstance(returned, Iterable):
                    raise TypeError(f"it returned {returned!r:.60}, not a list")
                found.extend((plugin, descriptor) for descriptor in returned)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # SystemExit too: a plugin must not end the program
                reason = f"it raised {type(error).__name__}: {'; '.join(str(error).splitlines())}"
                self._loader.report(plugin, reason, self._loader.remedy(plugin), hook)
        if within := KINDS[hook].of_families:
            families = self._table("tg2hdl_families").by_name.values()
            found += [
                (plugin, descriptor) for family, plugin in families for descriptor in getattr(family, within)
            ]
        return found

    def _fits(self, hook: str, plugin: str, descriptor: Any) -> bool:
        fault = (
            find_fault(descriptor, KINDS[hook].descriptor)
            or self._unknown_op(hook, descriptor)
            or self._unknown_part(hook, descriptor)
            or self._pass_fault(hook, plugin, descriptor)
        )
        if fault is not None:
            self._loader.report(plugin, *fault, hook)
        return fault is None

    def _pass_fault(self, hook: str, plugin: str, descriptor: Any) -> tuple[str, str] | None:
        if hook != "tg2hdl_passes" or self._loader.distributions[plugin] in BUILT_IN:
            return None
        return find_pass_fault(descriptor)

    def _leave_out_misplaced(self, table: _Table) -> None:
        """Rewrites whose `before` or `after` names none of their stage are reported, and left out."""
        found = [definition for definition, _ in table.by_name.values()]
        for wrong in in_order(found)[1]:
            _, plugin = table.by_name.pop(wrong.name)
            others = [other.name for other in found if other.place == wrong.place and not other.anchor]
            side = "before" if wrong.before else "after"
            reason = f"pass {wrong.name!r} has {side}={wrong.anchor!r}, which no rewrite of stage {wrong.place!r} is"
            hint = f"name one of {', '.join(others)}" if others else f"leave out {side}"
            self._loader.report(plugin, reason, hint, "tg2hdl_passes")

    def _unknown_op(self, hook: str, descriptor: Any) -> tuple[str, str] | None:
        """A unit, a lowering or an operation of tinygrad for an op that no plugin has."""
        if hook not in ("tg2hdl_arithmetic_units", "tg2hdl_op_lowerings", "tg2hdl_tinygrad_ops"):
            return None
        ops = self._table("tg2hdl_ops")
        # Without any op, as in a registry of units only, there is nothing to compare with.
        if not ops.by_name or descriptor.op in ops.by_name or descriptor.op in ops.contested:
            return None
        reason = (
            f"{KINDS[hook].label} {descriptor.name!r} is for op {descriptor.op!r}, which nothing registers"
        )
        return reason, "return its OpDef from tg2hdl_ops, or name one of: " + ", ".join(sorted(ops.by_name))

    def _unknown_part(self, hook: str, descriptor: Any) -> tuple[str, str] | None:
        """A board with a part that no plugin has."""
        if hook != "tg2hdl_boards":
            return None
        parts = self._table("tg2hdl_targets")
        if not parts.by_name or descriptor.part in parts.by_name or descriptor.part in parts.contested:
            return None
        reason = f"board {descriptor.name!r} is on the part {descriptor.part!r}, which nothing registers"
        return reason, "return its TargetDef from tg2hdl_targets, or name one of: " + ", ".join(
            sorted(parts.by_name)
        )

    def _add(self, table: _Table, hook: str, plugin: str, descriptor: Any) -> None:
        self._owners[id(descriptor)] = (descriptor, plugin)
        if descriptor.name not in table.by_name and descriptor.name not in table.contested:
            table.by_name[descriptor.name] = (descriptor, plugin)
            return
        label = f"{KINDS[hook].label} {descriptor.name!r}"
        first = table.contested.get(descriptor.name, ("",))[0] or table.by_name[descriptor.name][1]
        owner = self._loader.distributions[first]
        if owner in BUILT_IN:
            hint = f"rename it, e.g. myext.{descriptor.name}"
            self._loader.report(plugin, f"{label} is taken by {owner}; this one is left out", hint, hook)
            return
        hint = f"rename one, or disable one with --no-plugin {plugin}"
        self._loader.report(plugin, f"{label} is registered by {owner} too; neither is used", hint, hook)
        table.by_name.pop(descriptor.name, None)
        table.contested.setdefault(descriptor.name, (first, plugin))
