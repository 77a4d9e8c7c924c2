"""Names of a package that are imported when they are first used, so that loading it costs nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["lazy_names"]


def lazy_names(
    package: str, modules: Mapping[str, tuple[str, ...]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package.

    Parameters
    ----------
    package : str
        Its ``__name__``.
    modules : mapping of str to tuple of str
        Names by module, which is relative to the package where it begins with a dot; ``"run as go"`` renames.
    """
    pairs = [(m, *name.partition(" as ")[::2]) for m, names in modules.items() for name in names]
    owners = {given or name: (module, name) for module, name, given in pairs}

    def __getattr__(name: str) -> Any:
        if name not in owners:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, inner = owners[name]
        return getattr(import_module(module, package), inner)

    def __dir__() -> list[str]:
        found = vars(sys.modules[package])
        return sorted({*found.get("__all__", owners), *(name for name in found if name.startswith("__"))})

    return __getattr__, __dir__
