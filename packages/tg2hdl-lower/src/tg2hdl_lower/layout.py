"""Physical layouts: which word and lane of a memory holds an element of a buffer."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir.dtype import DType
from tg2hdl_ir.passes.affine import Affine
from tg2hdl_ir.passes.ranges import Interval

__all__ = ["Layout"]


@dataclass(frozen=True)
class Layout:
    """A buffer seen as a row-major array `dims`, of which `split` neighbours along each dimension share a word.

    Element ``(d0, d1, ...)`` is in the word with row-major index ``d // split`` in an array of ``ceil(dims / split)``
    and there in the lane with row-major index ``d % split``.

    Parameters
    ----------
    dims : tuple of int
        Sizes; their product is the depth of the buffer.
    split : tuple of int
        Lanes per dimension.
    """

    dims: tuple[int, ...]
    split: tuple[int, ...]

    def __str__(self) -> str:
        return "x".join(f"{d}/{s}" if s > 1 else str(d) for d, s in zip(self.dims, self.split, strict=True))

    @classmethod
    def linear(cls, depth: int, lanes: int = 1) -> Layout:
        """Consecutive elements, `lanes` to a word."""
        return cls((depth,), (lanes,))

    @property
    def depth(self) -> int:
        """Elements."""
        return math.prod(self.dims)

    @property
    def lanes(self) -> int:
        """Elements in a word."""
        return math.prod(self.split)

    @property
    def rows(self) -> tuple[int, ...]:
        """Words along each dimension."""
        return tuple(-(-d // s) for d, s in zip(self.dims, self.split, strict=True))

    @property
    def words(self) -> int:
        """Words in the memory."""
        return math.prod(self.rows)

    def place(self, elements: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Word and lane of each element."""
        digits = np.unravel_index(elements, self.dims)
        word = np.zeros_like(elements)
        lane = np.zeros_like(elements)
        for digit, rows, split in zip(digits, self.rows, self.split, strict=True):
            word = word * rows + digit // split
            lane = lane * split + digit % split
        return word, lane

    def pack(self, array: npt.NDArray[Any], dtype: DType) -> npt.NDArray[np.uint64]:
        """Contents of the memory as bit patterns of shape (words, lanes); unused lanes are zero."""
        flat = dtype.array_to_bits(np.asarray(array).reshape(-1))
        word, lane = self.place(np.arange(self.depth, dtype=np.int64))
        packed = np.zeros((self.words, self.lanes), dtype=np.uint64)
        packed[word, lane] = flat
        return packed

    def unpack(self, packed: npt.NDArray[np.uint64], dtype: DType) -> npt.NDArray[Any]:
        """Elements in order from bit patterns of shape (words, lanes); inverse of `pack`."""
        word, lane = self.place(np.arange(self.depth, dtype=np.int64))
        return dtype.bits_to_array(packed[word, lane])

    def is_clean(self, form: Affine, interval: Callable[[Affine], Interval]) -> bool:
        """Whether the digits of an address stay in their dimension, so that none carries into the next.

        Parameters
        ----------
        interval : callable
            Smallest and largest value of a form, wherever the access happens.
        """
        digits = self.digits(form)
        if digits is None:
            return False
        for digit, dim in zip(digits[1:], self.dims[1:], strict=True):
            low, high = interval(digit)
            if low < 0 or high >= dim:
                return False
        return True

    def address(self, form: Affine, *, clean: bool) -> tuple[Affine, int] | None:
        """Word address and lane of an affine element address.

        Parameters
        ----------
        clean : bool
            The digits of the address do not carry wherever the access happens.

        Returns
        -------
        (Affine, int) or None
            None when the lane is not the same in every step, or when digits may carry.
        """
        if self.lanes == 1:
            return form, 0
        digits = self.digits(form)
        if digits is None or not clean:
            return None
        word, lane = Affine(0), 0
        for digit, rows, split in zip(digits, self.rows, self.split, strict=True):
            if any(coefficient % split for _, coefficient in digit.terms):
                return None
            offset = digit.const % split
            reduced = Affine((digit.const - offset) // split, tuple((s, c // split) for s, c in digit.terms))
            word, lane = word.scaled(rows).plus(reduced), lane * split + offset
        return word, lane

    def digits(self, form: Affine) -> list[Affine] | None:
        """Position along each dimension; None when a coefficient does not fall on one."""
        strides = [math.prod(self.dims[n + 1 :]) for n in range(len(self.dims))]
        digits = [Affine(0) for _ in self.dims]
        for symbol, coefficient in form.terms:
            at = next((n for n, s in enumerate(strides) if coefficient % s == 0), None)
            if at is None:
                return None
            digits[at] = digits[at].plus(Affine(0, ((symbol, coefficient // strides[at]),)))
        rest = form.const
        for n, stride in enumerate(strides):
            quotient, rest = divmod(rest, stride)
            digits[n] = digits[n].offset(quotient)
        return digits
