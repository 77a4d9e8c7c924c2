"""Golden evaluation of the built-in ops on numpy arrays.

Each function has the signature of `OpDef.evaluate`.  Integers are two's complement and wrap; every float operation is
correctly rounded and returns the canonical NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir.dtype import DType
from tg2hdl_ir.rounding import canonicalize_nan, round_to_format, widen

__all__ = [
    "Evaluate",
    "arithmetic",
    "bitcast",
    "bitwise",
    "cast",
    "compare",
    "divide",
    "elementary",
    "modulo",
    "multiply_accumulate",
    "negate",
    "select",
    "select_larger",
    "select_smaller",
    "shift_left",
    "shift_right",
    "truncate",
    "wrap",
]

Array = npt.NDArray[Any]
Types = tuple[DType, ...]
Evaluate = Callable[[tuple[Array, ...], Types, DType], Array]


def wrap(array: Array, dtype: DType) -> Array:
    """Reduce an integer array in its storage type modulo 2^bit_width into the range of `dtype`.

    Parameters
    ----------
    array : Array
        Of integers.
    dtype : DType
        An integer type.
    """
    storage = dtype.numpy()
    if array.dtype != storage:
        array = array.astype(storage)
    spare = storage.itemsize * 8 - dtype.bit_width
    if spare == 0 or dtype.is_bool:
        return array
    if dtype.kind == "int":
        shift = storage.type(spare)
        return np.asarray(np.right_shift(np.left_shift(array, shift), shift))
    return np.asarray(np.bitwise_and(array, storage.type(dtype.max_value)))


def arithmetic(integer: Callable[..., Any], real: Callable[..., Any]) -> Evaluate:
    """Evaluation by one ufunc for integers (and bool) and one for floats.

    Parameters
    ----------
    integer : callable
        Ufunc of integers and bool; its result wraps to the width of the type.
    real : callable
        Ufunc of floats, in the type of `widen`; its result is rounded once.
    """

    def evaluate(operands: tuple[Array, ...], types: Types, result: DType) -> Array:
        if not result.is_float:
            return wrap(integer(*operands), result)
        with np.errstate(all="ignore"):
            return round_to_format(real(*(widen(a, result) for a in operands)), result)

    return evaluate


def elementary(real: Callable[..., Any]) -> Evaluate:
    """Evaluation of a transcendental function: float64, then one rounding."""

    def evaluate(operands: tuple[Array, ...], types: Types, result: DType) -> Array:
        with np.errstate(all="ignore"):
            return round_to_format(real(operands[0].astype(np.float64)), result)

    return evaluate


def compare(ufunc: Callable[..., Any]) -> Evaluate:
    """Comparison with a bool result; NaN is unordered."""

    def evaluate(operands: tuple[Array, ...], types: Types, result: DType) -> Array:
        with np.errstate(invalid="ignore"):
            return np.asarray(ufunc(*operands), dtype=np.bool_)

    return evaluate


def bitwise(ufunc: Callable[..., Any]) -> Evaluate:
    """Bitwise operation on integers or bool."""

    def evaluate(operands: tuple[Array, ...], types: Types, result: DType) -> Array:
        return np.asarray(ufunc(*operands))

    return evaluate


def select(operands: tuple[Array, ...], types: Types, result: DType) -> Array:
    """``a if condition else b``; bits pass unchanged.

    Parameters
    ----------
    operands, types, result
        As of `tg2hdl_ir.plugins.OpDef.evaluate`.
    """
    return np.where(*operands)


def select_larger(operands: tuple[Array, ...], types: Types, result: DType) -> Array:
    """``b if b > a else a``: a NaN `b` is dropped, a NaN `a` stays, and of two equal values `a` is taken.

    Parameters
    ----------
    operands, types, result
        As of `tg2hdl_ir.plugins.OpDef.evaluate`.
    """
    a, b = operands
    with np.errstate(invalid="ignore"):
        return np.where(np.greater(b, a), b, a)


def select_smaller(operands: tuple[Array, ...], types: Types, result: DType) -> Array:
    """``b if b < a else a``.

    Parameters
    ----------
    operands, types, result
        As of `tg2hdl_ir.plugins.OpDef.evaluate`.
    """
    a, b = operands
    with np.errstate(invalid="ignore"):
        return np.where(np.less(b, a), b, a)


def negate(operands: tuple[Array, ...], types: Types, result: DType) -> Array:
    """Two's complement negation; a float's sign bit is flipped, of NaN too.

    Parameters
    ----------
    operands, types, result
        As of `tg2hdl_ir.plugins.OpDef.evaluate`.
    """
    (a,) = operands
    if not result.is_float:
        return wrap(np.negative(a), result)
    bits = np.asarray(a).view(f"uint{result.bit_width}")
    sign = bits.dtype.type(1 << (result.bit_width - 1))
    return np.asarray(np.bitwise_xor(bits, sign)).view(result.numpy())


def multiply_accumulate(operands: tuple[Array, ...], types: Types, result: DType) -> Array:
    """Integer ``a * b + c``.

    Parameters
    ----------
    operands, types, result
        As of `tg2hdl_ir.plugins.OpDef.evaluate`.
    """
    a, b, c = operands
    return wrap(np.add(np.multiply(a, b), c), result)


def _quotient(a: Array, b: Array, dtype: DType) -> Array:
    storage = dtype.numpy()
    unsigned = np.dtype(f"u{storage.itemsize}")
    zero = np.equal(b, 0)
    magnitude_a = np.asarray(np.abs(a)).astype(unsigned)
    magnitude_b = np.where(zero, unsigned.type(1), np.asarray(np.abs(b)).astype(unsigned))
    quotient = np.where(zero, unsigned.type(0), np.floor_divide(magnitude_a, magnitude_b))
    negative = np.not_equal(np.less(a, 0), np.less(b, 0))
    return wrap(np.where(negative, np.negative(quotient), quotient), dtype)


def divide(operands: tuple[Array, ...], types: Types, result: DType) -> Array:
    """IEEE division; integers truncate toward zero, ``x / 0 = 0`` and ``INT_MIN / -1 = INT_MIN``.

    Parameters
    ----------
    operands, types, result
        As of `tg2hdl_ir.plugins.OpDef.evaluate`.
    """
    a, b = operands
    if result.is_float:
        with np.errstate(all="ignore"):
            return round_to_format(np.divide(widen(a, result), widen(b, result)), result)
    return _quotient(a, b, result)


def modulo(operands: tuple[Array, ...], types: Types, result: DType) -> Array:
    """Remainder of the truncating division, with the sign of the dividend; ``x % 0 = x``.

    Parameters
    ----------
    operands, types, result
        As of `tg2hdl_ir.plugins.OpDef.evaluate`.
    """
    a, b = operands
    return wrap(np.subtract(a, np.multiply(_quotient(a, b, result), b)), result)


def _amount(amount: Array, dtype: DType, width: int) -> Array:
    """Shift amount as an unsigned number, at most `width`."""
    storage = dtype.numpy()
    unsigned = np.asarray(amount).astype(f"u{storage.itemsize}")
    within = np.bitwise_and(unsigned, unsigned.dtype.type((1 << dtype.bit_width) - 1))
    return np.asarray(np.minimum(within, np.uint8(width)))


def shift_left(operands: tuple[Array, ...], types: Types, result: DType) -> Array:
    """``a << b``; zero when `b`, read as unsigned, is at least the width.

    Parameters
    ----------
    operands, types, result
        As of `tg2hdl_ir.plugins.OpDef.evaluate`.
    """
    storage = result.numpy()
    amount = _amount(operands[1], types[1], result.bit_width)
    inside = np.less(amount, result.bit_width)
    shift = np.where(inside, amount, 0).astype(storage)
    return wrap(np.where(inside, np.left_shift(operands[0], shift), storage.type(0)), result)


def shift_right(operands: tuple[Array, ...], types: Types, result: DType) -> Array:
    """``a >> b``, arithmetic for signed `a`; beyond the width zero or the sign.

    Parameters
    ----------
    operands, types, result
        As of `tg2hdl_ir.plugins.OpDef.evaluate`.
    """
    storage = result.numpy()
    amount = _amount(operands[1], types[1], result.bit_width)
    last = result.bit_width - 1
    shifted = np.right_shift(operands[0], np.minimum(amount, np.uint8(last)).astype(storage))
    if result.kind == "int":
        return np.asarray(shifted)
    return np.where(np.less(amount, result.bit_width), np.asarray(shifted), storage.type(0))


def cast(operands: tuple[Array, ...], types: Types, result: DType) -> Array:
    """Conversion of the value.

    Float to integer truncates toward zero and wraps modulo 2^bit_width; NaN and infinities give 0.  Anything to bool is
    ``x != 0`` (NaN is true).  To a float: one rounding to nearest even.

    Parameters
    ----------
    operands, types, result
        As of `tg2hdl_ir.plugins.OpDef.evaluate`.
    """
    (a,), (source,) = operands, types
    if source == result:
        return a
    with np.errstate(all="ignore"):
        if result.is_bool:
            return np.asarray(np.not_equal(a, source.numpy().type(0)))
        if result.is_float:
            return _to_float(a, source, result)
        if source.is_float:
            return _float_to_int(a, result)
        return wrap(a, result)


def _to_float(a: Array, source: DType, result: DType) -> Array:
    if source.is_float:
        return round_to_format(a if source.bit_width >= 32 else a.astype(np.float32), result)
    if result.bit_width >= 32:
        return np.asarray(a.astype(result.numpy()))
    if source.bit_width > 53:
        negative = np.less(a, 0)
        magnitude = np.asarray(np.abs(a)).astype(np.uint64)
        low = np.bitwise_and(magnitude, np.uint64(0xFFF))
        sticky = np.bitwise_or(magnitude - low, np.where(low != 0, np.uint64(0x800), np.uint64(0)))
        large = np.where(magnitude >= np.uint64(1 << 53), sticky, magnitude).astype(np.float64)
        return round_to_format(np.where(negative, -large, large), result)
    return round_to_format(a.astype(np.float64), result)


def _float_to_int(a: Array, result: DType) -> Array:
    value = a.astype(np.float64)
    modulus = 2.0**result.bit_width
    value = np.fmod(np.trunc(np.where(np.isfinite(value), value, 0.0)), modulus)
    magnitude = np.abs(value).astype(np.uint64)
    return wrap(np.where(value < 0, np.negative(magnitude), magnitude), result)


def bitcast(operands: tuple[Array, ...], types: Types, result: DType) -> Array:
    """Same bits as another type of the same width; bool and 8-bit types convert as 0 and 1, and as ``x != 0``.

    Parameters
    ----------
    operands, types, result
        As of `tg2hdl_ir.plugins.OpDef.evaluate`.
    """
    bits = types[0].array_to_bits(operands[0])
    return result.bits_to_array((bits != 0).astype(np.uint64) if result.is_bool else bits)


def truncate(operands: tuple[Array, ...], types: Types, result: DType) -> Array:
    """Nearest integer toward zero, keeping the sign of zero.

    Parameters
    ----------
    operands, types, result
        As of `tg2hdl_ir.plugins.OpDef.evaluate`.
    """
    with np.errstate(all="ignore"):
        return canonicalize_nan(np.trunc(widen(operands[0], result)).astype(result.numpy()), result)
