"""The parts of Amaranth's private interface that this package uses: its netlist, for which there is no public way.

Everything of it is imported here, so that a version of Amaranth that moves it is noticed in one place, with a clear
message.
"""

import importlib.metadata

try:
    from amaranth.hdl import _nir as nir
    from amaranth.hdl._ast import ValueCastable
    from amaranth.hdl._ir import PortDirection, build_netlist
except ImportError as error:
    raise ImportError(
        f"Amaranth {importlib.metadata.version('amaranth')} has moved internals that tg2hdl_fp32.testing needs "
        f"({error}); install amaranth>=0.5.4,<0.6"
    ) from error

__all__ = ["PortDirection", "ValueCastable", "build_netlist", "nir"]
