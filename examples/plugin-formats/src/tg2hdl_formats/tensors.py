"""Posits in tinygrad programs: tensors of uint8, uint16 or uint32 hold the patterns."""

from __future__ import annotations

from tinygrad import Tensor

from tg2hdl import custom_op

__all__ = ["posit_add", "posit_div", "posit_from_float", "posit_mul", "posit_sub", "posit_to_float"]


def posit_add(a: Tensor, b: Tensor) -> Tensor:
    """``a + b`` of patterns of one width."""
    return custom_op("posit.add", a, b)


def posit_sub(a: Tensor, b: Tensor) -> Tensor:
    """``a - b`` of patterns of one width."""
    return custom_op("posit.sub", a, b)


def posit_mul(a: Tensor, b: Tensor) -> Tensor:
    """``a * b`` of patterns of one width."""
    return custom_op("posit.mul", a, b)


def posit_div(a: Tensor, b: Tensor) -> Tensor:
    """``a / b`` of patterns of one width."""
    return custom_op("posit.div", a, b)


def posit_from_float(x: Tensor, width: int) -> Tensor:
    """Patterns of float32 numbers.

    Parameters
    ----------
    x : Tensor
    width : int
        8, 16 or 32.
    """
    return custom_op("posit.from_fp32", x, dtype=f"uint{width}")


def posit_to_float(a: Tensor) -> Tensor:
    """The float32 numbers nearest to posits."""
    return custom_op("posit.to_fp32", a, dtype="float32")
