"""The registry: loads plugins, names conflicts and answers what is there."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from tg2hdl_ir.dtype import DType
from tg2hdl_ir.errors import PluginError, Tg2hdlError, UnsupportedError
from tg2hdl_ir.plugins.catalog import KINDS, Catalog
from tg2hdl_ir.plugins.description import describe_plugins
from tg2hdl_ir.plugins.descriptors import (
    ArithmeticUnit,
    BoardDef,
    CommandDef,
    FamilyDef,
    FlowDef,
    HostPortDef,
    MemoryKindDef,
    MemoryPortDef,
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
from tg2hdl_ir.plugins.loader import PluginLoader
from tg2hdl_ir.plugins.problems import PluginProblem
from tg2hdl_ir.plugins.selection import best_lowering, best_unit

__all__ = ["Registry", "registry", "use_registry"]

T = TypeVar("T")
_T = TypeVar("_T")


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
        self._loader = PluginLoader(entry_points)
        self._catalog = Catalog(self._loader)
        self._disabled: set[str] = set()
        self._loaded = False
        self._cache: dict[Any, Any] = {}
        self.generation = 0

    # Loading

    @property
    def problems(self) -> tuple[PluginProblem, ...]:
        """Problems of plugins; everything not listed here works."""
        self._load()
        self._catalog.check_all()
        return tuple(self._loader.problems)

    def disable(self, *names: str) -> None:
        """Leave out plugins, named as `plugins list` shows them, by entry point or by distribution.

        Raises
        ------
        PluginError
            When plugins are loaded already.
        """
        if self._loaded:
            raise PluginError("plugins are loaded already", hint="disable them before the first lookup")
        self._disabled.update(names)

    def _load(self) -> None:
        if not self._loaded:
            self._loaded = True
            self._loader.load(self._disabled)
            self._changed()

    @contextmanager
    def extended(self, *plugins: object, distribution: str = "extra") -> Iterator[Registry]:
        """Register further plugin objects (modules or namespaces with hook implementations) inside the context.

        Raises
        ------
        PluginError
            When one implements a hook that does not exist.
        """
        self._load()
        names: list[str] = []
        problems = list(self._loader.problems)
        try:
            for number, plugin in enumerate(plugins):
                name = f"{distribution}:{getattr(plugin, '__name__', type(plugin).__name__)}.{number}"
                self._loader.register(plugin, name, distribution)
                names.append(name)
                self._changed()
            yield self
        finally:
            for name in names:
                self._loader.unregister(name)
            self._loader.problems = problems
            self._changed()

    def _changed(self) -> None:
        self._cache.clear()
        self._catalog.clear()
        self.generation += 1

    # Collecting

    def _all(self, hook: str, _: type[T], order: Callable[[T], Any]) -> tuple[T, ...]:
        self._load()
        return tuple(sorted(self._catalog.all(hook), key=order))

    def plugin(self, descriptor: object) -> str:
        """Name of the plugin that registered a descriptor."""
        self._load()
        owner = self._catalog.owner(descriptor)
        if owner is None:
            raise PluginError(f"{descriptor!r} is not registered")
        return owner

    def distribution(self, descriptor: object) -> str:
        """Name of the distribution that registered a descriptor."""
        return self._loader.distributions[self.plugin(descriptor)]

    def factory(self, descriptor: Any, field: str) -> Callable[..., Any]:
        """Function or class that a field of a descriptor names.

        Raises
        ------
        PluginError
            When it cannot be imported; the plugin is named.
        """
        try:
            return resolve(getattr(descriptor, field))
        except PluginError as error:
            raise self.fault(descriptor, f": {error.message}") from error

    def call(self, descriptor: Any, field: str, *arguments: Any, **options: Any) -> Any:
        """What the `factory` of a descriptor returns.

        Raises
        ------
        PluginError
            When it raises something else than an error of this project; the plugin is named.
        """
        function = self.factory(descriptor, field)
        try:
            return function(*arguments, **options)
        except Tg2hdlError:
            raise
        except (Exception, SystemExit) as error:
            raise self.fault(descriptor, f": {field} raised {type(error).__name__}: {error}") from error

    def make(self, descriptor: Any, field: str, kind: type[_T], *arguments: Any, **options: Any) -> _T:
        """What the `factory` of a descriptor makes, which is of the kind that its hook asks for.

        Raises
        ------
        PluginError
            When it is not, or as for `call`; the plugin is named.
        """
        made = self.call(descriptor, field, *arguments, **options)
        if not isinstance(made, kind):
            raise self.fault(descriptor, f": {field} made {type(made).__name__}, not {kind.__name__}")
        return made

    def subclass(self, descriptor: Any, field: str, base: type[_T]) -> type[_T]:
        """Class that a field of a descriptor names.

        Raises
        ------
        PluginError
            When it is no subclass of `base`, or cannot be imported; the plugin is named.
        """
        found = self.factory(descriptor, field)
        if not (isinstance(found, type) and issubclass(found, base)):
            raise self.fault(descriptor, f": {field} is not a subclass of {base.__name__}")
        return found

    def fault(self, descriptor: Any, what: str) -> PluginError:
        """Error about what a plugin registered; it names the descriptor and the plugin."""
        label = next((k.label for k in KINDS.values() if k.descriptor is type(descriptor)), "descriptor")
        plugin = self._catalog.owner(descriptor)
        return PluginError(
            f"{label} {descriptor.name!r} of plugin {plugin!r}{what}",
            hint=f"upgrade the plugin, or disable it with --no-plugin {plugin}",
        )

    def notes(self) -> tuple[str, ...]:
        """Lines about faulty plugins, for errors that they may explain."""
        return tuple(map(str, self.problems))

    # Lookups

    def op(self, name: str) -> OpDef:
        """Return the op of a name.

        Raises
        ------
        UnsupportedError
            When no plugin registers it.
        PluginError
            When two plugins do.
        """
        self._load()
        found = self._catalog.get("tg2hdl_ops", name)
        if found is None:
            raise UnsupportedError(
                f"unknown op {name!r}",
                notes=self.notes(),
                hint="known: " + ", ".join(self._catalog.names("tg2hdl_ops")) + "; a plugin may add others",
            )
        return found  # type: ignore[no-any-return]

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

        Among units with these formats: the user's explicit choice, then that of a policy plugin, then units for the
        target before generic ones, then the highest priority.

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
            if names:
                self._check_names(op, names)
            self._cache[key] = best_unit(
                self.units(op, operands, result),
                target,
                names,
                lambda candidates: self.policy(op, operands, result, candidates),
                self.distribution,
            )
        return self._cache[key]  # type: ignore[no-any-return]

    def policy(
        self, op: str, operands: tuple[DType, ...], result: DType, candidates: list[ArithmeticUnit]
    ) -> ArithmeticUnit | None:
        """Choice of the first policy plugin that makes one.

        Raises
        ------
        PluginError
            When a policy raises; results may depend on it, so the error is not ignored.
        """
        self._load()
        given = {"op": op, "operands": operands, "result": result, "candidates": candidates}
        for plugin, implementation in reversed(self._loader.implementations("tg2hdl_select_unit")):
            try:
                chosen = implementation.function(*(given[name] for name in implementation.argnames))
            except Exception as error:
                raise PluginError(
                    f"the policy tg2hdl_select_unit of plugin {plugin!r} raised {type(error).__name__}: {error}",
                    where=f"op {op!r}",
                    hint=self._loader.remedy(plugin),
                ) from error
            if chosen is None:
                continue
            if chosen not in candidates:
                raise PluginError(
                    f"the policy tg2hdl_select_unit of plugin {plugin!r} chose {chosen!r:.80} for op {op!r}, "
                    "which is not a candidate",
                    hint="return one of the candidates, or None",
                )
            return chosen  # type: ignore[no-any-return]
        return None

    def check_units(self, explicit: Mapping[str, str | Sequence[str]]) -> None:
        """Check an explicit choice of units.

        Raises
        ------
        PluginError
            For an op that nothing registers, or a unit that is not of its op.
        """
        for op in explicit:
            try:
                self.op(op)
            except UnsupportedError as error:
                raise PluginError(
                    f"a unit is chosen for op {op!r}, which nothing registers",
                    notes=error.notes,
                    hint=error.hint,
                ) from error
            self._check_names(op, _names(explicit, op))

    def _check_names(self, op: str, names: Sequence[str]) -> None:
        known = {u.name for u in self.units(op)}
        for name in names:
            if name not in known:
                raise PluginError(
                    f"no unit for op {op!r} is named {name!r}",
                    notes=self.notes(),
                    hint="known: " + (", ".join(sorted(known)) or "none"),
                )

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

        Where all candidate units agree, none needs to be selected.
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
            self._cache[key] = best_lowering(
                self.lowerings(op), operands, result, self.distribution, self.plugin
            )
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
        self._load()
        key = ("onnx operators",)
        if key not in self._cache:
            found: dict[tuple[str, str], list[OnnxOperatorDef]] = {}
            for definition in self._catalog.all("tg2hdl_onnx_operators"):
                found.setdefault((definition.domain, definition.op_type), []).append(definition)
            self._cache[key] = found
        for name in self._catalog.contested("tg2hdl_onnx_operators"):
            if name.startswith(f"{domain or 'ai.onnx'}:{op_type}-"):
                self._catalog.get("tg2hdl_onnx_operators", name)
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
        return self._one("tg2hdl_simulators", SimulatorDef, name)

    def target(self, name: str) -> TargetDef:
        """Return the target of a name; others are a PluginError that lists the known ones."""
        return self._one("tg2hdl_targets", TargetDef, name)

    def flow(self, family: str) -> FlowDef:
        """Return the synthesis flow of a family; others are a PluginError that lists the known ones."""
        return self._one("tg2hdl_flows", FlowDef, family)

    def memory_kind(self, name: str) -> MemoryKindDef:
        """Return the kind of memory of a name; others are a PluginError that lists the known ones."""
        return self._one("tg2hdl_memory_kinds", MemoryKindDef, name)

    def port(self, name: str) -> HostPortDef:
        """Return the host port of a name; others are a PluginError that lists the known ones."""
        return self._one("tg2hdl_ports", HostPortDef, name)

    def memory_ports(self) -> tuple[MemoryPortDef, ...]:
        """Ports to memory outside the chip, by name."""
        return self._all("tg2hdl_memory_ports", MemoryPortDef, lambda d: d.name)

    def memory_port(self, name: str) -> MemoryPortDef:
        """Return the memory port of a name; others are a PluginError that lists the known ones."""
        return self._one("tg2hdl_memory_ports", MemoryPortDef, name)

    def board(self, name: str) -> BoardDef:
        """Return the board of a name; others are a PluginError that lists the known ones."""
        return self._one("tg2hdl_boards", BoardDef, name)

    def sequencer(self, name: str) -> SequencerDef:
        """Return the sequencing policy of a name; others are a PluginError that lists the known ones."""
        return self._one("tg2hdl_sequencers", SequencerDef, name)

    def quantizer(self, name: str) -> QuantizerDef:
        """Return the quantization method of a name; others are a PluginError that lists the known ones."""
        return self._one("tg2hdl_quantizers", QuantizerDef, name)

    def _one(self, hook: str, kind: type[T], name: str) -> T:
        self._load()
        found: T | None = self._catalog.get(hook, name)
        if found is None:
            raise PluginError(
                f"no {KINDS[hook].label} is named {name!r}",
                notes=self.notes(),
                hint="known: " + (", ".join(self._catalog.names(hook)) or "none"),
            )
        return found

    def command(self, name: str) -> CommandDef | None:
        """Return the command of a name; None without one.

        Raises
        ------
        PluginError
            When two plugins claim it.
        """
        self._load()
        return self._catalog.get("tg2hdl_commands", name)

    def unavailable(self, engine: SimulatorDef) -> str | None:
        """Why an engine cannot run here, None when it can; one whose check raises cannot."""
        try:
            reason = resolve(engine.available)()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return f"plugin {self.plugin(engine)!r}: available raised {type(error).__name__}: {error}"
        return None if reason is None else str(reason)

    def contributions(self, plugin: str) -> dict[str, list[Any]]:
        """Descriptors of a plugin by hook."""
        self._load()
        return self._catalog.of_plugin(plugin)

    def describe(self) -> dict[str, Any]:
        """Plugins, what each contributes and what is wrong: plain data for ``tg2hdl plugins list --json``."""
        return describe_plugins(self._loader, self._catalog, self.problems)


def _names(explicit: Mapping[str, str | Sequence[str]] | None, op: str) -> tuple[str, ...]:
    names = (explicit or {}).get(op, ())
    return (names,) if isinstance(names, str) else tuple(names)


_default = Registry()


def registry() -> Registry:
    """Return the registry of this process; plugins load at the first lookup."""
    return _default


@contextmanager
def use_registry(replacement: Registry) -> Iterator[Registry]:
    """Use another registry for this process inside the context."""
    global _default
    previous, _default = _default, replacement
    try:
        yield replacement
    finally:
        _default = previous
