"""Lets tinygrad find the device HDL and those of plugins: ``tinygrad.runtime.ops_hdl`` is an alias of tg2hdl's module.

A plugin names its device class in the entry points of the group ``tg2hdl.tinygrad_devices``, by its name in small
letters.  tinygrad's own device CPU compiles with clang; without clang the golden model computes in its place, and
without a cache that can be written it works without one.

A ``.pth`` file installs both when Python starts: ``DEV=HDL python program.py`` works on programs that never import
tg2hdl.  Packages that use tinygrad install them too, because editable installs have no such file.  Nothing is imported
before tinygrad asks for a device.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # that of `typing`, whose import every start of Python would pay for
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

__all__ = ["install"]

_PREFIX = "tinygrad.runtime.ops_"
_CPU = f"{_PREFIX}cpu"
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

        loader: Any = self  # by its two methods; its base class would be imported at every start
        return ModuleSpec(name, loader)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        from importlib import import_module

        owner, _, device = _device_class(module.__name__.removeprefix(_PREFIX)).partition(":")
        vars(module)[device] = getattr(import_module(owner), device)


class _CpuFinder:
    """Meta path finder of tinygrad's device CPU, which is changed when its module is loaded."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != _CPU:
            return None
        from importlib.machinery import PathFinder

        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader
            load = loader.exec_module

            def load_and_change(module: ModuleType) -> None:
                load(module)
                _compute_without_clang(module)

            loader.exec_module = load_and_change
        return spec


def _compute_without_clang(module: Any) -> None:
    """Have the golden model compute where tinygrad opens its device CPU and there is no clang."""
    device = module.CPUDevice
    if "__new__" in vars(device):
        return

    def new(cls: type, *arguments: Any, **options: Any) -> Any:
        if cls is not device or _compiles():
            _compute_without_cache()
            return object.__new__(cls)
        from tg2hdl_backend.hdl_device import GoldenCPUDevice

        return GoldenCPUDevice(*arguments, **options)

    device.__new__ = staticmethod(new)


def _compiles() -> bool:
    """Whether tinygrad's CPU device has a compiler; the user may have named another one than clang."""
    import os
    from shutil import which

    from tinygrad.helpers import DEV

    return bool(DEV.target("CPU").renderer) or which(os.environ.get("CC") or "clang") is not None


def _compute_without_cache() -> None:
    """Have tinygrad keep no kernels where it cannot write: in a read-only home it would find no device."""
    import logging
    import os

    from tinygrad.helpers import CACHEDB, CACHELEVEL

    folder = os.path.dirname(CACHEDB)
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError:
        can_write = False
    else:
        can_write = all(os.access(p, os.W_OK) for p in (folder, CACHEDB) if os.path.exists(p))
    if CACHELEVEL and not can_write:
        CACHELEVEL.value = 0
        log = logging.getLogger("tg2hdl")
        log.warning("tinygrad cannot write %s; it compiles its kernels anew in each process", folder)


def install() -> None:
    """Install the finders once."""
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    sys.meta_path.insert(0, _CpuFinder())
    sys.meta_path.append(_Finder())
    if _CPU in sys.modules:
        _compute_without_clang(sys.modules[_CPU])
