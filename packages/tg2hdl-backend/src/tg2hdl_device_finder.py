"""Lets tinygrad find the device HDL: ``tinygrad.runtime.ops_hdl`` is an alias of tg2hdl's device module.

A ``.pth`` file installs the finder when Python starts: ``DEV=HDL python program.py`` works on programs
that never import tg2hdl.  Nothing is imported before tinygrad asks for the device.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # that of `typing`, whose import every start of Python would pay for
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

__all__ = ["install"]

_ALIAS = "tinygrad.runtime.ops_hdl"
_IMPLEMENTATION = "tg2hdl_backend.hdl_device"


class _Finder:
    """Meta path finder of one module."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != _ALIAS:
            return None
        from importlib.machinery import ModuleSpec
        from typing import Any

        loader: Any = self  # by its two methods; its base class would be imported at every start
        return ModuleSpec(name, loader)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        from importlib import import_module

        vars(module)["HDLDevice"] = import_module(_IMPLEMENTATION).HDLDevice


def install() -> None:
    """Install the finder once."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())
