"""Normalization of subnormal operands, two levels of the shift to a stage."""

__all__ = ["normalize_operand", "normalize_unpacked"]

from collections.abc import Sequence

from amaranth.hdl import Cat, Const, Mux, Value

from .format import Format
from .pipeline import Pipeline
from .timing import lut_delay
from .unpacked import Unpacked


def normalize_operand(p: Pipeline, name: str, width: int, *, hold: str | None = None) -> None:
    """Shift ``p[name]`` left until its top bit is set, and set ``p[name + "_places"]`` to the count.

    Each shift by 0 to 3 units is decided a stage ahead, from the OR of every unit, which is shifted along. Adds a
    cut before every such shift; the caller cuts after the last.

    Parameters
    ----------
    name : str
        Value of `width` bits; zero counts as the largest number of places.
    width : int
        Bits of the value.
    hold : str, optional
        Name of a bit that keeps the value as it is.
    """
    levels = (width - 1).bit_length()
    units = [1 << k for k in range(levels - 2, -1, -2)]
    for unit in units:
        p[f"{name}_any{unit}"] = _any_of_units(p[name], unit)
    p.delay(lut_delay(0.5))
    count: list[Value] = []
    for position, unit in enumerate(units):
        # None, one, two or three units of zeros above the highest set bit.
        stay = Const(0, 1) if hold is None else p[hold]
        first, second, third = [*p[f"{name}_any{unit}"], Const(0, 1), Const(0, 1)][:3]
        p[f"{name}_by{unit}"] = Cat(~first & ~stay & (second | ~third), ~(first | second | stay))
        p.delay(lut_delay(0.5))
        p.cut()
        for finer in units[position + 1 :]:
            flags = p[f"{name}_any{finer}"]
            p[f"{name}_any{finer}"] = _choose(
                p[f"{name}_by{unit}"], [flags[k * unit // finer :] for k in range(4)], len(flags)
            )
        shifted = [Cat(Const(0, k * unit), p[name])[:width] for k in range(4)]
        p[name] = _choose(p[f"{name}_by{unit}"], shifted, width)
        p.delay(lut_delay(2))
    if levels % 2:
        empty = ~p[name][-1] if hold is None else ~p[name][-1] & ~p[hold]
        p[f"{name}_last"] = empty
        p[name] = Mux(empty, Cat(Const(0, 1), p[name])[:width], p[name])
        p.delay(lut_delay(1.5))
        count.append(p[f"{name}_last"])
    count += [p[f"{name}_by{unit}"] for unit in reversed(units)]
    p[f"{name}_places"] = Cat(*count)


def normalize_unpacked(p: Pipeline, x: Unpacked, format: Format, *, subnormals: bool) -> None:
    """Set ``p.field``, the exponent without bias, ``p.significand`` and its ``p.significand_places``, and cut.

    Parameters
    ----------
    p : Pipeline
    x : Unpacked
        Fields of the operand.
    format : Format
    subnormals : bool
        Whether they are normalized; otherwise the significand is passed on.
    """
    p.field = (x.exponent - format.bias).as_signed()
    p.significand = x.significand
    p.significand_places = Const(0, 1)
    p.delay(lut_delay(2.5))
    if subnormals:
        normalize_operand(p, "significand", format.significand)
    p.cut()


def _any_of_units(value: Value, unit: int) -> Value:
    """OR of every `unit` bits from the top, the topmost first."""
    width = len(value)
    return Cat(value[max(low - unit, 0) : low].any() for low in range(width, 0, -unit))


def _choose(index: Value, values: Sequence[Value], width: int) -> Value:
    """One of four values, as a tree."""
    low, high = (Mux(index[0], values[k + 1], values[k]) for k in (0, 2))
    return Mux(index[1], high, low)[:width]
