"""Multiplexer of the users of one resource; at most one of them is busy."""

from __future__ import annotations

from collections.abc import Sequence

from amaranth import Module, Mux, Signal
from amaranth.hdl import Value

__all__ = ["gated", "selected", "selected_inside"]

_TWO_LEVELS = 8
"""Sources with their flags that two levels of LUTs of four inputs take."""


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
    return gated(sources)


def gated(sources: Sequence[tuple[Value, Value]]) -> Value:
    """The same, but zero where no flag is set: an OR in pairs."""
    parts: list[Value] = [Mux(flag, value, 0) for flag, value in sources]
    while len(parts) > 1:
        pairs = [a | b for a, b in zip(parts[::2], parts[1::2], strict=False)]
        parts = pairs + parts[2 * len(pairs) :]
    return parts[0]


def selected_inside(m: Module, inner: Module, sources: Sequence[tuple[Value, Value]], name: str) -> Value:
    """The same value for a submodule, which joins groups of eight sources where there are more.

    A group is five LUTs for each bit, in two levels.  Of nine sources in one module synthesis makes ten LUTs in two
    levels of wide ones, not six in three.  Modules are mapped one by one, so that the third level is in another one.

    Parameters
    ----------
    m : Module
        Module that has the groups.
    inner : Module
        Submodule that joins them.
    sources : sequence of (Value, Value)
        Flag and value of each; at most one flag is set.
    name : str
        Of the signal.
    """
    if len(sources) <= _TWO_LEVELS:
        return selected(sources)
    parts: list[Value] = []
    for first in range(0, len(sources), _TWO_LEVELS):
        group = sources[first : first + _TWO_LEVELS]
        if len(group) > 1:
            value = gated(group)
            part = Signal(value.shape(), name=f"{name}_from{first}")
            m.d.comb += part.eq(value)
            parts.append(part)
        else:  # Its gate and the OR are one LUT.
            parts.append(gated(group))
    joined: Value = parts[0]
    for each in parts[1:]:
        joined = joined | each
    chosen = Signal(joined.shape(), name=name)
    inner.d.comb += chosen.eq(joined)
    return chosen
