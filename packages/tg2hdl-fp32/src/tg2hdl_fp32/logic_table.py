"""Functions of a few bits, as logic rather than memory or multiplier blocks."""

__all__ = ["select"]

from collections.abc import Sequence

from amaranth.hdl import Array, Const, Value


def select(index: Value, values: Sequence[int]) -> Value:
    """Return the entry of a small table.

    Parameters
    ----------
    index : Value
        Index, which reaches each entry; of no bits for a single entry.
    values : sequence of int
        Entries, at least 0; the widest gives the width of the result.
    """
    width = max(max(values).bit_length(), 1)
    entries = [Const(value, width) for value in values]
    return Value.cast(Array(entries)[index]) if len(index) else entries[0]
