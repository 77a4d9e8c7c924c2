"""The link between a board and its host: those whose pins the board has, and that of a design."""

from __future__ import annotations

from ipaddress import IPv4Address
from typing import Any

from tg2hdl_ir import BoardDef, InputError, Tg2hdlError, registry, resolve
from tg2hdl_synth.boards.usage import BoardComponent
from tg2hdl_synth.families import Family, tools_of
from tg2hdl_top import Design
from tg2hdl_top.ports import link_class, link_kinds

__all__ = ["address_of", "check_link", "family_of", "link_of_design", "links_of", "usual_link"]

_USUAL_IP = "192.168.1.50"


def family_of(platform: Any) -> tuple[str, str] | None:
    """Name of the part of a platform, and that of its family; None without open tools.

    Parameters
    ----------
    platform : amaranth.build.Platform
    """
    for flow in registry().flows():
        try:
            found = tools_of(flow.name).part_of(platform)
        except Tg2hdlError:  # of a faulty plugin
            continue
        if found is not None:
            return found, flow.name
    return None


def links_of(platform: Any) -> tuple[str, ...]:
    """Names of the links whose pins a board has, and that its FPGA can drive; the serial line first.

    Parameters
    ----------
    platform : amaranth.build.Platform
    """
    part = family_of(platform)
    tools = Family() if part is None else tools_of(part[1])
    found = [kind for kind in link_kinds() if _serves(kind, platform, tools)]
    return tuple(sorted(found, key=lambda kind: (kind != "uart", kind)))


def _serves(kind: str, platform: Any, tools: Family) -> bool:
    link = link_class(kind)
    can_drive = tools.makes_clocks >= bool(link.clocks) and tools.has_ddr_pads >= link.has_ddr
    return can_drive and link.has_pins(platform)


def usual_link(board: BoardDef) -> str:
    """The link of a board where none is asked for: its serial line, if it has one.

    Parameters
    ----------
    board : BoardDef
        With at least one link.
    """
    return links_of(resolve(board.platform)())[0]


def check_link(kind: str, board: BoardDef, platform: Any) -> None:
    """Refuse a link whose pins a board does not have.

    Parameters
    ----------
    kind : str
        Name of the link.
    board : BoardDef
    platform : amaranth.build.Platform
        Of the board.

    Raises
    ------
    InputError
        For another link, or none; those of the board are listed.
    """
    if kind not in links_of(platform):
        has = ", ".join(links_of(platform))
        raise InputError(
            f"{board.name} has no pins for the link {kind!r}",
            hint=f"choose one that it has: {has}" if has else "choose another board",
        )


def address_of(ip: str | None, kind: str) -> int:
    """The number of the IPv4 address of a link, 0 for one that has none.

    Parameters
    ----------
    ip : str or None
        Such as 192.168.1.50, which is the usual one.
    kind : str
        Name of the link.

    Raises
    ------
    InputError
        For text that is not the address of a device, or a link that has none.
    """
    has_address = link_class(kind).has_address
    if ip is None:
        return int(IPv4Address(_USUAL_IP)) * has_address
    if not has_address:
        raise InputError(f"the link {kind!r} has no IP address", hint="leave it out, or choose the link udp")
    try:
        found = IPv4Address(ip)
    except ValueError:
        found = IPv4Address(0)
    if found.is_multicast or found.is_unspecified or found.is_loopback or found.is_reserved:
        raise InputError(f"{ip!r} is not the IPv4 address of a device", hint="give e.g. 192.168.1.50")
    return int(found)


def link_of_design(design: Design | BoardComponent, board: BoardDef, platform: Any) -> str:
    """Name of the link through which a design on a board is reached.

    Parameters
    ----------
    design : Design or BoardComponent
        A component has a serial line.
    board : BoardDef
    platform : amaranth.build.Platform
        Of the board.

    Raises
    ------
    InputError
        For a design without a link, or with one whose pins the board does not have.
    """
    if not isinstance(design, Design):
        check_link("uart", board, platform)
        return "uart"
    known = link_kinds()
    kind = next((port.kind for port in design.ports if port.kind in known), None)
    if kind is None:
        has = " or ".join(f'ports=("{name}",)' for name in links_of(platform))
        raise InputError(f"design {design.program.name} has no link to its host", hint=f"compile with {has}")
    check_link(kind, board, platform)
    return kind
