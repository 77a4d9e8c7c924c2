"""Normalization of subnormal operands, with cuts between the levels of the shift."""

__all__ = ["normalize_operand"]

from amaranth.hdl import Cat, Const, Mux

from .pipeline import Pipeline
from .timing import lut_delay, reduce_delay


def normalize_operand(p: Pipeline, name: str, width: int) -> None:
    """Shift ``p[name]`` left until its top bit is set, and set ``p[name + "_places"]`` to the count.

    Adds a cut behind every level but the last.

    Parameters
    ----------
    name : str
        Value of `width` bits; zero counts as the largest number of places.
    width : int
        Bits of the value.
    """
    levels = (width - 1).bit_length()
    count = []
    for k in reversed(range(levels)):
        step = 1 << k
        value = p[name]
        empty = ~value[max(width - step, 0) :].any()
        p[name] = Mux(empty, Cat(Const(0, min(step, width)), value)[:width], value)
        p[f"{name}_empty{k}"] = empty
        count.append(k)
        p.delay(reduce_delay(step) + lut_delay(2))
        if k:
            p.cut()
    p[f"{name}_places"] = Cat(p[f"{name}_empty{k}"] for k in reversed(count))
