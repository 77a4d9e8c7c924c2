"""The functions of the reference: arrays with one scale, and binary32 values as bit patterns."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tg2hdl_ir import InputError
from tg2hdl_quant.symmetric import dequantize, quantize_int8, quantize_int16

__all__ = ["bits_to_float", "dequantize", "float_to_bits", "quantize_int8", "quantize_int16"]


def float_to_bits(arr: npt.ArrayLike) -> npt.NDArray[np.uint32]:
    """Bit patterns of float32 values, same shape.

    Other numbers are rounded to float32 first, to nearest even.

    NaN payloads and the sign of zero are kept for float32 input.
    """
    values = np.asarray(arr)
    with np.errstate(over="ignore"):
        return np.array(values, dtype=np.float32, order="C").view(np.uint32)


def bits_to_float(arr: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """Float32 values of 32-bit patterns, same shape; the inverse of `float_to_bits`.

    Raises
    ------
    InputError
        For elements that are not integers, or do not fit in 32 bits.
    """
    bits = np.asarray(arr)
    if bits.dtype.kind not in "iu":
        raise InputError(
            f"bits_to_float expects integers, got an array of {bits.dtype}",
            hint="pass unsigned 32-bit patterns",
        )
    if bits.dtype != np.int32 and bits.size and (int(bits.min()) < 0 or int(bits.max()) > 0xFFFF_FFFF):
        bad = int(bits.min()) if int(bits.min()) < 0 else int(bits.max())
        raise InputError(f"{bad} is not a 32-bit pattern", hint="patterns lie between 0 and 0xffffffff")
    return np.array(bits.astype(np.uint32), order="C").view(np.float32)
