"""Lets tinygrad find the device HDL: ``tinygrad.runtime.ops_hdl`` is an alias of tg2hdl's device module.

A ``.pth`` file installs the finder when Python starts: ``DEV=HDL python program.py`` works on programs
that never import tg2hdl.  Nothing is imported before tinygrad asks for the device.
"""

import sys

__all__ = ["install"]

_ALIAS = "tinygrad.runtime.ops_hdl"
_IMPLEMENTATION = "tg2hdl_backend.hdl_device"


class _Finder:
    """Meta path finder of one module."""

    def find_spec(self, name, path=None, target=None):
        if name != _ALIAS:
            return None
        from importlib.util import spec_from_loader

        return spec_from_loader(name, self)

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        from importlib import import_module

        module.HDLDevice = import_module(_IMPLEMENTATION).HDLDevice


def install() -> None:
    """Install the finder once."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())
