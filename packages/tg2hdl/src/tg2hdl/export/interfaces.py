"""Standard interfaces: how the tools of vendors name them and their signals."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["INTERFACES", "Interface", "WrapperPort", "interface_info"]


@dataclass(frozen=True)
class WrapperPort:
    """A port of the wrapper and the one of the core that it is connected to.

    Parameters
    ----------
    group, signal : str
        Interface that it belongs to, such as ``s_axil``, and its name there; `signal` is empty for a port that is no
        interface.
    width : int
        In bits.
    """

    name: str
    core: str
    group: str
    signal: str
    width: int
    is_input: bool


@dataclass(frozen=True)
class Interface:
    """An interface as IP-XACT and Platform Designer name it.

    Parameters
    ----------
    kind : str
        Of the library ``interface`` or ``signal`` of Xilinx, version 1.0.
    protocol : str
        Value of the parameter PROTOCOL of Xilinx; empty without one.
    platform_designer : str
        Type of the interface in Platform Designer.
    is_master : bool
    """

    kind: str
    protocol: str
    platform_designer: str
    is_master: bool = False


INTERFACES = {
    "s_axil": Interface("aximm", "AXI4LITE", "axi4lite"),
    "m_axi": Interface("aximm", "AXI4", "axi4", is_master=True),
    "s_axis": Interface("axis", "", "axi4stream"),
    "m_axis": Interface("axis", "", "axi4stream", is_master=True),
}
"""By the first part of the names of their ports; other groups have no type that a tool knows."""


def interface_info(port: WrapperPort) -> str | None:
    """Value of the attribute X_INTERFACE_INFO; None for a port of no known interface."""
    if port.group == "irq":
        return "xilinx.com:signal:interrupt:1.0 irq INTERRUPT"
    known = INTERFACES.get(port.group)
    if known is None:
        return None
    return f"xilinx.com:interface:{known.kind}:1.0 {port.group.upper()} {port.signal.upper()}"
