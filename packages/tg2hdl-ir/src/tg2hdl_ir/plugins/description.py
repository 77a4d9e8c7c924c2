"""The plugins of an environment as plain data."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterable
from typing import Any

from tg2hdl_ir.plugins.catalog import Catalog
from tg2hdl_ir.plugins.loader import PluginLoader
from tg2hdl_ir.plugins.problems import PluginProblem

__all__ = ["describe_plugins"]


def describe_plugins(
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
