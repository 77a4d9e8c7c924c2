"""The only file of this package that imports private modules of Amaranth: those of its RTLIL writer."""

from __future__ import annotations

import importlib.metadata

try:
    from amaranth.back.rtlil import Design, EmptyModuleChecker, ModuleEmitter
    from amaranth.hdl import Fragment, Value
    from amaranth.hdl import _nir as nir
    from amaranth.hdl._ast import SignalDict
    from amaranth.hdl._ir import PortDirection, build_netlist
except ImportError as error:
    raise ImportError(
        f"Amaranth {importlib.metadata.version('amaranth')} has moved what tg2hdl needs ({error}); "
        "install amaranth>=0.5.4,<0.6"
    ) from error

__all__ = [
    "Design",
    "EmptyModuleChecker",
    "Fragment",
    "ModuleEmitter",
    "PortDirection",
    "SignalDict",
    "Value",
    "build_netlist",
    "nir",
]
