"""Readable tables of linearized UOps."""

from __future__ import annotations

from collections.abc import Sequence

from tinygrad.uop.ops import UOp

__all__ = ["format_uops", "pretty_print_uops"]

_COLUMNS = ("index", "op", "dtype", "arg", "sources")
_WIDTH = 40


def format_uops(uops: Sequence[UOp], full_width: bool = False) -> str:
    """Table of UOps: index, op, dtype, arg and the indices of the sources.

    Parameters
    ----------
    uops : sequence of UOp
    full_width : bool
        Print long args in full instead of cutting them at 40 characters.
    """
    position = {uop: n for n, uop in enumerate(uops)}
    rows = [_COLUMNS]
    for n, uop in enumerate(uops):
        arg = "" if uop.arg is None else " ".join(str(uop.arg).split())
        if not full_width and len(arg) > _WIDTH:
            arg = arg[: _WIDTH - 3] + "..."
        sources = " ".join(str(position.get(s, "?")) for s in uop.src)
        rows.append((str(n), uop.op.name, str(uop.dtype).removeprefix("dtypes."), arg, sources))
    widths = [max(len(row[c]) for row in rows) for c in range(len(_COLUMNS))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join(line.rstrip() for line in lines)


def pretty_print_uops(uops: Sequence[UOp], full_width: bool = False) -> None:
    """Print the table of `format_uops`.

    Parameters
    ----------
    uops : sequence of UOp
        A linearized kernel.
    full_width : bool
        Whether long arguments are printed in full.
    """
    print(format_uops(uops, full_width))
