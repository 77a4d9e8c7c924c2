"""Software models of units that are not correctly rounded, bit for bit, for the compiler's golden model."""

from __future__ import annotations

__all__ = ["exp2", "log2", "reciprocal", "sin"]

from typing import Any

import numpy.typing as npt

Operands = tuple[npt.NDArray[Any], ...]
# Types of the compiler, which this package does not import.
DType = Any
Types = tuple[DType, ...]


def _evaluate(op: str, operands: Operands, types: Types, result: DType) -> npt.NDArray[Any]:
    # The models read the tables of the cores, and so import Amaranth: only when one is evaluated.
    from .format import format_by_name
    from .models import MODELS

    bits = types[0].array_to_bits(operands[0])
    patterns = MODELS[op](bits, format_by_name(result.name.upper()))
    values: npt.NDArray[Any] = result.bits_to_array(patterns.astype("uint64"))
    return values


def exp2(operands: Operands, types: Types, result: DType) -> npt.NDArray[Any]:
    """Bits of `Exp2`.

    Parameters
    ----------
    operands, types, result
        As of `tg2hdl_ir.plugins.OpDef.evaluate`.
    """
    return _evaluate("exp2", operands, types, result)


def log2(operands: Operands, types: Types, result: DType) -> npt.NDArray[Any]:
    """Bits of `Log2`.

    Parameters
    ----------
    operands, types, result
        As of `tg2hdl_ir.plugins.OpDef.evaluate`.
    """
    return _evaluate("log2", operands, types, result)


def reciprocal(operands: Operands, types: Types, result: DType) -> npt.NDArray[Any]:
    """Bits of `Reciprocal`.

    Parameters
    ----------
    operands, types, result
        As of `tg2hdl_ir.plugins.OpDef.evaluate`.
    """
    return _evaluate("reciprocal", operands, types, result)


def sin(operands: Operands, types: Types, result: DType) -> npt.NDArray[Any]:
    """Bits of `Sin`.

    Parameters
    ----------
    operands, types, result
        As of `tg2hdl_ir.plugins.OpDef.evaluate`.
    """
    return _evaluate("sin", operands, types, result)
