"""Physical layouts: which word and lane of a memory holds an element of a buffer."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir import Affine, DType, Interval

__all__ = ["Layout", "MovingDigit", "Row", "RowElement", "RowSpan", "joined_lanes"]


def joined_lanes(packed: npt.NDArray[np.uint64], width: int) -> list[int]:
    """Words as integers from bit patterns of shape (words, lanes), each lane of `width` bits; the first lane lowest.

    Parameters
    ----------
    packed : ndarray
    width : int
        Bits of a lane, at most 64.
    """
    if width % 8 == 0:
        octets = np.ascontiguousarray(packed.astype("<u8")).view(np.uint8)
        octets = octets.reshape(*packed.shape, 8)[:, :, : width // 8].reshape(len(packed), -1)
    else:
        bits = (packed[:, :, None] >> np.arange(width, dtype=np.uint64)).astype(np.uint8) & np.uint8(1)
        octets = np.packbits(bits.reshape(len(packed), -1), axis=1, bitorder="little")
    size, data = octets.shape[1], octets.tobytes()
    return [int.from_bytes(data[n : n + size], "little") for n in range(0, len(data), size)]


@dataclass(frozen=True)
class Layout:
    """A buffer seen as a row-major array `dims`; `split` neighbours along each dimension share a word.

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
        """Consecutive elements, `lanes` to a word.

        Parameters
        ----------
        depth : int
            Number of elements.
        lanes : int
            Elements of a word.
        """
        return cls((depth,), (lanes,))

    @property
    def depth(self) -> int:
        """Elements."""
        return math.prod(self.dims)

    @cached_property
    def lanes(self) -> int:
        """Elements in a word."""
        return math.prod(self.split)

    @cached_property
    def rows(self) -> tuple[int, ...]:
        """Words along each dimension."""
        return tuple(-(-d // s) for d, s in zip(self.dims, self.split, strict=True))

    @property
    def words(self) -> int:
        """Words in the memory."""
        return math.prod(self.rows)

    @property
    def address_width(self) -> int:
        """Bits of a word address."""
        return max(1, (self.words - 1).bit_length())

    def merged(self) -> Layout:
        """The same words and lanes with as few dimensions as possible; equal for layouts of equal words and lanes."""
        dims, split = list(self.dims), list(self.split)
        for n in range(len(dims) - 1, 0, -1):
            if split[n] == dims[n] or (split[n - 1] == 1 and dims[n] % split[n] == 0):
                dims[n - 1 : n + 1], split[n - 1 : n + 1] = [dims[n - 1] * dims[n]], [split[n - 1] * split[n]]
        return Layout(tuple(dims), tuple(split))

    def divided(self, strides: Collection[int]) -> Layout:
        """The same words and lanes with a dimension for each of these strides that is a multiple of words."""
        merged = self.merged()
        dims: list[int] = []
        split: list[int] = []
        for n, (dim, lanes) in enumerate(zip(merged.dims, merged.split, strict=True)):
            inner = math.prod(merged.dims[n + 1 :])
            for size in sorted({s // inner for s in strides if s % inner == 0}, reverse=True):
                if 1 < size < dim and dim % size == 0 and size % lanes == 0:
                    dims.append(dim // size)
                    split.append(1)
                    dim = size
            dims.append(dim)
            split.append(lanes)
        return Layout(tuple(dims), tuple(split))

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
        """Contents of the memory as bit patterns of shape (words, lanes); unused lanes are zero.

        Parameters
        ----------
        array : ndarray
            The elements in order, of one axis.
        dtype : DType
            Of the elements in the memory.
        """
        flat = dtype.array_to_bits(np.asarray(array).reshape(-1))
        word, lane = self.place(np.arange(self.depth, dtype=np.int64))
        packed = np.zeros((self.words, self.lanes), dtype=np.uint64)
        packed[word, lane] = flat
        return packed

    def unpack(self, packed: npt.NDArray[np.uint64], dtype: DType) -> npt.NDArray[Any]:
        """Elements in order from bit patterns of shape (words, lanes); inverse of `pack`.

        Parameters
        ----------
        packed : ndarray of uint64
            Of shape (words, lanes).
        dtype : DType
            Of the elements in the memory.
        """
        word, lane = self.place(np.arange(self.depth, dtype=np.int64))
        return dtype.bits_to_array(packed[word, lane])

    def digits(self, form: Affine, interval: Callable[[Affine], Interval]) -> list[Affine] | None:
        """Position along each dimension of an affine element address.

        Parameters
        ----------
        form : Affine
            Number of the element.
        interval : callable
            Smallest and largest value of a form, wherever the access happens.

        Returns
        -------
        list of Affine or None
            None when a coefficient does not fall on one dimension, or when a digit would leave its dimension and
            carry into the next.
        """
        strides = [math.prod(self.dims[n + 1 :]) for n in range(len(self.dims))]
        parts = [Affine(0) for _ in self.dims]
        for symbol, coefficient in form.terms:
            at = next((n for n, s in enumerate(strides) if coefficient % s == 0), None)
            if at is None:
                return None
            parts[at] = parts[at].plus(Affine(0, ((symbol, coefficient // strides[at]),)))
        for offsets in _offsets(form.const, strides):
            digits = [part.offset(n) for part, n in zip(parts, offsets, strict=True)]
            inner = zip(digits[1:], self.dims[1:], strict=True)
            if all(low >= 0 and high < dim for (low, high), dim in ((interval(d), dim) for d, dim in inner)):
                return digits
        return None

    def fixed_lane(self, digits: list[Affine]) -> tuple[Affine, int] | None:
        """Word address and lane of a position; None when the lane is not the same in every step."""
        word, lane = Affine(0), 0
        for digit, rows, split in zip(digits, self.rows, self.split, strict=True):
            if any(coefficient % split for _, coefficient in digit.terms):
                return None
            offset = digit.const % split
            reduced = Affine((digit.const - offset) // split, tuple((s, c // split) for s, c in digit.terms))
            word, lane = word.scaled(rows).plus(reduced), lane * split + offset
        return word, lane

    def place_of(self, position: list[int]) -> tuple[int, int]:
        """Word and lane of a position; outside of the array they continue as inside."""
        word, lane = 0, 0
        for index, rows, split in zip(position, self.rows, self.split, strict=True):
            ahead, offset = divmod(index, split)
            word, lane = word * rows + ahead, lane * split + offset
        return word, lane

    def chosen_word(self, digits: Sequence[Affine], position: Sequence[int]) -> tuple[list[Affine], int]:
        """Digits that tell the word of an element from those of others, and the lanes in which the element may be.

        Parameters
        ----------
        digits : sequence of Affine
            Position of an element, axis by axis; some terms are data, not counters.
        position : sequence of int
            The constants of the position.
        """
        word: list[Affine] = []
        choices = 1
        for digit, at, dim, split in zip(digits, position, self.dims, self.split, strict=True):
            step = math.gcd(split, *(c for _, c in digit.terms))
            choices *= split // step
            if step == split:
                word.append(replace(digit, const=at // split))
            elif split < dim:
                word.append(replace(digit, const=at))
        return word, choices

    def row_element(self, digits: list[Affine]) -> RowElement | None:
        """Element of a row along the last dimension in which its lane changes; None where it changes in none."""
        word, lane = Affine(0), 0
        moving: list[MovingDigit] = []
        for n, (digit, split) in enumerate(zip(digits, self.split, strict=True)):
            stride, weight = math.prod(self.rows[n + 1 :]), math.prod(self.split[n + 1 :])
            step = math.gcd(split, *(c for _, c in digit.terms))
            if step < split:
                moving.append(MovingDigit(digit, split, step, stride, weight))
                continue
            offset = digit.const % split
            reduced = Affine((digit.const - offset) // split, tuple((s, c // split) for s, c in digit.terms))
            word, lane = word.plus(reduced.scaled(stride)), lane + offset * weight
        if not moving:
            return None
        last = moving.pop()
        others = []
        for each in moving:
            offset = each.form.const % each.step
            lane += offset * each.weight
            others.append(replace(each, form=each.form.offset(-offset)))
        const = last.form.const
        return RowElement(Row(word, replace(last, form=last.form.offset(-const)), tuple(others)), const, lane)

    def row_places(
        self, digits: Sequence[Affine], positions: Iterable[Sequence[int]]
    ) -> Iterator[tuple[tuple[int, ...], int]]:
        """The constants of the row and of itself, of each element whose position differs from `digits` in constants.

        Parameters
        ----------
        digits : sequence of Affine
            The position of an element, axis by axis.
        positions : iterable of sequences of int
            Other positions.
        """
        steps = [math.gcd(n, *(c for _, c in d.terms)) for d, n in zip(digits, self.split, strict=True)]
        strides = [math.prod(self.rows[n + 1 :]) for n in range(len(self.rows))]
        *others, last = [n for n, step in enumerate(steps) if step < self.split[n]]
        fixed = [n for n, step in enumerate(steps) if step == self.split[n]]
        for at in positions:
            word = sum(at[n] // self.split[n] * strides[n] for n in fixed)
            yield (word, *(at[n] - at[n] % steps[n] for n in others)), at[last]


@dataclass(frozen=True)
class MovingDigit:
    """Position along a dimension of a layout in which the lane of an element changes.

    Parameters
    ----------
    split : int
        Lanes of a word along the dimension.
    step : int
        Largest divisor of the position without its constant, modulo `split`.
    stride, weight : int
        Distance of its words in the memory, and of its lanes in a word.
    """

    form: Affine
    split: int
    step: int
    stride: int
    weight: int


@dataclass(frozen=True)
class Row:
    """Elements that differ only in a constant of their position along one dimension of a layout.

    Parameters
    ----------
    word : Affine
        Word address by the dimensions in which the lane is fixed.
    digit : MovingDigit
        Position along the dimension, without the constant.
    others : tuple of MovingDigit
        Positions along other dimensions in which the lane changes.
    """

    word: Affine
    digit: MovingDigit
    others: tuple[MovingDigit, ...] = ()

    @property
    def choices(self) -> int:
        """Lanes of a word in which an element may be."""
        return math.prod(each.split // each.step for each in (self.digit, *self.others))

    def span(self, consts: Collection[int]) -> RowSpan:
        """How elements at these constants are fetched."""
        split, step = self.digit.split, self.digit.step
        alone = len({const - const % step for const in consts})
        start = min(consts) - min(consts) % step
        words: set[int] = set()
        for const in consts:
            ahead, offset = divmod(const - start, split)
            words |= {ahead, ahead + 1} if offset >= step else {ahead}
        return RowSpan(start, len(words)) if len(words) < alone else RowSpan(None, alone)


@dataclass(frozen=True)
class RowElement:
    """Element of a row at ``digit + const``; `lane` is its lane by the dimensions and parts that do not move."""

    row: Row
    const: int
    lane: int


@dataclass(frozen=True)
class RowSpan:
    """Words that the elements of a row take.

    Parameters
    ----------
    start : int, optional
        Where the words that they share begin: element `const` is in the word ``(const - start) // split`` after that
        of the start, or in the next one.  None where each has a word of its own in fewer accesses.
    words : int
        Accesses.
    """

    start: int | None
    words: int


def _offsets(const: int, strides: list[int]) -> Iterator[list[int]]:
    """Candidate splits of a constant into digits: rounded down, and rounded up as for a neighbour to the left."""
    if not strides:
        yield []
        return
    quotient, rest = divmod(const, strides[0])
    for head, tail in ((quotient, rest), (quotient + 1, rest - strides[0])):
        for more in _offsets(tail, strides[1:]):
            yield [head, *more]
        if rest == 0:
            return
