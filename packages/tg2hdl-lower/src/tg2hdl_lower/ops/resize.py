"""Numbers in another width."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amaranth import Module
    from amaranth.hdl import Value

__all__ = ["resized"]


def resized(m: Module, value: Value, width: int) -> Value:
    """Same number in exactly `width` bits.

    Parameters
    ----------
    m : Module
        Of the kernel.
    value : Value
    width : int
        Bits.
    """
    from amaranth.hdl import Signal, signed, unsigned

    if len(value) < width:
        full = Signal(signed(width) if value.shape().signed else unsigned(width))
        m.d.comb += full.eq(value)
        value = full
    return value[:width]
