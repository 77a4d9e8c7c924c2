"""Sums to codes in integer operations that equal TFLM's for every sum that can occur."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from tinygrad import Tensor
from tinygrad.dtype import dtypes

from tg2hdl_ir.tensors.narrow_multipliers import Staircase, fit_staircase
from tg2hdl_ir.tensors.roundings import multipliers
from tg2hdl_tflite.arithmetic import clip, scaled
from tg2hdl_tflite.arithmetic16 import short_multipliers
from tg2hdl_tflite.node import TfliteNode
from tg2hdl_tflite.value import Bounds, tensor_of

__all__ = ["clipped", "lookup", "requantized", "to_codes", "two_roundings", "wide_codes"]

Array = npt.NDArray[Any]
_INT32 = -(1 << 31), (1 << 31) - 1
_FEW = 1 << 12
"""Codes for which a narrow multiplier is looked for; 65536 codes need nearly all bits of TFLM's."""
_FAR = 1 << 62


def lookup(node: TfliteNode, index: Tensor, table: npt.ArrayLike, dtype: Any, key: str = "table") -> Tensor:
    """Entries of a table; the index counts from 0.

    Parameters
    ----------
    node : TfliteNode
        Owner of the table.
    index : Tensor
        Integers from 0 to the last entry.
    table : array_like
        Entries along the first axis; a table of one value becomes that value.
    dtype : tinygrad DType
        Of the entries.
    key : str
        Name of the table within the operator.
    """
    entries = np.asarray(table)
    if np.all(entries == entries[0]):
        return tensor_of(np.broadcast_to(entries[0], tuple(int(n) for n in index.shape)), dtype)
    # In one kernel with a pad, tinygrad would read the index outside of its buffer.
    found: Tensor = node.keep(key, entries, dtype)[index.cast(dtypes.int32)].contiguous()
    return found


def clipped(number: Tensor, low: int, high: int, reach: tuple[int, int]) -> Tensor:
    """Saturated, where the reach of the integers requires it.

    Parameters
    ----------
    number : Tensor
        Integers.
    low, high : int
        Least and greatest result.
    reach : (int, int)
        Bounds of `number`; a limit outside of them costs no comparison.
    """
    if reach[0] < low:
        number = number.maximum(low)
    if reach[1] > high:
        number = (number < high).where(number, high)
    return number


def requantized(
    node: TfliteNode,
    sums: Tensor,
    reals: npt.ArrayLike,
    first: npt.ArrayLike,
    last: npt.ArrayLike,
    zero: int,
    limits: tuple[int, int],
    dtype: Any,
) -> tuple[Tensor, Bounds]:
    """Codes of sums times factors, rounded twice as TFLM does, plus a zero point.

    Parameters
    ----------
    sums : Tensor
        Integers of 32 bits.
    reals : array_like of float64
        One factor, or one for each index of the last axis.
    first, last : array_like of int
        Bounds of the sums, as many as factors.
    """
    pair = multipliers(reals)
    factor, shift = (np.reshape(v, -1)[:, None] for v in pair)

    def code(rows: slice, total: Array) -> Array:
        return clip(scaled(total, (factor[rows], shift[rows])) + zero, *limits)

    first, last = (np.asarray(v, np.int64) for v in (first, last))
    wraps = max(int(np.abs(first).max()), int(np.abs(last).max())) << int(shift.max(initial=0)) >= 1 << 31
    found = None
    if limits[1] - limits[0] < _FEW and not wraps:
        found = to_codes(node, sums, code, reals, first, last, limits, dtype)
    return found or _by_two_roundings(node, sums, pair, zero, limits, dtype)


def to_codes(
    node: TfliteNode,
    sums: Tensor,
    code: Callable[[slice, Array], Array],
    slopes: npt.ArrayLike,
    first: npt.ArrayLike,
    last: npt.ArrayLike,
    limits: tuple[int, int],
    dtype: Any,
) -> tuple[Tensor, Bounds] | None:
    """Codes of sums by the narrowest multipliers that are proven; None where there are none.

    Parameters
    ----------
    code : callable
        Codes of sums (channels, any) of a slice of the channels, never falling with the sum.
    slopes, first, last : array_like
        About how many codes a sum is and bounds of the sums: all of one shape, which broadcasts against the sums.
    """
    slope, least, most = np.broadcast_arrays(
        np.asarray(slopes, np.float64), np.asarray(first, np.int64), np.asarray(last, np.int64)
    )
    shape = slope.shape
    low, high = (clip(v, *_INT32).reshape(-1) for v in (least, most))
    found = node.once(
        "staircase", lambda: fit_staircase(code, slope.reshape(-1), low, high, *limits, by_sign=True)
    )
    if found is None:
        return None
    ends = code(slice(None), np.stack([low, high], -1)).reshape(*shape, 2)
    bounds = Bounds(ends[..., 0], ends[..., 1])
    return _by_staircase(node, sums, found, shape, low, high, limits, dtype), bounds


