"""Conversion between numpy words and the 32-bit chunks that engines exchange."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tg2hdl_ir import InputError

__all__ = ["chunks_of", "from_chunks", "from_int", "from_ints", "limbs_of", "to_chunks", "to_ints"]

Chunks = NDArray[np.uint32]


def chunks_of(width: int) -> int:
    """Number of 32-bit chunks of a word, at least one."""
    return max(1, (width + 31) // 32)


def limbs_of(width: int) -> int:
    """Number of 64-bit limbs of a word in an array of wide words."""
    return (width + 63) // 64


def to_chunks(words: Any, width: int, what: str) -> Chunks:
    """Return words as an array of shape (count, chunks), least significant chunk first.

    Parameters
    ----------
    words : array_like
        Integers, one-dimensional up to 64 bits, otherwise uint64 limbs of shape (count, limbs).
    width : int
        Bits per word.
    what : str
        Name of the place for messages.

    Raises
    ------
    InputError
        On a wrong dtype, shape or value.
    """
    array = np.asarray(words)
    if array.dtype.kind not in "iub":
        raise InputError(
            f"words for {what} have dtype {array.dtype}, not integers",
            hint="view floats as integers of the same size, e.g. array.view(numpy.uint32)",
        )
    if width <= 64:
        if array.ndim != 1:
            raise InputError(
                f"words for {what} have shape {array.shape}, not one dimension",
                hint="flatten the array in the order of the addresses",
            )
        if array.dtype.kind == "b":
            array = array.astype(np.uint8)
        bits = array.dtype.itemsize * 8
        if array.size and bits > width:
            low, high = int(array.min()), int(array.max())
            if low < -(1 << width >> 1) or high >= 1 << width:
                bad = low if low < -(1 << width >> 1) else high
                raise InputError(
                    f"word {bad} does not fit {what} of {width} bits",
                    hint=f"allowed: {-(1 << width >> 1)} to {(1 << width) - 1}",
                )
        raw: NDArray[Any] = array.astype(np.uint64 if width > 32 else np.uint32)
        raw = np.bitwise_and(raw, raw.dtype.type((1 << width) - 1))
        little = np.ascontiguousarray(raw).astype(f"<u{raw.dtype.itemsize}", copy=False)
        return little.view("<u4").reshape(len(array), chunks_of(width))
    limbs = limbs_of(width)
    if array.dtype != np.uint64 or array.ndim != 2 or array.shape[1] != limbs:
        raise InputError(
            f"words for {what} of {width} bits have dtype {array.dtype} and shape {array.shape}",
            hint=f"give a uint64 array of shape (count, {limbs}), least significant limb first",
        )
    top = width % 64
    if top and array.size and int(array[:, -1].max()) >> top:
        raise InputError(
            f"a word does not fit {what} of {width} bits",
            hint=f"bits above {width} of the last limb must be 0",
        )
    chunks = np.ascontiguousarray(array).astype("<u8", copy=False).view("<u4").reshape(len(array), 2 * limbs)
    return np.ascontiguousarray(chunks[:, : chunks_of(width)])


def from_chunks(chunks: Chunks, width: int, signed: bool) -> NDArray[Any]:
    """Inverse of `to_chunks`: the smallest dtype that holds the width, or uint64 limbs above 64 bits.

    Parameters
    ----------
    chunks : Chunks
        32 bits each, the lowest first; one row for each word.
    width : int
        Bits of a word.
    signed : bool
        Whether the top bit is the sign.
    """
    count = len(chunks)
    if width > 64:
        padded = np.zeros((count, 2 * limbs_of(width)), dtype="<u4")
        padded[:, : chunks.shape[1]] = chunks
        return padded.view("<u8").astype(np.uint64, copy=False)
    size = next(size for size in (8, 16, 32, 64) if width <= size)
    wide = chunks.astype("<u4", copy=False).reshape(-1).view("<u8" if width > 32 else "<u4").reshape(count)
    if not signed:
        return wide.astype(f"u{size // 8}")
    shift = size - width
    return (wide.astype(f"u{size // 8}") << shift).view(f"i{size // 8}") >> shift


def from_ints(values: list[int], width: int) -> Chunks:
    """Return Python integers, taken modulo 2**width, as chunks.

    Parameters
    ----------
    values : list of int
    width : int
        Bits of a word.
    """
    size, mask = 4 * chunks_of(width), (1 << width) - 1
    raw = b"".join((value & mask).to_bytes(size, "little") for value in values)
    return np.frombuffer(raw, dtype="<u4").reshape(len(values), -1)


@lru_cache(maxsize=1024)
def from_int(value: int, width: int) -> Chunks:
    """Return one Python integer as chunks; kept, since ports are mostly driven with the same few values.

    Parameters
    ----------
    value : int
    width : int
        Bits of a word.
    """
    return from_ints([value], width)


def to_ints(chunks: Chunks) -> list[int]:
    """Return chunks as Python integers, unsigned."""
    return [int.from_bytes(row.tobytes(), "little") for row in chunks.astype("<u4", copy=False)]
