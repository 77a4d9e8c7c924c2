"""Leading zeros and ones of 32 bits, in two halves that a register may part."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Mux, Value

__all__ = ["leading_of_bytes", "leading_zeros", "ones", "ones_of_bytes"]


def _leading(counts: list[Value]) -> list[Value]:
    """Pairs of counts, whose highest bit says whether there is a one, as counts of twice as many bits."""
    pairs = zip(counts[::2], counts[1::2], strict=True)
    return [Cat(Mux(high[-1], high[:-1], low[:-1]), ~high[-1], high[-1] | low[-1]) for low, high in pairs]


def leading_of_bytes(value: Any) -> Value:
    """Return four bits for each byte: leading zeros, and whether any bit is set."""
    counts = [Cat(~value[n + 1], value[n : n + 2].any()) for n in range(0, len(value), 2)]
    return Cat(_leading(_leading(counts)))


def leading_zeros(parts: Any) -> Value:
    """Return the leading zeros of the whole, as many bits as it may need."""
    counts = [parts[n : n + 4] for n in range(0, len(parts), 4)]
    while len(counts) > 1:
        counts = _leading(counts)
    count, there = counts[0][:-1], counts[0][-1]
    return Cat(count & there.replicate(len(count)), ~there)


def ones_of_bytes(value: Any) -> Value:
    """Return four bits for each byte: how many are set."""
    nibbles = []
    for n in range(0, len(value), 4):
        bits = value[n : n + 4]
        two = Cat(bits[i] & bits[j] for i in range(4) for j in range(i)).any()
        nibbles.append(Cat(bits.xor(), two & ~bits.all(), bits.all()))
    return Cat(low + high for low, high in zip(nibbles[::2], nibbles[1::2], strict=True))


def ones(parts: Any) -> Value:
    """Return how many bits of the whole are set."""
    counts: list[Any] = [parts[n : n + 4] for n in range(0, len(parts), 4)]
    while len(counts) > 1:
        counts = [low + high for low, high in zip(counts[::2], counts[1::2], strict=True)]
    return Value.cast(counts[0])[:6]
