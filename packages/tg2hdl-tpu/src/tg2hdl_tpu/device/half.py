"""Half and bfloat16: numbers are kept as FP32, rounded after each operation.

FP32 has more than twice the digits of both, so that sums, products, quotients and roots are rounded as if once.
"""

from __future__ import annotations

from tg2hdl_tpu.device.emitter import Emitter, LaneConstant, Value

__all__ = ["brain_from_integer", "half_bits", "half_from_bits", "rounded_to_brain", "rounded_to_half"]

_MAGNITUDE = LaneConstant(0x7FFFFFFF)
_SIGN = LaneConstant(-(1 << 31))
_INFINITY = LaneConstant(0x7F800000)
_SMALLEST_NORMAL = LaneConstant(0x38800000)  # 2^-14
_BEYOND = LaneConstant(0x47800000)  # 2^16
_THREE_QUARTERS = LaneConstant(
    0x3F400000
)  # numbers near it are 2^-24 apart, as those below 2^-14 are in half
_SCALE = LaneConstant(0x77800000)  # 2^112, the difference of the exponents' offsets
_STEPS = LaneConstant(0x4B800000)  # 2^24


def _magnitude(emit: Emitter, value: Value) -> Value:
    return emit.operate("fadd", emit.operate("and", value, _MAGNITUDE), LaneConstant(0))  # one NaN


def rounded_to_half(emit: Emitter, value: Value) -> Value:
    """The nearest half of an FP32 number, as FP32.

    Parameters
    ----------
    emit : Emitter
        Gets the code.
    value : Value
        FP32.
    """
    size = _magnitude(emit, value)
    odd = emit.operate("and", emit.operate("shr", size, LaneConstant(13)), LaneConstant(1))
    up = emit.operate("add", emit.operate("add", size, LaneConstant(0xFFF)), odd)
    normal: Value = emit.operate("and", up, LaneConstant(-(1 << 13)))
    inside = emit.operate("lt", normal, _BEYOND)
    normal = emit.select(inside, normal, emit.operate("max", normal, _INFINITY))
    small = emit.operate("fsub", emit.operate("fadd", size, _THREE_QUARTERS), _THREE_QUARTERS)
    result = emit.select(emit.operate("lt", size, _SMALLEST_NORMAL), small, normal)
    return emit.operate("or", result, emit.operate("and", value, _SIGN))


def rounded_to_brain(emit: Emitter, value: Value) -> Value:
    """The nearest bfloat16 of an FP32 number, as FP32.

    Parameters
    ----------
    emit : Emitter
        Gets the code.
    value : Value
        FP32.
    """
    size = _magnitude(emit, value)
    odd = emit.operate("and", emit.operate("shr", size, LaneConstant(16)), LaneConstant(1))
    up = emit.operate("add", emit.operate("add", size, LaneConstant(0x7FFF)), odd)
    rounded = emit.operate("and", up, LaneConstant(-(1 << 16)))
    return emit.operate("or", rounded, emit.operate("and", value, _SIGN))


def brain_from_integer(emit: Emitter, value: Value, *, signed: bool) -> Value:
    """An integer that FP32 has exactly, with the same nearest bfloat16.

    Parameters
    ----------
    emit : Emitter
        Gets the code.
    value : Value
        Integers of 32 bits.
    signed : bool
        Whether they are in two's complement.
    """
    low = emit.operate("ne", emit.operate("and", value, LaneConstant(255)), LaneConstant(0))
    short = emit.operate(
        "or", emit.operate("and", value, LaneConstant(-256)), emit.operate("shl", low, LaneConstant(7))
    )
    offset = emit.operate("add", value, LaneConstant(1 << 24)) if signed else value
    return emit.select(
        emit.operate("ltu", offset, LaneConstant(1 << 25 if signed else 1 << 24)), value, short
    )


def half_bits(emit: Emitter, value: Value) -> Value:
    """The 16 bits of a half that is kept as FP32.

    Parameters
    ----------
    emit : Emitter
        Gets the code.
    value : Value
        FP32 that is a half.
    """
    size = _magnitude(emit, value)
    normal: Value = emit.operate("sub", emit.operate("shr", size, LaneConstant(13)), LaneConstant(0x1C000))
    special = emit.operate("or", emit.operate("and", normal, LaneConstant(0x3FF)), LaneConstant(0x7C00))
    normal = emit.select(emit.operate("lt", normal, LaneConstant(0x7C00)), normal, special)
    small = emit.operate("f2i", emit.operate("fmul", size, _STEPS))
    bits = emit.select(emit.operate("lt", size, _SMALLEST_NORMAL), small, normal)
    return emit.operate("or", bits, emit.operate("shr", emit.operate("and", value, _SIGN), LaneConstant(16)))


def half_from_bits(emit: Emitter, bits: Value) -> Value:
    """A half as FP32.

    Parameters
    ----------
    emit : Emitter
        Gets the code.
    bits : Value
        Words; only the lowest 16 bits are read.
    """
    size = emit.operate("and", bits, LaneConstant(0x7FFF))
    wide = emit.operate("shl", size, LaneConstant(13))
    special = emit.operate("or", wide, _INFINITY)
    number = emit.select(
        emit.operate("lt", size, LaneConstant(0x7C00)), emit.operate("fmul", wide, _SCALE), special
    )
    sign = emit.operate("shl", emit.operate("and", bits, LaneConstant(0x8000)), LaneConstant(16))
    return emit.operate("or", number, sign)
