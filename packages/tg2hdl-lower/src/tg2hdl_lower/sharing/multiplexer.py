"""Multiplexer of the users of one resource; at most one of them is busy."""

from __future__ import annotations

from collections.abc import Sequence

from amaranth import Mux
from amaranth.hdl import Value

__all__ = ["selected"]


def selected(sources: Sequence[tuple[Value, Value]]) -> Value:
    """Value of the source whose flag is set; the last one's where none is."""
    chosen = sources[-1][1]
    for flag, value in sources[-2::-1]:
        chosen = Mux(flag, value, chosen)
    return chosen
