"""Posits and Microscaling blocks in tinygrad programs: tensors of unsigned integers hold the patterns."""

from __future__ import annotations

from tinygrad import Tensor

from tg2hdl import custom_op

__all__ = ["mx_dot", "posit_add", "posit_div", "posit_from_float", "posit_mul", "posit_sub", "posit_to_float"]


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


def mx_dot(a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor, element: str = "E2M1") -> Tensor:
    """Dot products of blocks as float32: the exact sum of all products of two blocks, times both scales, rounded once.

    Parameters
    ----------
    a, b : Tensor
        Words (uint32) of `tg2hdl_formats.to_words`: 4 of E2M1 or 8 of INT8 along the last axis are a block.
    a_scale, b_scale : Tensor
        Codes (uint8), without that axis.
    element : str
        ``E2M1`` or ``INT8``.
    """
    kind = element.lower()
    total = custom_op(f"mx.dot_{kind}", a, b, dtype="int32").sum(-1)
    return custom_op(f"mx.scale_{kind}", total, a_scale, b_scale, dtype="float32")
