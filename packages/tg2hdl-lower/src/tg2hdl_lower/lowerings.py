"""Combinational hardware of the cheap ops, registered through the same hook that plugins use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tg2hdl_ir.dtype import DType
from tg2hdl_ir.plugins.descriptors import OpLowering

if TYPE_CHECKING:
    from amaranth import Module
    from amaranth.hdl import Value

__all__ = ["builtin_lowerings"]

ALONE = 1000
"""Levels of an op that takes a cycle of its own."""


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


def _alone(operands: tuple[DType, ...], result: DType) -> int:
    return ALONE


def _shift(operands: tuple[DType, ...], result: DType) -> int:
    return 0 if operands[1].bit_width <= 1 else operands[1].bit_width


def _extreme(operands: tuple[DType, ...], result: DType) -> int:
    return 1 + _carry(operands, result)


def _multiply(operands: tuple[DType, ...], result: DType) -> int:
    return 2 if min(t.bit_width for t in operands) <= 2 else ALONE


def build_add(m: Module, operands: list[Value], types: tuple[DType, ...], result: DType) -> Value:
    """Sum."""
    return operands[0] | operands[1] if result.is_bool else operands[0] + operands[1]


def build_sub(m: Module, operands: list[Value], types: tuple[DType, ...], result: DType) -> Value:
    """Difference."""
    return operands[0] ^ operands[1] if result.is_bool else operands[0] - operands[1]


def build_mul(m: Module, operands: list[Value], types: tuple[DType, ...], result: DType) -> Value:
    """Product."""
    return operands[0] & operands[1] if result.is_bool else operands[0] * operands[1]


def build_neg(m: Module, operands: list[Value], types: tuple[DType, ...], result: DType) -> Value:
    """Negation; of a bool, the value itself."""
    return operands[0] if result.is_bool else -operands[0]


def build_min(m: Module, operands: list[Value], types: tuple[DType, ...], result: DType) -> Value:
    """Smaller value."""
    from amaranth.hdl import Mux

    a, b = operands
    return a & b if result.is_bool else Mux(a < b, a, b)


def build_max(m: Module, operands: list[Value], types: tuple[DType, ...], result: DType) -> Value:
    """Larger value."""
    from amaranth.hdl import Mux

    a, b = operands
    return a | b if result.is_bool else Mux(a < b, b, a)


def build_and(m: Module, operands: list[Value], types: tuple[DType, ...], result: DType) -> Value:
    """Bitwise and."""
    return operands[0] & operands[1]


def build_or(m: Module, operands: list[Value], types: tuple[DType, ...], result: DType) -> Value:
    """Bitwise or."""
    return operands[0] | operands[1]


def build_xor(m: Module, operands: list[Value], types: tuple[DType, ...], result: DType) -> Value:
    """Bitwise exclusive or."""
    return operands[0] ^ operands[1]


def build_lt(m: Module, operands: list[Value], types: tuple[DType, ...], result: DType) -> Value:
    """Less than."""
    return operands[0] < operands[1]


def build_eq(m: Module, operands: list[Value], types: tuple[DType, ...], result: DType) -> Value:
    """Equal."""
    return operands[0] == operands[1]


def build_ne(m: Module, operands: list[Value], types: tuple[DType, ...], result: DType) -> Value:
    """Different."""
    return operands[0] != operands[1]


def build_where(m: Module, operands: list[Value], types: tuple[DType, ...], result: DType) -> Value:
    """Select by a condition."""
    from amaranth.hdl import Mux

    return Mux(operands[0], operands[1], operands[2])


def _amount(value: Value, width: int) -> tuple[Any, Any]:
    """Shift amount limited to the bits that matter, and whether it is beyond the width."""
    bits = width.bit_length()
    if len(value) <= bits - 1:
        return value.as_unsigned(), None
    return value[:bits], value.as_unsigned() >= width


def build_shl(m: Module, operands: list[Value], types: tuple[DType, ...], result: DType) -> Value:
    """Left shift; 0 beyond the width."""
    from amaranth.hdl import Const, Mux

    value, amount = operands
    width = result.bit_width
    if isinstance(amount, Const):
        return value << min(amount.value, width)
    small, beyond = _amount(amount, width)
    shifted = (value.as_unsigned() if len(value) >= width else value) << small[: (width - 1).bit_length()]
    shifted = shifted[:width] if len(shifted) > width else shifted
    return shifted if beyond is None else Mux(beyond, 0, shifted)


def build_shr(m: Module, operands: list[Value], types: tuple[DType, ...], result: DType) -> Value:
    """Right shift, arithmetic for signed values; the sign beyond the width."""
    from amaranth.hdl import Const, Mux

    value, amount = operands
    width = result.bit_width
    if isinstance(amount, Const):
        return value >> min(amount.value, width)
    small, beyond = _amount(amount, width)
    shifted = value >> small[: (width - 1).bit_length()]
    fill = Mux(value[-1], -1, 0) if value.shape().signed else Const(0)
    return shifted if beyond is None else Mux(beyond, fill, shifted)


def build_cast(m: Module, operands: list[Value], types: tuple[DType, ...], result: DType) -> Value:
    """Integer conversion: modulo 2^n; to bool: not zero."""
    return operands[0].any() if result.is_bool else operands[0]


def build_bitcast(m: Module, operands: list[Value], types: tuple[DType, ...], result: DType) -> Value:
    """Same bits, extended to the full width of their type first."""
    value = operands[0]
    if len(value) < result.bit_width:
        from amaranth.hdl import Signal, signed, unsigned

        width = result.bit_width
        full = Signal(signed(width) if value.shape().signed else unsigned(width))
        m.d.comb += full.eq(value)
        value = full
    bits = value[: result.bit_width]
    return bits.as_signed() if result.kind == "int" else bits


def _same_width(operands: tuple[DType, ...], result: DType) -> bool:
    return operands[0].bit_width == result.bit_width


def _float_sign(operands: tuple[DType, ...], result: DType) -> bool:
    return result.is_float


def build_float_neg(m: Module, operands: list[Value], types: tuple[DType, ...], result: DType) -> Value:
    """Flip the sign bit; a NaN stays the canonical one."""
    from amaranth.hdl import Cat, Mux

    value = operands[0]
    exponent = value[result.fraction_bits : -1]
    fraction = value[: result.fraction_bits]
    nan = exponent.all() & (fraction.all() if result.finite else fraction.any())
    return Mux(nan, value, Cat(value[:-1], ~value[-1]))


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
        lowering("bitcast", _same_width, _none, build_bitcast, "any"),
        lowering("where", _patterns, _one, build_where, "any"),
        lowering("neg", _float_sign, _one, build_float_neg, "float"),
    ]
