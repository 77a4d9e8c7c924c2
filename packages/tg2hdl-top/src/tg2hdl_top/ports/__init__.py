"""Host ports: how a host loads, starts and reads a design."""

from __future__ import annotations

from tg2hdl_top.ports.base import (
    HostDriver,
    HostPort,
    PortPlan,
    build_port,
    need_identity,
    open_driver,
    overlaps_runs,
    plan_ports,
    register_map_of,
    writes_elements,
)

__all__ = [
    "HostDriver",
    "HostPort",
    "PortPlan",
    "build_port",
    "need_identity",
    "open_driver",
    "overlaps_runs",
    "plan_ports",
    "register_map_of",
    "writes_elements",
]
