"""The internals of Amaranth that the compiler uses: netlist and RTLIL writer, which have no public interface.

All of them are imported here, so that a version of Amaranth that moves one is noticed in one place, with a clear
message.
"""

from __future__ import annotations

import importlib.metadata

try:
    from amaranth.back.rtlil import Design as RtlilDesign
    from amaranth.back.rtlil import EmptyModuleChecker, ModuleEmitter
    from amaranth.hdl import _nir as nir
    from amaranth.hdl._ast import SignalDict
    from amaranth.hdl._ir import Design, PortDirection, build_netlist
    from amaranth.hdl._mem import MemoryInstance
    from amaranth.hdl._nir import Memory, Netlist
except ImportError as error:
    raise ImportError(
        f"Amaranth {importlib.metadata.version('amaranth')} has moved internals that tg2hdl-sim needs ({error}); "
        "install amaranth>=0.5.4,<0.6"
    ) from error

__all__ = [
    "Design",
    "EmptyModuleChecker",
    "Memory",
    "MemoryInstance",
    "ModuleEmitter",
    "Netlist",
    "PortDirection",
    "RtlilDesign",
    "SignalDict",
    "build_netlist",
    "nir",
]
