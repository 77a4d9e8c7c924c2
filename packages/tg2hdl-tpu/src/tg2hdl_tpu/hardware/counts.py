"""Leading zeros and ones of 32 bits, in two halves that a register may part."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Mux, Value

__all__ = ["leading_of_nibbles", "leading_zeros", "ones", "ones_of_nibbles"]


def leading_of_nibbles(value: Any) -> Value:
    """Return three bits for each 4 bits: leading zeros, and whether any is set."""
    parts = []
    for n in range(0, len(value), 4):
        nibble = value[n : n + 4]
        count = Mux(nibble[3], 0, Mux(nibble[2], 1, Mux(nibble[1], 2, 3)))
        parts.append(Cat(Value.cast(count)[:2], nibble.any()))
    return Cat(parts)


def leading_zeros(parts: Any) -> Value:
    """Return the leading zeros of the whole, as many bits as it may need."""
    counts = [parts[n : n + 3] for n in range(0, len(parts), 3)]
    while len(counts) > 1:
        pairs = zip(counts[::2], counts[1::2], strict=True)
        counts = [
            Cat(Mux(high[-1], high[:-1], low[:-1]), ~high[-1], high[-1] | low[-1]) for low, high in pairs
        ]
    count, there = counts[0][:-1], counts[0][-1]
    return Cat(count & there.replicate(len(count)), ~there)


def ones_of_nibbles(value: Any) -> Value:
    """Return three bits for each 4 bits: how many are set."""
    parts = []
    for n in range(0, len(value), 4):
        bits = value[n : n + 4]
        parts.append(((bits[0] + bits[1]) + (bits[2] + bits[3]))[:3])
    return Cat(parts)


def ones(parts: Any) -> Value:
    """Return how many bits of the whole are set."""
    counts: list[Any] = [parts[n : n + 3] for n in range(0, len(parts), 3)]
    while len(counts) > 1:
        counts = [low + high for low, high in zip(counts[::2], counts[1::2], strict=True)]
    return Value.cast(counts[0])[:6]
