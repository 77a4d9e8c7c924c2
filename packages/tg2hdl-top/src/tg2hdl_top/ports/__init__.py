"""Host ports: how a host loads, starts and reads a design."""

from __future__ import annotations

from tg2hdl_top.ports.base import (
    HostDriver,
    HostPort,
    PortPlan,
    build_port,
    need_identity,
    open_driver,
    opening_cycles,
    overlaps_runs,
    plan_ports,
    register_map_of,
    writes_elements,
)
from tg2hdl_top.ports.packet_port import LinkSettings, PacketPort, link_class, link_kinds

__all__ = [
    "HostDriver",
    "HostPort",
    "LinkSettings",
    "PacketPort",
    "PortPlan",
    "build_port",
    "link_class",
    "link_kinds",
    "need_identity",
    "open_driver",
    "opening_cycles",
    "overlaps_runs",
    "plan_ports",
    "register_map_of",
    "writes_elements",
]
