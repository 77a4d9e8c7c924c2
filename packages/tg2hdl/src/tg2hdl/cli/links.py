"""The option ``--link``: a host port that carries packets."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from tg2hdl_ir import BoardDef

__all__ = ["link_for", "with_link"]


def with_link(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option that names the link.

    Parameters
    ----------
    function : callable
        Of a command, with the parameter `link`.
    """
    return click.option(
        "--link",
        metavar="NAME",
        shell_complete=_complete,
        help="Link to the host: a host port that carries packets, such as uart, spi or usb.  [default: uart, or the "
        "first that the board has]",
    )(function)


def link_for(wanted: str | None, board: BoardDef | None) -> str:
    """The link that is asked for, or the usual one, checked against the pins of a board.

    Parameters
    ----------
    wanted : str or None
        Name of a link.
    board : BoardDef or None
        None for a simulation, which takes all links.

    Raises
    ------
    InputError
        For a name that is not that of a link, or whose pins the board does not have; the others are listed.
    """
    from tg2hdl_top.ports import link_class

    if board is None:
        wanted = wanted or "uart"
        link_class(wanted)
        return wanted
    from tg2hdl_ir import resolve
    from tg2hdl_synth.boards.links import check_link, usual_link

    wanted = wanted or usual_link(board)
    check_link(wanted, board, resolve(board.platform)())
    return wanted


def _complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from tg2hdl_top.ports import link_kinds

    return [CompletionItem(name) for name in link_kinds() if name.startswith(incomplete)]
