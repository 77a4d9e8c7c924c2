"""Loading plugins: entry points, the hooks that they implement, and those that are switched off."""

from __future__ import annotations

import importlib.metadata
import inspect
import logging
import os
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pluggy

from tg2hdl_ir.errors import PluginError
from tg2hdl_ir.plugins import hookspecs

__all__ = ["BUILT_IN", "DISABLE_VARIABLE", "PluginLoader", "PluginProblem"]

log = logging.getLogger("tg2hdl")

BUILT_IN = (
    "tg2hdl",
    "tg2hdl-backend",
    "tg2hdl-fp32",
    "tg2hdl-host",
    "tg2hdl-ir",
    "tg2hdl-lower",
    "tg2hdl-quant",
    "tg2hdl-sim",
    "tg2hdl-synth",
    "tg2hdl-tflite",
    "tg2hdl-top",
    "tg2hdl-tpu",
)
"""Distributions of this project: a plugin does not take a name that one of them has."""

DISABLE_VARIABLE = "TG2HDL_DISABLE_PLUGINS"
_KNOWN_HOOKS = tuple(n for n in vars(hookspecs) if n.startswith("tg2hdl_"))


@dataclass(frozen=True)
class PluginProblem:
    """A plugin, or one thing that it contributes, that is left out.

    Parameters
    ----------
    plugin, distribution : str
        Name of the plugin, ``distribution:entry point``, and the distribution that installs it.
    reason : str
        The fault.
    hint : str
        A way out.
    hook : str
        The hook that it is about; empty for the plugin as a whole, which is then not loaded.
    """

    plugin: str
    distribution: str
    reason: str
    hint: str
    hook: str = ""

    def __str__(self) -> str:
        hook = f", hook {self.hook}" if self.hook else ""
        return f"plugin {self.plugin!r} of {self.distribution}{hook}: {self.reason}; hint: {self.hint}"


class PluginLoader:
    """Plugins of an environment and their problems.

    Parameters
    ----------
    entry_points : iterable of (distribution name, entry point), optional
        By default those of the group ``tg2hdl`` of all installed distributions.
    """

    def __init__(self, entry_points: Iterable[tuple[str, importlib.metadata.EntryPoint]] | None) -> None:
        self._entry_points = entry_points
        self._manager = pluggy.PluginManager("tg2hdl")
        self._manager.add_hookspecs(hookspecs)
        self.distributions: dict[str, str] = {}
        self.problems: list[PluginProblem] = []
        self.disabled: set[str] = set()

    def load(self, disabled: Collection[str]) -> None:
        """Load the plugins of all entry points but those named, by plugin, entry point or distribution."""
        named = {*disabled, *filter(None, os.environ.get(DISABLE_VARIABLE, "").split(","))}
        unused = set(named)
        for distribution, entry in _installed() if self._entry_points is None else self._entry_points:
            name = f"{distribution}:{entry.name}"
            self.distributions[name] = distribution
            matched = named & {name, entry.name, distribution}
            if matched:
                unused -= matched
                self.disabled.add(name)
                continue
            try:
                self.register(entry.load(), name, distribution)
            except KeyboardInterrupt:
                raise
            except PluginError as error:
                self.report(name, error.message, error.hint or "upgrade the distribution")
            except BaseException as error:  # SystemExit too: a plugin must not end the program
                self.report(name, f"loading raised {_raised(error)}", self.remedy(name))
        for name in sorted(unused):
            log.warning("no plugin named %r is installed; nothing is disabled by it", name)

    def register(self, plugin: object, name: str, distribution: str) -> None:
        """Register a plugin object.

        Parameters
        ----------
        plugin : object
            Module or object with hook implementations.
        name : str
            Of the plugin.
        distribution : str
            That it comes with.

        Raises
        ------
        PluginError
            When it implements a hook that does not exist or requires another hook API.
        """
        self.distributions[name] = distribution
        _check_api(plugin, name, distribution)
        self._manager.register(plugin, name)
        try:
            self._manager.check_pending()
        except pluggy.PluginValidationError as error:
            self._manager.unregister(name=name)
            raise PluginError(
                f"plugin {name!r} of {distribution} implements a hook that does not exist: {error}",
                hint=f"known hooks: {', '.join(_KNOWN_HOOKS)}",
            ) from error
        hooks = {h.name for h in self._manager.get_hookcallers(plugin) or ()}
        for function in _unmarked(plugin, hooks):
            self.report(name, f"{function} is not marked", f"write @hookimpl before def {function}", function)
        if not hooks:
            self.report(name, "it implements no hook", "mark its hook functions with tg2hdl_ir.hookimpl")

    def unregister(self, name: str) -> None:
        """Forget a plugin."""
        if self._manager.has_plugin(name):
            self._manager.unregister(name=name)
        del self.distributions[name]

    def report(self, name: str, reason: str, hint: str, hook: str = "") -> None:
        """Note a problem once, and log it.

        Parameters
        ----------
        name : str
            Of the plugin.
        reason : str
            The fault.
        hint : str
            A way out.
        hook : str, optional
            Name; empty where it is not known.
        """
        problem = PluginProblem(name, self.distributions[name], reason, hint, hook)
        if problem not in self.problems:
            self.problems.append(problem)
            log.warning("%s", problem)

    def remedy(self, name: str) -> str:
        """Hint for a plugin that cannot work as it is."""
        return f"upgrade or uninstall {self.distributions[name]}, or disable it with --no-plugin {name}"

    def implementations(self, hook: str) -> list[tuple[str, Any]]:
        """Name of the plugin and pluggy's implementation, in the order of registration."""
        return [(i.plugin_name, i) for i in getattr(self._manager.hook, hook).get_hookimpls()]


def _check_api(plugin: object, name: str, distribution: str) -> None:
    wanted = getattr(plugin, hookspecs.API_ATTRIBUTE, hookspecs.HOOK_API)
    if isinstance(wanted, int) and hookspecs.OLDEST_HOOK_API <= wanted <= hookspecs.HOOK_API:
        return
    newer = not isinstance(wanted, int) or wanted > hookspecs.HOOK_API
    raise PluginError(
        f"plugin {name!r} of {distribution} needs version {wanted!r} of the hook API; tg2hdl-ir has "
        f"{hookspecs.OLDEST_HOOK_API} to {hookspecs.HOOK_API}",
        hint="upgrade tg2hdl-ir" if newer else f"upgrade {distribution}",
    )


def _unmarked(plugin: object, hooks: Collection[str]) -> Iterator[str]:
    """Functions that have a hook's name but are not implementations."""
    for name in _KNOWN_HOOKS:
        if name not in hooks and inspect.isroutine(getattr(plugin, name, None)):
            yield name


def _raised(error: BaseException) -> str:
    return f"{type(error).__name__}: {'; '.join(str(error).splitlines())}"


def _installed() -> Iterator[tuple[str, importlib.metadata.EntryPoint]]:
    seen: set[tuple[str, str]] = set()
    for distribution in importlib.metadata.distributions():
        name = distribution.metadata["Name"]
        for entry in distribution.entry_points:
            if entry.group == hookspecs.ENTRY_POINT_GROUP and (name, entry.name) not in seen:
                seen.add((name, entry.name))
                yield name, entry
