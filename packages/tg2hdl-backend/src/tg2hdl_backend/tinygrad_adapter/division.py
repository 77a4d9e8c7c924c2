"""Division as IEEE has it, rounded once."""

from __future__ import annotations

from tinygrad import Tensor
from tinygrad.uop import ops
from tinygrad.uop.ops import Ops

__all__ = ["quotient"]


def _ieee_division(a: float, b: float) -> float:
    if b:
        return a / b
    return float("nan") if a == 0 or a != a else float("inf") * a * (1 if str(b)[0] != "-" else -1)


# tinygrad's interpreter knows reciprocals only; its renderers and the IR have the division.
ops.python_alu.setdefault(Ops.FDIV, _ieee_division)


def quotient(a: Tensor, b: Tensor) -> Tensor:
    """Quotient rounded once; tinygrad's own ``/`` rounds the reciprocal first.

    Parameters
    ----------
    a, b : Tensor
        Floats that broadcast.
    """
    a, b = a._broadcasted(b)
    return Tensor(a.uop.alu(Ops.FDIV, b.uop))
