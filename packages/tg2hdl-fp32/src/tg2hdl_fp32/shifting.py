"""Shifters and zero counts, written level by level.

Every level is a wire of its own: an expression that uses the level before it twice would grow as a tree.
"""

__all__ = [
    "count_chunks",
    "join_chunks",
    "leading_zeros",
    "shift_left",
    "shift_right_sticky",
    "shift_right_sticky_step",
]

from amaranth.hdl import Cat, Const, Mux, Value, unsigned

from .pipeline import Pipeline

#: Bits that are counted before the cut of a count in two parts.
_CHUNK = 8


def leading_zeros(p: Pipeline, value: Value) -> Value:
    """Count the zeros above the highest set bit; a value of zero counts as its width.

    The result has ``ceil(log2(width)) + 1`` bits.

    Parameters
    ----------
    p : Pipeline
    value : Value
        Of any width.
    """
    return _join(p, [~bit for bit in _padded(value)])


def count_chunks(p: Pipeline, name: str, value: Value) -> None:
    """Begin a count of leading zeros; :func:`join_chunks` ends it, in the same stage or a later one.

    Parameters
    ----------
    p : Pipeline
    name : str
        Of the count; ``name_upper`` is set too.
    value : Value
        Of any width.
    """
    padded = _padded(value)
    size = min(_CHUNK, len(padded))
    chunks = [padded[k : k + size] for k in range(0, len(padded), size)]
    p[name] = Cat(_join(p, [~bit for bit in chunk]) for chunk in chunks)
    # The top bit of the count is decided last, but a shift by the count needs it first.
    p[f"{name}_upper"] = ~padded[len(padded) // 2 :].any()


def join_chunks(p: Pipeline, name: str, width: int) -> Value:
    """Return the leading zeros that :func:`count_chunks` began to count in a value of `width` bits.

    Parameters
    ----------
    p : Pipeline
    name : str
        As given to :func:`count_chunks`.
    width : int
        Bits of the value.
    """
    size = min(_CHUNK, 1 << max(width - 1, 0).bit_length())
    bits = size.bit_length()
    joined = p[name]
    counts = [joined[k : k + bits] for k in range(0, len(joined), bits)]
    if len(counts) == 1:
        return counts[0]
    half = len(counts) // 2
    low, high = _join(p, counts[:half]), _join(p, counts[half:])
    return _join_two(p, low, Cat(high[:-1], p[f"{name}_upper"]))


def _padded(value: Value) -> Value:
    width = len(value)
    size = 1 << max(width - 1, 0).bit_length()
    return Cat(Const((1 << (size - width)) - 1, size - width), value)


def _join(p: Pipeline, counts: list[Value]) -> Value:
    """Join the counts of neighbours, the lowest bits first."""
    while len(counts) > 1:
        counts = [_join_two(p, *counts[k : k + 2]) for k in range(0, len(counts), 2)]
    return counts[0]


def _join_two(p: Pipeline, low: Value, high: Value) -> Value:
    empty_high, empty_low = high[-1], low[-1]
    rest = Mux(empty_high, low[:-1], high[:-1])
    return p.wire(Cat(rest, empty_high & ~empty_low, empty_high & empty_low))


def shift_left(
    p: Pipeline, value: Value, amount: Value, *, unit: int = 1, fill: Value | None = None
) -> Value:
    """Shift left by `amount` times `unit` places within the width of `value`, one level for each bit of `amount`.

    The vacated bits are filled with `fill`, one bit, or zeros.

    Parameters
    ----------
    p : Pipeline
    value : Value
    amount : Value
        Unsigned.
    unit : int, default 1
        A power of two.
    fill : Value, optional
        One bit.
    """
    width = len(value)
    for k in reversed(range(len(amount))):
        places = min(unit << k, width)
        low = Const(0, places) if fill is None else fill.replicate(places)
        value = p.wire(Mux(amount[k], Cat(low, value)[:width], value))
    return value


def shift_right_sticky_step(
    value: Value, sticky: Value, bit: Value, places: int, fill: Value | None = None
) -> tuple[Value, Value]:
    """Shift right by `places` when `bit` is set, and gather the bits that fall off.

    With `fill`, one bit, the value is the complement where that bit is set, and the vacated bits are ones.

    Parameters
    ----------
    value : Value
    sticky : Value
        Whether a set bit has already fallen off.
    bit : Value
        Whether to shift.
    places : int
    fill : Value, optional
        One bit.
    """
    width = len(value)
    low = value[: min(places, width)]
    if fill is None:
        lost, high = low.any(), Const(0, 1)
    else:
        lost, high = (low ^ fill.replicate(len(low))).any(), fill.replicate(min(places, width))
    shifted = Cat(value[places:], high) if places < width else high
    return Mux(bit, shifted, value)[:width], sticky | (bit & lost)


def shift_right_sticky(
    p: Pipeline,
    value: Value,
    amount: Value,
    *,
    unit: int = 1,
    sticky: Value | None = None,
    fill: Value | None = None,
) -> tuple[Value, Value]:
    """Shift right by `amount` times `unit` places and tell whether a set bit fell off; `fill` as in one step.

    Parameters
    ----------
    p : Pipeline
    value : Value
    amount : Value
        Unsigned.
    unit : int, default 1
        A power of two.
    sticky : Value, optional
        Whether a set bit has already fallen off.
    fill : Value, optional
        One bit.
    """
    fallen: Value = Const(0, unsigned(1)) if sticky is None else sticky
    for k in reversed(range(len(amount))):
        shifted, lost = shift_right_sticky_step(value, fallen, amount[k], unit << k, fill)
        value, fallen = p.wire(shifted), p.wire(lost)
    return value, fallen
