"""Magnitude comparison in two halves, so that no carry chain is long."""

__all__ = ["MagnitudeOrder", "compare_halves", "magnitude_order"]

from dataclasses import dataclass

from amaranth.hdl import Cat, Value

from .pipeline import Pipeline
from .timing import add_delay, lut_delay


@dataclass(frozen=True)
class MagnitudeOrder:
    """Whether ``a < b`` and ``a == b``, as unsigned numbers."""

    less: Value
    equal: Value


def compare_halves(p: Pipeline, name: str, a: Value, b: Value) -> None:
    """Compare the halves of two unsigned values; :func:`magnitude_order` joins them, in this stage or a later one.

    Parameters
    ----------
    p : Pipeline
    name : str
        Prefix of the four flags that are set.
    a, b : Value
        Of equal width.
    """
    half = (len(a) + 1) // 2
    p[f"{name}_low_less"] = a[:half] < b[:half]
    p[f"{name}_low_equal"] = _equal_parts(a[:half], b[:half])
    p[f"{name}_high_less"] = a[half:] < b[half:]
    p[f"{name}_high_equal"] = _equal_parts(a[half:], b[half:])
    p.delay(add_delay(half) + lut_delay())


def magnitude_order(p: Pipeline, name: str) -> MagnitudeOrder:
    """Join the halves.

    Parameters
    ----------
    p : Pipeline
    name : str
        As given to :func:`compare_halves`.
    """
    high_equal = p[f"{name}_high_equal"].all()
    less = p[f"{name}_high_less"] | high_equal & p[f"{name}_low_less"]
    return MagnitudeOrder(less, high_equal & p[f"{name}_low_equal"].all())


def _equal_parts(a: Value, b: Value) -> Value:
    return Cat(a[k : k + 8] == b[k : k + 8] for k in range(0, len(a), 8))
