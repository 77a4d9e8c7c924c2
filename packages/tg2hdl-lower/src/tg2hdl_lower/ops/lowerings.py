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

TOO_SLOW = 2000
"""Levels of an op that is only one cycle where no pipelined unit computes it."""

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


def _alone(operands: tuple[DType, ...], result: DType) -> int:
    return ALONE


def _shift(operands: tuple[DType, ...], result: DType) -> int:
    return min(operands[1].bit_width, result.bit_width.bit_length() + 1)


def _truth_levels(operands: tuple[DType, ...], result: DType) -> int:
    return 1 + operands[0].bit_width // 16


def _extreme(operands: tuple[DType, ...], result: DType) -> int:
    return 1 + _carry(operands, result)


def _multiply(operands: tuple[DType, ...], result: DType) -> int:
    widths = [t.bit_width for t in operands]
    if min(widths) <= 2:
        return 2
    return ALONE if max(widths) <= MULTIPLIER_BITS else TOO_SLOW


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


def _less(m: Module, a: Value, b: Value) -> Value:
    """``a < b`` with one carry chain, or with none next to a power of two.

    Yosys computes the overflow of a signed difference in a second chain.  With the sign bits exchanged the unsigned
    comparison gives the same.
    """
    from amaranth.hdl import Cat, Const

    if isinstance(b, Const):
        return _below(a, b.value)
    if isinstance(a, Const):
        return ~_below(b, a.value + 1)
    if not (a.shape().signed or b.shape().signed):
        return a < b
    width = max(len(v) + (not v.shape().signed) for v in (a, b))
    a, b = (_resized(m, v, width) for v in (a, b))
    return Cat(a[:-1], b[-1]) < Cat(b[:-1], a[-1])


def _is_round(limit: int) -> bool:
    """Whether the upper bits alone tell what is below: 0 and powers of two of either sign."""
    return abs(limit) & (abs(limit) - 1) == 0 if limit else True


def _below(value: Value, limit: int) -> Value:
    """``value < limit``, one bit."""
    from amaranth.hdl import Const

    if not _is_round(limit):
        return value < limit
    is_negative = value[-1] if value.shape().signed else Const(0, 1)
    magnitude = value[:-1] if value.shape().signed else value
    if limit == 0:
        return is_negative
    exponent = abs(limit).bit_length() - 1
    if exponent >= len(magnitude):
        return Const(limit > 0, 1)
    upper = magnitude[exponent:]
    return is_negative | ~upper.any() if limit > 0 else is_negative & ~upper.all()


def _with_constant_last(operands: list[Value]) -> tuple[Value, Value]:
    from amaranth.hdl import Const

    a, b = operands
    return (b, a) if isinstance(a, Const) else (a, b)


def build_min(m: Module, operands: list[Value], types: tuple[DType, ...], result: DType) -> Value:
    """Smaller value."""
    from amaranth.hdl import Const, Mux

    a, b = _with_constant_last(operands)
    if result.is_bool:
        return a & b
    if isinstance(b, Const) and _is_round(b.value + 1):
        return Mux(_less(m, b, a), b, a)
    return Mux(_less(m, a, b), a, b)


def build_max(m: Module, operands: list[Value], types: tuple[DType, ...], result: DType) -> Value:
    """Larger value."""
    from amaranth.hdl import Mux

    a, b = _with_constant_last(operands)
    return a | b if result.is_bool else Mux(_less(m, a, b), b, a)


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
    return _less(m, *operands)


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


def _amount(value: Value, width: int) -> tuple[Value, Value | None]:
    """Shift amount limited to the bits that matter, and whether it is at least the width; negative is beyond."""
    bits = max(1, (width - 1).bit_length())
    if not value.shape().signed and len(value) < bits:
        return value, None
    if not value.shape().signed and len(value) == bits and width == 1 << bits:
        return value, None
    small = value[:bits] if len(value) > bits else value.as_unsigned()
    beyond = value >= width
    return small, (beyond | (value < 0)) if value.shape().signed else beyond


def _shift_by(amount: Value, types: tuple[DType, ...]) -> int | None:
    """Constant shift amount, read as an unsigned number of its type."""
    from amaranth.hdl import Const

    return amount.value & ((1 << types[1].bit_width) - 1) if isinstance(amount, Const) else None


def build_shl(m: Module, operands: list[Value], types: tuple[DType, ...], result: DType) -> Value:
    """Left shift; 0 beyond the width."""
    from amaranth.hdl import Const, Mux

    value, amount = operands
    width = result.bit_width
    known = _shift_by(amount, types)
    if known is not None:
        return value.shift_left(known) if known < width else Const(0)
    small, beyond = _amount(amount, width)
    shifted = _resized(m, value, width) << small
    return shifted[:width] if beyond is None else Mux(beyond, 0, shifted[:width])


def build_shr(m: Module, operands: list[Value], types: tuple[DType, ...], result: DType) -> Value:
    """Right shift, arithmetic for signed values; the sign beyond the width."""
    from amaranth.hdl import Const, Mux, signed

    value, amount = operands
    width = result.bit_width
    known = _shift_by(amount, types)
    if known is not None:
        return value.shift_right(min(known, width))
    small, beyond = _amount(amount, width)
    shifted = value >> small
    fill = Mux(value[-1], Const(-1, signed(1)), 0) if value.shape().signed else Const(0)
    return shifted if beyond is None else Mux(beyond, fill, shifted)


def _resized(m: Module, value: Value, width: int) -> Value:
    """Same number in exactly `width` bits."""
    from amaranth.hdl import Signal, signed, unsigned

    if len(value) < width:
        full = Signal(signed(width) if value.shape().signed else unsigned(width))
        m.d.comb += full.eq(value)
        value = full
    return value[:width]


def build_cast(m: Module, operands: list[Value], types: tuple[DType, ...], result: DType) -> Value:
    """Integer conversion: modulo 2^n; to bool: not zero."""
    return operands[0].any() if result.is_bool else operands[0]


def build_bitcast(m: Module, operands: list[Value], types: tuple[DType, ...], result: DType) -> Value:
    """Same bits; a bool counts as a byte that is 0 or 1."""
    value = operands[0]
    if result.is_bool:
        return value.any()
    bits = _resized(m, value, result.bit_width)
    return bits.as_signed() if result.kind == "int" else bits


def _bits_stay(operands: tuple[DType, ...], result: DType) -> bool:
    return True


def _float_sign(operands: tuple[DType, ...], result: DType) -> bool:
    return result.is_float


def _truth_of_float(operands: tuple[DType, ...], result: DType) -> bool:
    return operands[0].is_float and result.is_bool


def _float_of_truth(operands: tuple[DType, ...], result: DType) -> bool:
    return operands[0].is_bool and result.is_float


def build_float_neg(m: Module, operands: list[Value], types: tuple[DType, ...], result: DType) -> Value:
    """Flip the sign bit, of a NaN too."""
    from amaranth.hdl import Cat

    return Cat(operands[0][:-1], ~operands[0][-1])


def build_truth_of_float(m: Module, operands: list[Value], types: tuple[DType, ...], result: DType) -> Value:
    """Whether a float is not zero; NaN is not."""
    return operands[0][:-1].any()


def build_float_of_truth(m: Module, operands: list[Value], types: tuple[DType, ...], result: DType) -> Value:
    """0.0 or 1.0."""
    from amaranth.hdl import Const, Mux

    return Mux(operands[0], Const(result.const_to_bits(1.0), result.bit_width), 0)


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
