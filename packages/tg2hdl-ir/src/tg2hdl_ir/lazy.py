"""Faces of packages: names that are imported when they are first used, so that loading a package costs nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

__all__ = ["lazy_face"]


def lazy_face(package: str) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """``__all__``, ``__getattr__`` and ``__dir__`` of a package from its type stub, ``__init__.pyi``.

    Each name has its line in the stub, ``from .module import name as name``, which type checkers read too.

    Parameters
    ----------
    package : str
        Its ``__name__``.
    """
    module: Any = sys.modules[package]
    stub = module.__spec__.loader.get_data(f"{module.__file__}i").decode()
    lines = [line.split() for line in stub.splitlines() if line.startswith("from ")]
    owners = {given: (owner, name) for _, owner, _, name, _, given in lines}

    def __getattr__(name: str) -> Any:
        if name not in owners:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        owner, inner = owners[name]
        return getattr(import_module(owner, package), inner)

    def __dir__() -> list[str]:
        return sorted({*owners, *(name for name in vars(module) if name.startswith("__"))})

    return sorted(owners), __getattr__, __dir__
