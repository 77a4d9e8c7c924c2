"""Sums of three values with one carry chain."""

__all__ = ["add_three", "save_carries"]

from amaranth.hdl import Cat, Const, Value, ValueLike

from .pipeline import Pipeline


def add_three(
    p: Pipeline,
    values: tuple[Value, Value, Value],
    width: int,
    *,
    subtract: tuple[ValueLike, ValueLike] = (0, 0),
) -> Value:
    """Return the lowest `width` bits of a sum of three unsigned values.

    One level of logic reduces the three to two; the carry inputs enter at their lowest bits.

    Parameters
    ----------
    values : (Value, Value, Value)
        What is added.
    width : int
        Bits of the sum.
    subtract : (bit, bit)
        Whether the second and the third value are subtracted instead.
    """
    carries = [Value.cast(flag) for flag in subtract]
    either, both = save_carries(p, values, width, subtract=subtract)
    if isinstance(carries[1], Const) and not carries[1].value:
        return (either + both)[:width]
    return (Cat(carries[1], either) + Cat(carries[1], both))[1 : width + 1]


def save_carries(
    p: Pipeline,
    values: tuple[Value, Value, Value],
    width: int,
    *,
    subtract: tuple[ValueLike, ValueLike] = (0, 0),
) -> tuple[Value, Value]:
    """Return two values of `width` bits whose sum is that of the three, less 1 if the last is subtracted."""
    carries = [Value.cast(flag) for flag in subtract]
    a, *others = (Cat(value, Const(0, max(width - len(value), 0)))[:width] for value in values)
    b, c = (_invert(value, flag) for value, flag in zip(others, carries, strict=True))
    return p.wire(a ^ b ^ c), p.wire(Cat(carries[0], a & b | a & c | b & c)[:width])


def _invert(value: Value, flag: Value) -> Value:
    if isinstance(flag, Const):
        return ~value if flag.value else value
    return value ^ flag.replicate(len(value))
