"""Elements of Microscaling blocks, with numpy conversions of whole blocks; imports no hardware library.

Source: OCP Microscaling Formats (MX) Specification, version 1.0. A block is 32 elements with a shared scale, a power
of two: code k of its type E8M0 is 2^(k - 127), and 255 makes the block NaN.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = [
    "BLOCK",
    "E2M1",
    "E2M3",
    "E3M2",
    "E4M3",
    "E5M2",
    "ELEMENTS",
    "INT8",
    "NAN_SCALE",
    "Element",
    "element_values",
    "from_blocks",
    "to_blocks",
    "to_words",
]

BLOCK = 32
NAN_SCALE = 255
_SCALE_BIAS = 127


@dataclass(frozen=True)
class Element:
    """Type of the elements of a block.

    Parameters
    ----------
    name : str
    exponent, fraction : int
        Bits of the fields after the sign; without exponent it is a fixed-point number in two's complement.
    largest : int
        Pattern of the largest number.
    infinities : bool
        Whether patterns above the largest number begin with an infinity; otherwise all of them are NaN.
    """

    name: str
    exponent: int
    fraction: int
    largest: int
    infinities: bool = False

    def __str__(self) -> str:
        return self.name

    @property
    def width(self) -> int:
        """Bits of a pattern."""
        return 1 + self.exponent + self.fraction + (not self.exponent)

    @property
    def bias(self) -> int:
        """Of the exponent field."""
        return (1 << self.exponent - 1) - 1 if self.exponent else 0

    @property
    def emin(self) -> int:
        """Exponent of the smallest normal number."""
        return 1 - self.bias if self.exponent else 0

    @property
    def emax(self) -> int:
        """Exponent of the largest number."""
        return (self.largest >> self.fraction) - self.bias if self.exponent else 0

    @property
    def unit(self) -> int:
        """Exponent of the lowest bit: all numbers are multiples of 2 to this power."""
        return self.emin - self.fraction


E5M2 = Element("E5M2", 5, 2, 0x7B, infinities=True)
E4M3 = Element("E4M3", 4, 3, 0x7E)
E3M2 = Element("E3M2", 3, 2, 0x1F)
E2M3 = Element("E2M3", 2, 3, 0x1F)
E2M1 = Element("E2M1", 2, 1, 0x7)
INT8 = Element("INT8", 0, 6, 0x7F)
ELEMENTS = {e.name: e for e in (E5M2, E4M3, E3M2, E2M3, E2M1, INT8)}


def element_values(element: Element) -> npt.NDArray[np.float64]:
    """Numbers of all patterns of an element, exactly.

    Parameters
    ----------
    element : Element
    """
    patterns = np.arange(1 << element.width)
    half = 1 << (element.width - 1)
    if not element.exponent:
        return np.ldexp((patterns + half) % (2 * half) - half, element.unit).astype(np.float64)
    magnitude = patterns & half - 1
    field, fraction = magnitude >> element.fraction, magnitude & (1 << element.fraction) - 1
    significand = fraction + ((field > 0) << element.fraction)
    values = np.ldexp(significand.astype(np.float64), np.maximum(field, 1) - 1 + element.unit)
    values[magnitude > element.largest] = np.nan
    if element.infinities:
        values[magnitude == element.largest + 1] = np.inf
    return np.where(patterns < half, values, -values)


def to_blocks(x: npt.ArrayLike, element: Element) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """Convert FP32 numbers to blocks along the last axis: patterns, and a scale for each block.

    The scale takes the exponent of the largest magnitude to that of the largest element. Elements are rounded to
    nearest, ties to even; those beyond the largest become it. A block with an infinity or a NaN becomes NaN.

    Parameters
    ----------
    x : array_like
        The last axis is a multiple of 32.
    element : Element
    """
    blocks = np.asarray(x, np.float32).astype(np.float64)
    blocks = blocks.reshape(*blocks.shape[:-1], -1, BLOCK)
    finite = np.isfinite(blocks).all(-1)
    blocks = np.where(finite[..., None], blocks, 0)
    largest = np.abs(blocks).max(-1)
    exponent = np.where(largest > 0, np.frexp(largest)[1] - 1, -_SCALE_BIAS) - element.emax
    exponent = np.clip(exponent, -_SCALE_BIAS, _SCALE_BIAS)
    scaled = np.ldexp(np.abs(blocks), -exponent[..., None])
    # In units of the lowest bit of its own exponent, a number is rounded to an integer.
    place = np.where(scaled > 0, np.maximum(np.frexp(scaled)[1] - 1, element.emin), element.emin)
    steps = np.rint(np.ldexp(scaled, element.fraction - place)).astype(np.int64)
    patterns = np.minimum(steps + ((place - element.emin) << element.fraction), element.largest)
    half = 1 << (element.width - 1)
    negative = patterns + half if element.exponent else -patterns & 2 * half - 1
    patterns = np.where(np.signbit(blocks), negative, patterns)
    scales = np.where(finite, exponent + _SCALE_BIAS, NAN_SCALE)
    return patterns.reshape(*patterns.shape[:-2], -1).astype(np.uint8), scales.astype(np.uint8)


def from_blocks(patterns: npt.ArrayLike, scales: npt.ArrayLike, element: Element) -> npt.NDArray[np.float64]:
    """Numbers of blocks, exactly.

    Parameters
    ----------
    patterns, scales : array_like
        As `to_blocks` returns them.
    element : Element
    """
    codes = np.asarray(patterns)
    blocks = element_values(element)[codes].reshape(*codes.shape[:-1], -1, BLOCK)
    exponent: Any = np.asarray(scales).astype(np.int64)[..., None]
    numbers = np.ldexp(blocks, exponent - _SCALE_BIAS)
    return np.where(exponent == NAN_SCALE, np.nan, numbers).reshape(codes.shape)


def to_words(patterns: npt.ArrayLike, element: Element) -> npt.NDArray[np.uint32]:
    """Pack the elements along the last axis into words, the first in the lowest bits.

    Parameters
    ----------
    patterns : array_like
    element : Element
        Of 4 or 8 bits.
    """
    lanes = 32 // element.width
    codes = np.asarray(patterns).astype(np.uint32)
    codes = codes.reshape(*codes.shape[:-1], -1, lanes)
    return np.bitwise_or.reduce(codes << (element.width * np.arange(lanes, dtype=np.uint32)), axis=-1)
