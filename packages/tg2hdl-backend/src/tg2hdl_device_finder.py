"""Lets tinygrad find the device HDL and those of plugins: ``tinygrad.runtime.ops_hdl`` is an alias of tg2hdl's module.

A plugin names its device class in the entry points of the group ``tg2hdl.tinygrad_devices``, by its name in small
letters.  A ``.pth`` file installs the finder when Python starts: ``DEV=HDL python program.py`` works on programs
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

_PREFIX = "tinygrad.runtime.ops_"
_GROUP = "tg2hdl.tinygrad_devices"


def _device_class(name: str) -> str:
    """``module:class`` of a device, by its name in small letters; empty for others."""
    if name == "hdl":
        return "tg2hdl_backend.hdl_device:HDLDevice"
    from importlib.metadata import entry_points

    return next((entry.value for entry in entry_points(group=_GROUP, name=name)), "")


class _Finder:
    """Meta path finder of the modules of these devices."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not name.startswith(_PREFIX) or not _device_class(name.removeprefix(_PREFIX)):
            return None
        from importlib.machinery import ModuleSpec
        from typing import Any

        loader: Any = self  # by its two methods; its base class would be imported at every start
        return ModuleSpec(name, loader)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        from importlib import import_module

        owner, _, device = _device_class(module.__name__.removeprefix(_PREFIX)).partition(":")
        vars(module)[device] = getattr(import_module(owner), device)


def install() -> None:
    """Install the finder once."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())
