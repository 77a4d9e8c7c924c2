"""Sums of three values with one carry chain."""

__all__ = ["add_segments", "add_three", "compress", "save_carries"]

from collections.abc import Sequence

from amaranth.hdl import Cat, Const, Value, ValueLike

from .pipeline import Pipeline
from .timing import add_delay, lut_delay

#: Bits of a carry chain between two possible cuts of a wide sum.
_SEGMENT = 64


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
        The summands.
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
    """Return two values of `width` bits whose sum is that of the three, less 1 if the last is subtracted.

    Parameters
    ----------
    p : Pipeline
    values : (Value, Value, Value)
        Shorter ones are zero-extended to `width`.
    width : int
        Bits; the sum is taken modulo ``2**width``.
    subtract : (ValueLike, ValueLike), optional
        Whether the second and the third value are subtracted.
    """
    carries = [Value.cast(flag) for flag in subtract]
    a, *others = (Cat(value, Const(0, max(width - len(value), 0)))[:width] for value in values)
    b, c = (_invert(value, flag) for value, flag in zip(others, carries, strict=True))
    return p.wire(a ^ b ^ c), p.wire(Cat(carries[0], a & b | a & c | b & c)[:width])


def compress(p: Pipeline, names: Sequence[str], width: int) -> tuple[str, str]:
    """Reduce the values of these names to two with the same sum modulo ``2**width``; adds a cut for every two levels.

    Each level of logic takes three values to two. The values are changed; the names of the last two are returned.

    Parameters
    ----------
    p : Pipeline
    names : sequence of str
        Values of the present stage, each of `width` bits.
    width : int
        Bits.
    """
    left, levels = list(names), 0
    while len(left) > 2:
        kept = []
        for k in range(0, len(left) - 2, 3):
            group = left[k : k + 3]
            p[group[0]], p[group[1]] = save_carries(p, (p[group[0]], p[group[1]], p[group[2]]), width)
            kept += group[:2]
        left = kept + left[len(left) - len(left) % 3 :]
        levels += 1
        p.delay(lut_delay())
        if levels % 2 == 0:
            p.cut()
    return left[0], left[1]


def add_segments(
    p: Pipeline, name: str, terms: tuple[str, str], width: int, *, carry: Value | None = None
) -> None:
    """Set ``p[name]`` to the sum modulo ``2**width`` of two unsigned values, with a possible cut between its segments.

    Parameters
    ----------
    terms : (str, str)
        Names of the values.
    carry : Value, optional
        One bit that is added.
    """
    p[f"{name}_carry"] = Const(0, 1) if carry is None else carry
    count = -(-width // _SEGMENT)
    for k in range(count):
        if k:
            p.cut()
        low, high = k * _SEGMENT, min((k + 1) * _SEGMENT, width)
        parts = [Cat(p[term], Const(0, width))[low:high] for term in terms]
        total = p.wire(Cat(1, parts[0]) + Cat(p[f"{name}_carry"], parts[1]))
        p[f"{name}_{k}"], p[f"{name}_carry"] = total[1 : high - low + 1], total[-1]
        p.delay(add_delay(high - low + 1))
    p[name] = Cat(p[f"{name}_{k}"] for k in range(count))


def _invert(value: Value, flag: Value) -> Value:
    if isinstance(flag, Const):
        return ~value if flag.value else value
    return value ^ flag.replicate(len(value))
