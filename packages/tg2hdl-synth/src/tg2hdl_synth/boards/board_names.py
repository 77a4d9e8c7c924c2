"""Boards by their names, or by the class of a platform of Amaranth."""

from __future__ import annotations

from typing import Any

from tg2hdl_ir import BoardDef, InputError, PluginError, registry, resolve
from tg2hdl_synth.boards.links import family_of, links_of
from tg2hdl_synth.families import tools_of
from tg2hdl_synth.parts import part_named
from tg2hdl_top.ports import link_kinds

__all__ = ["board_named"]

_EXAMPLE = "amaranth_boards.icepi_zero:IcepiZero1_3Platform"


def board_named(name: str) -> BoardDef:
    """Return a registered board, or that of ``module:Class``, a platform of Amaranth with a link to its host.

    Raises
    ------
    InputError
        For an unknown name, or a class that is not a platform, whose part has no open tools, or that has no link to
        a host or no clock.
    """
    if ":" not in name:
        return registry().board(name)
    known = next((board for board in registry().boards() if board.platform == name), None)
    return known or _of_class(name)


def _of_class(name: str) -> BoardDef:
    from amaranth.build import TemplatedPlatform

    try:
        chosen: Any = resolve(name)
    except PluginError as error:
        raise InputError(
            f"there is no board {name!r}: {error.message}", hint=f"give module:Class, such as {_EXAMPLE}"
        ) from error
    if not (isinstance(chosen, type) and issubclass(chosen, TemplatedPlatform)):
        raise InputError(
            f"{name!r} is not the class of a platform of Amaranth",
            hint=f"give module:Class, such as {_EXAMPLE}",
        )
    try:
        platform: Any = chosen()
    except Exception as error:  # whatever the class of a user does
        raise InputError(
            f"{name} cannot be made: {type(error).__name__}: {error}",
            hint="give a class without arguments whose device, package and resources are complete",
        ) from error
    part, family = _part(name, platform)
    if not links_of(platform):
        raise InputError(
            f"{name} has no link to a host: {', '.join(link_kinds())}",
            hint="give a subclass that has amaranth_boards.resources.UARTResource(0, rx=..., tx=...)",
        )
    if (platform.default_clk, 0) not in platform.resources:
        raise InputError(
            f"{name} has no clock at a pin by default",
            hint="give a subclass whose default_clk is a resource with a Clock",
        )
    like = [board for board in registry().boards() if part_named(board.part).family == family]
    first = min((board.first_clock for board in like), default=BoardDef.first_clock)
    made = tools_of(family).board_platform(chosen, part)
    return BoardDef(name, f"{chosen.__name__} of {chosen.__module__}", part, made, "", first)


def _part(name: str, platform: Any) -> tuple[str, str]:
    """The part of a platform, and its family."""
    found = family_of(platform)
    if found is not None:
        return found
    device = getattr(platform, "device", None) or getattr(platform, "part", "an unknown part")
    raise InputError(
        f"no open tools are known that make a bitstream for {device}, which {name} has",
        hint=f"families with tools: {', '.join(flow.name for flow in registry().flows())}; "
        "for the tools of a vendor use tg2hdl export",
    )
