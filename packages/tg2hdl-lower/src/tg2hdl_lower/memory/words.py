"""Memory words as a simulation takes them: integers up to 64 bits, limbs of 64 bits above."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir import DType
from tg2hdl_lower.memory.layout import Layout

__all__ = ["from_words", "to_words"]


def to_words(packed: npt.NDArray[np.uint64], element: int) -> npt.NDArray[np.uint64]:
    """Words from bit patterns of shape (words, lanes); `element` is the width of a lane (bits).

    Parameters
    ----------
    packed : npt.NDArray[np.uint64]
        Bit patterns of shape (words, lanes).
    element : int
        Width of a lane (bits).
    """
    if packed.shape[1] == 1:
        return packed[:, 0]
    width = packed.shape[1] * element
    bits = (packed[:, :, None] >> np.arange(element, dtype=np.uint64)) & np.uint64(1)
    flat = bits.reshape(len(packed), width).astype(np.uint8)
    limbs = -(-width // 64)
    flat = np.pad(flat, ((0, 0), (0, limbs * 64 - width)))
    words = np.packbits(flat, axis=1, bitorder="little").view("<u8")
    return words[:, 0] if limbs == 1 else words


def from_words(words: npt.NDArray[Any], layout: Layout, dtype: DType) -> npt.NDArray[Any]:
    """Flat elements of a memory from its words; inverse of `to_words` after `Layout.pack`.

    Parameters
    ----------
    words : ndarray
        As a simulation reads them: one integer for each word, or rows of limbs.
    layout : Layout
    dtype : DType
        Of the elements.
    """
    width = dtype.bit_width
    if layout.lanes == 1:
        return layout.unpack(words.reshape(-1, 1).astype(np.uint64), dtype)
    limbs = np.ascontiguousarray(words.astype("<u8").reshape(layout.words, -1))
    bits = np.unpackbits(limbs.view(np.uint8), axis=1, bitorder="little")[:, : layout.lanes * width]
    lanes = bits.reshape(layout.words, layout.lanes, width).astype(np.uint64)
    packed = (lanes << np.arange(width, dtype=np.uint64)).sum(axis=2, dtype=np.uint64)
    return layout.unpack(packed, dtype)
