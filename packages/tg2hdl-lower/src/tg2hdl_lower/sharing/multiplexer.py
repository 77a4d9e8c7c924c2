"""Multiplexer of the users of one resource; at most one of them is busy."""

from __future__ import annotations

from collections.abc import Sequence

from amaranth import Mux
from amaranth.hdl import Value

__all__ = ["selected"]


def selected(sources: Sequence[tuple[Value, Value]]) -> Value:
    """Value of the source whose flag is set, of at most one; anything where none is.

    From three sources on it is an OR of gated values in pairs: a LUT takes two of them with their flags, where
    synthesis makes three times as many LUTs of a chain of multiplexers, to shorten the path from the last flag.
    """
    if len(sources) == 1:
        return sources[0][1]
    if len(sources) == 2:
        (flag, value), (_, other) = sources
        return Mux(flag, value, other)
    gated: list[Value] = [Mux(flag, value, 0) for flag, value in sources]
    while len(gated) > 1:
        pairs = [a | b for a, b in zip(gated[::2], gated[1::2], strict=False)]
        gated = pairs + gated[2 * len(pairs) :]
    return gated[0]
