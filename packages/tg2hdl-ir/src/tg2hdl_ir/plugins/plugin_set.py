"""Loaded plugins: their descriptors, the owner of each, and their problems."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Self, TypeVar

from tg2hdl_ir.errors import PluginError, Tg2hdlError, unknown_name
from tg2hdl_ir.limits import system_error
from tg2hdl_ir.plugins.catalog import KINDS, Catalog
from tg2hdl_ir.plugins.descriptors import resolve
from tg2hdl_ir.plugins.loader import PluginLoader, PluginProblem
from tg2hdl_ir.turns import in_turn

__all__ = ["PluginSet"]

T = TypeVar("T")


class PluginSet:
    """Loaded plugins: their descriptors by name, and the owner of each.

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
        self._begun = self._loaded = False
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
        if self._begun:
            raise PluginError("plugins are loaded already", hint="disable them before the first lookup")
        self._disabled.update(names)

    def _load(self) -> None:
        if not self._loaded:
            self._load_once()

    @in_turn
    def _load_once(self) -> None:
        if not self._begun:  # a plugin may look something up while it is loaded
            self._begun = True
            self._loader.load(self._disabled)
            self._changed()
            self._loaded = True

    @contextmanager
    def extended(self, *plugins: object, distribution: str = "extra") -> Iterator[Self]:
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
            raise PluginError(
                f"{descriptor!r} is not registered", hint="give a descriptor that the registry returned"
            )
        return owner

    def distribution(self, descriptor: object) -> str:
        """Name of the distribution that registered a descriptor."""
        return self._loader.distributions[self.plugin(descriptor)]

    def factory(self, descriptor: Any, field: str) -> Callable[..., Any]:
        """Function or class that a field of a descriptor names.

        Parameters
        ----------
        descriptor : object
            Registered by a plugin.
        field : str
            Name of the field.

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
        """The result of the `factory` of a descriptor.

        Parameters
        ----------
        descriptor
            A descriptor that a hook returned.
        field : str
            Field that holds the factory or its ``"module:attribute"``.
        *arguments, **options
            Passed to the factory.

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
            if found := system_error(error):
                raise found from error
            raise self.fault(descriptor, f": {field} raised {type(error).__name__}: {error}") from error

    def make(self, descriptor: Any, field: str, kind: type[T], *arguments: Any, **options: Any) -> T:
        """The object that the `factory` of a descriptor makes, of the kind that its hook asks for.

        Parameters
        ----------
        descriptor
            A descriptor that a hook returned.
        field : str
            Field that holds the factory or its ``"module:attribute"``.
        kind : type of T
            Class that the result must have.
        *arguments, **options
            Passed to the factory.

        Raises
        ------
        PluginError
            When it is not, or as for `call`; the plugin is named.
        """
        made = self.call(descriptor, field, *arguments, **options)
        if not isinstance(made, kind):
            raise self.fault(descriptor, f": {field} made {type(made).__name__}, not {kind.__name__}")
        return made

    def subclass(self, descriptor: Any, field: str, base: type[T]) -> type[T]:
        """Class that a field of a descriptor names.

        Parameters
        ----------
        descriptor
            A descriptor that a hook returned.
        field : str
            Field that holds the class or its ``"module:attribute"``.
        base : type of T
            Class that it must extend.

        Raises
        ------
        PluginError
            When it is not a subclass of `base`, or cannot be imported; the plugin is named.
        """
        found = self.factory(descriptor, field)
        if not (isinstance(found, type) and issubclass(found, base)):
            raise self.fault(descriptor, f": {field} is not a subclass of {base.__name__}")
        return found

    def fault(self, descriptor: Any, what: str) -> PluginError:
        """Error about a descriptor; it names the descriptor and the plugin.

        Parameters
        ----------
        descriptor : object
            Registered by a plugin.
        what : str
            Rest of the message.
        """
        label = next((k.label for k in KINDS.values() if k.descriptor is type(descriptor)), "descriptor")
        plugin = self._catalog.owner(descriptor)
        return PluginError(
            f"{label} {descriptor.name!r} of plugin {plugin!r}{what}",
            hint=f"upgrade the plugin, or disable it with --no-plugin {plugin}",
        )

    def notes(self) -> tuple[str, ...]:
        """Lines about faulty plugins, for errors that they may explain."""
        return tuple(map(str, self.problems))

    def _one(self, hook: str, kind: type[T], name: str) -> T:
        self._load()
        found: T | None = self._catalog.get(hook, name)
        if found is None:
            message = f"no {KINDS[hook].label} is named {name!r}"
            raise unknown_name(message, name, self._catalog.names(hook), notes=self.notes())
        return found

    def contributions(self, plugin: str) -> dict[str, list[Any]]:
        """Descriptors of a plugin by hook."""
        self._load()
        return self._catalog.of_plugin(plugin)

    def describe(self) -> dict[str, Any]:
        """Plugins with contributions and problems: plain data for ``tg2hdl plugins list --json``."""
        return _describe_plugins(self._loader, self._catalog, self.problems)


def _describe_plugins(
    loader: PluginLoader, catalog: Catalog, problems: Iterable[PluginProblem]
) -> dict[str, Any]:
    """Return plugins and problems.

    A plugin is ``loaded``, ``disabled``, ``broken`` (not loaded) or ``faulty`` (something of it is left out).
    """
    whole = {problem.plugin for problem in problems if not problem.hook}
    partly = {problem.plugin for problem in problems if problem.hook}
    plugins = []
    for name, distribution in sorted(loader.distributions.items()):
        status = "broken" if name in whole else "faulty" if name in partly else "loaded"
        plugins.append(
            {
                "name": name,
                "distribution": distribution,
                "version": _version(distribution),
                "status": "disabled" if name in loader.disabled else status,
                "provides": {h: [d.name for d in of] for h, of in catalog.of_plugin(name).items()},
            }
        )
    return {
        "plugins": plugins,
        "problems": [
            {
                "plugin": problem.plugin,
                "distribution": problem.distribution,
                "hook": problem.hook,
                "reason": problem.reason,
                "hint": problem.hint,
            }
            for problem in problems
        ],
    }


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""
