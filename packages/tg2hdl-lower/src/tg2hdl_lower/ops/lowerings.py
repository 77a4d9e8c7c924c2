"""The combinational lowerings of this package: which operands each takes, and how many logic levels it has."""

from __future__ import annotations

import math
from typing import Any

from tg2hdl_ir import DType, OpLowering
from tg2hdl_lower.ops.arithmetic import build_add, build_mul, build_neg, build_sub
from tg2hdl_lower.ops.bits import (
    build_and,
    build_bitcast,
    build_cast,
    build_float_neg,
    build_float_of_truth,
    build_or,
    build_shl,
    build_shr,
    build_truth_of_float,
    build_where,
    build_xor,
)
from tg2hdl_lower.ops.comparison import build_eq, build_lt, build_max, build_min, build_ne

__all__ = ["builtin_lowerings"]

MULTIPLIER_BITS = 18
"""Operands that one hardware multiplier takes (bits)."""


def _integers(operands: tuple[DType, ...], result: DType) -> bool:
    return all(not t.is_float for t in (*operands, result))


def _patterns(operands: tuple[DType, ...], result: DType) -> bool:
    return True


def _carry(operands: tuple[DType, ...], result: DType) -> int:
    return 1 + max(t.bit_width for t in operands) // 12


def _one(operands: tuple[DType, ...], result: DType) -> int:
    return 1


def _none(operands: tuple[DType, ...], result: DType) -> int:
    return 0


def _shift(operands: tuple[DType, ...], result: DType) -> int:
    return min(operands[1].bit_width, result.bit_width.bit_length() + 1)


def _truth_levels(operands: tuple[DType, ...], result: DType) -> int:
    return 1 + operands[0].bit_width // 16


def _extreme(operands: tuple[DType, ...], result: DType) -> int:
    return 1 + _carry(operands, result)


def _multiply(operands: tuple[DType, ...], result: DType) -> float | None:
    widths = [t.bit_width for t in operands]
    if min(widths) <= 2:
        return 2
    return math.inf if max(widths) <= MULTIPLIER_BITS else None


def _bits_stay(operands: tuple[DType, ...], result: DType) -> bool:
    return True


def _float_sign(operands: tuple[DType, ...], result: DType) -> bool:
    return result.is_float


def _truth_of_float(operands: tuple[DType, ...], result: DType) -> bool:
    return operands[0].is_float and result.is_bool


def _float_of_truth(operands: tuple[DType, ...], result: DType) -> bool:
    return operands[0].is_bool and result.is_float


def builtin_lowerings() -> list[OpLowering]:
    """Lowerings of this package."""

    def lowering(op: str, matches: Any, levels: Any, build: Any, suffix: str = "int") -> OpLowering:
        return OpLowering(f"{suffix}.{op}", op, matches, build, levels)

    return [
        lowering("add", _integers, _carry, build_add),
        lowering("sub", _integers, _carry, build_sub),
        lowering("mul", _integers, _multiply, build_mul),
        lowering("neg", _integers, _carry, build_neg),
        lowering("min", _integers, _extreme, build_min),
        lowering("max", _integers, _extreme, build_max),
        lowering("and", _integers, _one, build_and),
        lowering("or", _integers, _one, build_or),
        lowering("xor", _integers, _one, build_xor),
        lowering("lt", _integers, _carry, build_lt),
        lowering("eq", _integers, _carry, build_eq),
        lowering("ne", _integers, _carry, build_ne),
        lowering("shl", _integers, _shift, build_shl),
        lowering("shr", _integers, _shift, build_shr),
        lowering("cast", _integers, _none, build_cast),
        lowering("bitcast", _bits_stay, _none, build_bitcast, "any"),
        lowering("where", _patterns, _one, build_where, "any"),
        lowering("neg", _float_sign, _none, build_float_neg, "float"),
        lowering("cast", _truth_of_float, _truth_levels, build_truth_of_float, "float_to_bool"),
        lowering("cast", _float_of_truth, _one, build_float_of_truth, "bool_to_float"),
    ]
