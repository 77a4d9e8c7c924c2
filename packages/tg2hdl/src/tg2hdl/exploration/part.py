"""The part of a name: a part, or that of a board."""

from __future__ import annotations

from difflib import get_close_matches

from tg2hdl_ir import InputError, TargetDef, registry
from tg2hdl_synth import part_named
from tg2hdl_synth.boards.board_names import board_named
from tg2hdl_synth.parts import known_parts

__all__ = ["part_of"]


def part_of(name: str) -> TargetDef:
    """Return the part of a name, or that of the board of a name or of ``module:Class``.

    Raises
    ------
    InputError
        When there is neither.
    """
    if ":" in name:
        return part_named(board_named(name).part)
    boards, parts = registry().boards(), {part.name: part for part in known_parts()}
    for board in boards:
        if board.name == name:
            return part_named(board.part)
    if name not in parts:
        names = [board.name for board in boards]
        meant = get_close_matches(name, [*names, *parts], 1)
        listed = f"choose one of these boards, or a part: {', '.join(parts)}"
        raise InputError(
            f"there is no part or board {name!r}",
            notes=(*registry().notes(), f"boards: {', '.join(names)}"),
            hint=f"did you mean {meant[0]}?" if meant else listed,
        )
    return parts[name]
