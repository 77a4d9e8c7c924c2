"""The leading part of a product whose factors are a little wider than a multiplier block."""

__all__ = ["ROWS", "low_bits", "multiply_leading"]

from amaranth.hdl import Const, Mux, Value

from .carry_save import add_three
from .multiplier import multiply
from .pipeline import Pipeline
from .timing import add_delay, lut_delay

_BLOCK = 18
#: Rows of partial products that are summed in logic while the blocks work.
ROWS = 8


def low_bits(width: int) -> int:
    """Bits of a factor that are left to logic or to a second block."""
    return max(width - _BLOCK, 0)


def multiply_leading(
    p: Pipeline,
    name: str,
    a: Value,
    b: Value,
    *,
    target: str,
    addend: Value | None = None,
    lift: tuple[str, int] | None = None,
) -> None:
    """Set ``p[name]`` to the product of two values of the present stage, in units of its lowest block's bit.

    With factors in a high part of 18 bits and a low one, that is ``ah bh + (ah bl >> len(bl)) + (al bh >> len(al))``:
    one block, another one, and logic. The product of the low parts is left out, and the others are cut one by one,
    the last one in two parts when `al` has more than 8 bits.
    Adds the cuts of a multiplication, and one after it; the caller cuts after the addition.

    Parameters
    ----------
    name : str
        Name of the product.
    a, b : Value
        Factors; the low part of `a` has at most 16 bits, and 7 with an addend.
    target : str
        As for :func:`~tg2hdl_fp32.multiplier.multiply`.
    addend : Value, optional
        Added to the product; gives the width of the sum.
    lift : (str, int), optional
        Name of a bit and the number of places by which it shifts up the sum, which must have room for them.
    """
    la, lb = low_bits(len(a)), low_bits(len(b))
    width = len(a) + len(b) - la - lb if addend is None else len(addend)
    p[f"{name}_a"], p[f"{name}_b"] = a, b
    rows: list[Value] = [bit.replicate(len(b) - lb) & b[lb:] for bit in a[:la]]
    if addend is not None:
        rows.append(addend)
    for k, row in enumerate(rows):
        p[f"{name}_row{k}"] = row
    a, b = p[f"{name}_a"], p[f"{name}_b"]
    p.delay(lut_delay(3))
    start = p.mark()
    multiply(p, f"{name}_high", a[la:], b[lb:], target=target)
    p[f"{name}_right"] = Const(0, 1)
    if lb:
        with p.beside(start):
            multiply(p, f"{name}_right", a[la:], b[:lb], target=target)
    with p.beside(start):
        _sum_rows(p, name, len(rows))
    for part, cut in (("row0", la), ("right", lb), ("high", 0)):
        value = p[f"{name}_{part}"][cut:]
        if part == "row0" and len(rows) > ROWS:
            value = value + p[f"{name}_row1"][la - ROWS :]
        p[f"{name}_{part}"] = value if lift is None else Mux(p[lift[0]], value << lift[1], value)
    # Without logic, this stage is for the return path from the blocks.
    p.delay(lut_delay(2) if lift is None else lut_delay(4))
    p.cut()
    p[name] = add_three(p, (p[f"{name}_high"], p[f"{name}_right"], p[f"{name}_row0"]), width)
    p.delay(add_delay(width) + lut_delay())


def _sum_rows(p: Pipeline, name: str, count: int) -> None:
    """Sum the values ``name_row0`` and on, each one place above the previous one, in three stages.

    Adds three cuts. Up to 8 rows leave one, ``name_row0``, up to 16 another, ``name_row1``, 8 places above it.
    """
    if not count:
        p[f"{name}_row0"] = Const(0, 1)
    distance = 1
    for stage in range(3):
        for k in range(0, count, 2):
            row = p[f"{name}_row{k}"]
            if k + 1 < count:
                row = row + (p[f"{name}_row{k + 1}"] << distance)
            p[f"{name}_row{k // 2}"] = row
        count, distance = (count + 1) // 2, 2 * distance
        p.delay(add_delay(30) if stage or count else 0.0)
        p.cut()
