"""Shifters and leading-zero counts, written level by level."""

__all__ = ["leading_zeros", "normalize", "shift_left", "shift_right_sticky", "shift_right_sticky_step"]

from amaranth.hdl import Cat, Const, Mux, Value, unsigned


def leading_zeros(value: Value) -> Value:
    """Count the zeros above the highest set bit, as a tree; all zeros count as the next power of two or more.

    For a width of ``2**k`` the result has ``k + 1`` bits and counts zero as ``2**k``; other widths are
    padded with ones below, so that zero counts as the width.
    """
    width = len(value)
    size = 1 << max(width - 1, 0).bit_length()
    padded = Cat(Const((1 << (size - width)) - 1, size - width), value)
    return _count(padded)


def _count(value: Value) -> Value:
    size = len(value)
    if size == 1:
        return ~value
    low, high = _count(value[: size // 2]), _count(value[size // 2 :])
    empty_high, empty_low = high[-1], low[-1]
    rest = Mux(empty_high, low[:-1], high[:-1])
    return Cat(rest, empty_high & ~empty_low, empty_high & empty_low)


def shift_left(value: Value, amount: Value) -> Value:
    """Shift left within the width of `value`, one multiplexer level for every bit of `amount`."""
    width = len(value)
    for k in reversed(range(len(amount))):
        value = Mux(amount[k], Cat(Const(0, min(1 << k, width)), value)[:width], value)
    return value


def normalize(value: Value, levels: int) -> tuple[Value, Value]:
    """Shift left until the top bit is set, finding the count on the way, ``2**levels - 1`` places at most.

    Returns the shifted value and the count.
    """
    width = len(value)
    count = []
    for k in reversed(range(levels)):
        step = 1 << k
        empty = ~value[max(width - step, 0) :].any()
        value = Mux(empty, Cat(Const(0, min(step, width)), value)[:width], value)
        count.append(empty)
    return value, Cat(*reversed(count))


def shift_right_sticky_step(value: Value, sticky: Value, bit: Value, places: int) -> tuple[Value, Value]:
    """Shift right by `places` when `bit` is set, and gather the bits that fall off."""
    width = len(value)
    lost = value[: min(places, width)].any()
    kept = value[places:] if places < width else Const(0, 1)
    shifted = Cat(kept, Const(0, min(places, width)))[:width]
    return Mux(bit, shifted, value), sticky | (bit & lost)


def shift_right_sticky(value: Value, amount: Value) -> tuple[Value, Value]:
    """Shift right by `amount` and tell whether a set bit fell off."""
    sticky: Value = Const(0, unsigned(1))
    for k in reversed(range(len(amount))):
        value, sticky = shift_right_sticky_step(value, sticky, amount[k], 1 << k)
    return value, sticky
