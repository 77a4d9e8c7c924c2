"""Class of an operand in two steps, with room for a cut between them."""

__all__ = ["begin_class", "end_class"]

from amaranth.hdl import Cat, Const, Value

from .format import Format
from .pipeline import Pipeline
from .timing import lut_delay


def begin_class(p: Pipeline, name: str, format: Format, bits: Value) -> None:
    """First step: flags of the exponent and the fraction, in two levels of logic.

    Sets ``p[name + "_hidden"]``, whether the exponent field is not zero, and the flags that :func:`end_class` reads.

    Parameters
    ----------
    p : Pipeline
    name : str
        Prefix of the flags.
    format : Format
    bits : Value
        Pattern of the operand in `format`.
    """
    fraction, field = bits[: format.fraction], bits[format.fraction : -1]
    p[f"{name}_hidden"], p[f"{name}_last"] = field.any(), field.all()
    p[f"{name}_some"] = Cat(fraction[k : k + 8].any() for k in range(0, len(fraction), 8))
    p[f"{name}_full"] = fraction.all() if format.finite else Const(0, 1)
    p[f"{name}_quiet"] = fraction[-1]
    p.delay(lut_delay(2))


def end_class(p: Pipeline, name: str, format: Format, *, subnormals: bool) -> None:
    """Set ``_nan``, ``_signaling``, ``_inf`` and ``_zero`` of the operand; one or two levels of logic.

    Parameters
    ----------
    p : Pipeline
    name : str
        As given to :func:`begin_class`.
    format : Format
    subnormals : bool
        Whether subnormal numbers keep their value; otherwise they are zeros.
    """
    last, some = p[f"{name}_last"], p.wire(p[f"{name}_some"].any())
    if format.finite:
        p[f"{name}_nan"] = last & p[f"{name}_full"]
        p[f"{name}_signaling"] = p[f"{name}_inf"] = Const(0, 1)
    else:
        p[f"{name}_nan"], p[f"{name}_inf"] = last & some, last & ~some
        p[f"{name}_signaling"] = last & some & ~p[f"{name}_quiet"]
    p[f"{name}_zero"] = ~p[f"{name}_hidden"] & ~some if subnormals else ~p[f"{name}_hidden"]