def _by_staircase(
    node: TfliteNode,
    sums: Tensor,
    found: Staircase,
    shape: tuple[int, ...],
    first: Array,
    last: Array,
    limits: tuple[int, int],
    dtype: Any,
) -> Tensor:
    """``clip((sum * factor + constant) >> shift)``."""
    ends = [int(v) * int(f) for s in (first, last) for v, f in zip(s, found.factor, strict=True)]
    added = max(int(np.abs(found.below).max()), int(np.abs(found.above).max()))
    low, high = min(ends) - added, max(ends) + added
    wide = dtypes.int32 if low >= -(1 << 31) and high < 1 << 31 else dtypes.int64

    def channels(key: str, values: Array) -> Tensor:
        narrow = dtypes.int32 if np.abs(values).max() < 1 << 31 else dtypes.int64
        return node.keep(key, _compact(values.reshape(shape)), narrow).cast(wide)

    number = sums.cast(wide)
    if np.any(found.factor != 1):
        number = number * channels("factors", found.factor)
    above = channels("added", found.above)
    number = number + (
        above if found.is_single else (sums < 0).where(channels("added_below", found.below), above)
    )
    if found.shift:
        number = number >> found.shift
    return clipped(number, *limits, (low >> found.shift, high >> found.shift)).cast(dtype)


def _by_two_roundings(
    node: TfliteNode, sums: Tensor, pair: tuple[Array, Array], zero: int, limits: tuple[int, int], dtype: Any
) -> tuple[Tensor, Bounds]:
    number = clipped(two_roundings(node, sums, pair) + zero, *limits, _INT32)
    return number.cast(dtype), Bounds(np.array(limits[0]), np.array(limits[1]))


def two_roundings(node: TfliteNode, sums: Tensor, pair: tuple[Any, Any], key: str = "") -> Tensor:
    """TFLM's own steps: a product of 31 bits rounded half up, and a shift that rounds half away from zero.

    Parameters
    ----------
    sums : Tensor
        Integers of 32 bits.
    pair : (array_like, array_like)
        Factors and left shifts of `multipliers`.
    key : str
        Tells apart several of them in an operator.

    Returns
    -------
    Tensor
        Of int64.
    """
    factor, shift = (_compact(np.asarray(v)) for v in pair)
    left, right = np.maximum(shift, 0), np.maximum(-shift, 0)
    if np.any(left):
        sums = (sums.cast(dtypes.int64) << node.keep(f"{key}left", left, dtypes.int64)).cast(dtypes.int32)
    number = sums.cast(dtypes.int64) * node.keep(f"{key}factors", factor, dtypes.int32).cast(dtypes.int64)
    number = (number + (1 << 30)) >> 31
    if np.any(right):
        half = np.where(right > 0, np.int64(1) << np.maximum(right - 1, 0), 0)
        added = (number < 0).where(
            node.keep(f"{key}half_below", half - (right > 0), dtypes.int64),
            node.keep(f"{key}half", half, dtypes.int64),
        )
        number = (number + added) >> node.keep(f"{key}right", right, dtypes.int64)
    return number


def wide_codes(
    node: TfliteNode,
    sums: Tensor,
    reals: npt.ArrayLike,
    first: npt.ArrayLike,
    last: npt.ArrayLike,
    limits: tuple[int, int],
    dtype: Any,
    key: str = "",
) -> tuple[Tensor, Bounds]:
    """Codes of sums of up to 48 bits times factors of 15 bits, halves up, as TFLM has it for int16 activations.

    Parameters
    ----------
    sums : Tensor
        Of int32, or of int64 where the bounds need it.
    reals, first, last : array_like
        Factors and bounds of the sums; one of each, or one for each index of the last axis.
    """
    factor, shift = (_compact(np.asarray(v)) for v in short_multipliers(reals))
    first, last = (np.asarray(v, np.int64) for v in (first, last))
    reach = max(int(np.abs(first).max()), int(np.abs(last).max()))
    if reach >= 1 << 47 or shift.min() < 8:
        raise node.refuse(
            f"sums of up to {reach} times {float(np.max(reals)):g}, where TFLM has 48 bits and factors below 128",
            "quantize the model again",
        )
    most = int(shift.max())
    # One shift for all channels: factors of those with smaller shifts are multiplied.
    spread = factor << (most - shift)
    added = np.int64(1) << (most - 1)
    number = sums.cast(dtypes.int64)
    if reach * int(spread.max()) + int(added) < _FAR:
        number = (number * node.keep(f"{key}factors", spread, dtypes.int64) + int(added)) >> most
    else:
        half = np.int64(1) << (shift - 1)
        number = number * node.keep(f"{key}factors", factor, dtypes.int64) + node.keep(
            f"{key}half", half, dtypes.int64
        )
        number = number >> node.keep(f"{key}right", shift, dtypes.int64)
    ends = [(v * factor + (np.int64(1) << (shift - 1))) >> shift for v in (first, last)]
    low, high = int(ends[0].min()), int(ends[1].max())
    if low < _INT32[0] or high > _INT32[1]:
        # TFLM keeps the low 32 bits.
        number, (low, high) = number.cast(dtypes.int32), _INT32
        ends = [np.array(low), np.array(high)]
    return clipped(number, *limits, (low, high)).cast(dtype), Bounds(*(clip(v, *limits) for v in ends))


def _compact(array: Array) -> Array:
    """One element where all are equal."""
    return array.reshape(-1)[0].reshape(()) if array.size and np.all(array == array.reshape(-1)[0]) else array
