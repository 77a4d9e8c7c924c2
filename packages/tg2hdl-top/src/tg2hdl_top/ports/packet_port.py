"""Links: host ports that carry packets, and how a board connects them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from amaranth import Module

from tg2hdl_ir import InputError, registry
from tg2hdl_ir.errors import unknown_name
from tg2hdl_top.ports.base import HostPort, port_class

__all__ = ["LinkSettings", "PacketPort", "link_class", "link_kinds"]


@dataclass(frozen=True)
class LinkSettings:
    """What a build decides about the link of a board.

    Parameters
    ----------
    divisor : int
        Clock cycles of a bit, for a link with a rate.
    ip : int
        IPv4 address, for a link with one.
    """

    divisor: int = 0
    ip: int = 0


class PacketPort(HostPort):
    """A link: a host port that carries requests and replies in packets; ``--link`` takes its name.

    Attributes
    ----------
    has_rate : bool
        Whether the link has a rate (baud) that divides the clock of the design.
    device : str
        What a host gives to ``connect``, as an example.
    clocks : mapping of str to float
        Clock domains besides ``sync`` that a board makes for the link, and their MHz.
    has_address : bool
        Whether the design has an IP address.
    has_ddr : bool
        Whether its pins have two values in a cycle.
    """

    by_element = True
    needs_identity = True
    has_rate = False
    device = "/dev/ttyUSB0"
    clocks: Mapping[str, float] = MappingProxyType({})
    has_address = False
    has_ddr = False

    @classmethod
    def has_pins(cls, platform: Any) -> bool:
        """Whether a board has the pins of the link, of any family; no board unless a link overrides this.

        Parameters
        ----------
        platform : amaranth.build.Platform
        """
        return False

    @classmethod
    def connect_pins(cls, m: Module, platform: Any, top: Any, settings: LinkSettings) -> None:
        """Connect the design to the pins of a board that has them.

        Parameters
        ----------
        m : Module
            Top module of the board, with the clock domain ``sync`` of the design, and those of the link.
        platform : amaranth.build.Platform
        top : Component
            The design; it has the members of `outside`.
        settings : LinkSettings
        """
        raise NotImplementedError(f"{cls.__name__}.has_pins says that there are none")


def link_kinds() -> tuple[str, ...]:
    """Names of the host ports that are links."""
    return tuple(d.name for d in registry().ports() if issubclass(port_class(d.name), PacketPort))


def link_class(kind: str) -> type[PacketPort]:
    """Class of the link of a name.

    Raises
    ------
    InputError
        For the name of a host port that carries no packets, or of none; the links are listed.
    """
    names = [d.name for d in registry().ports()]
    found = port_class(kind) if kind in names else None
    if found is None or not issubclass(found, PacketPort):
        known = link_kinds()
        if found is None:
            raise unknown_name(f"link {kind!r} is unknown", kind, known)
        raise InputError(
            f"the host port {kind!r} is not a link: it carries no packets",
            hint=f"choose one of: {', '.join(known)}; or give --port {kind} without --link",
        )
    return found
