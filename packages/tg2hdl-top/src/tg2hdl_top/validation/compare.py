"""Differences between results: bit for bit, or, where sums are rounded elsewhere, within a bound."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir import DType

__all__ = ["Difference", "Rule", "WrongResult", "difference"]

BOUND = 1e-4
"""Largest difference of float sums that are rounded elsewhere, as a part of the largest element."""

LAST_PLACES = 64
"""The same in units of the last place, for types with a short fraction."""

Array = npt.NDArray[Any]


class Rule(Enum):
    """How results are compared."""

    BITS = "bits"
    """Every bit; every NaN equals every other one."""
    VALUES = "values"
    """Zeros of both signs are equal too: the order of a sum decides its sign where all terms are zeros."""
    BOUND = "bound"
    """Floats may differ by `BOUND` of the largest, since sums are rounded elsewhere; integers made of them by any."""


@dataclass(frozen=True)
class Difference:
    """Elements of a result that a rewrite changed.

    Parameters
    ----------
    name : str
        The result.
    count, size : int
        Elements that differ, and all elements.
    index : int
        The first that differs.
    before, after : str
        Its values.
    """

    name: str
    count: int
    size: int
    index: int
    before: str
    after: str

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.count:,} of {self.size:,} elements differ, "
            f"first at {self.index}: {self.before} became {self.after}"
        )


class WrongResult(Exception):
    """Something that a rewrite made computes other results.

    Parameters
    ----------
    what : str
        The difference, in words.
    inputs : str
        Kind of inputs, and the variables.
    before, after : tuple
        Kernels or programs, as printed.
    contents : dict of str to ndarray
        Contents before the first one.
    blamed : tuple of str, optional
        The rewrite and the kernel, where both are known.
    """

    def __init__(
        self,
        what: str,
        inputs: str,
        before: tuple[Any, ...],
        after: tuple[Any, ...],
        contents: dict[str, Array],
        blamed: tuple[str, str] | None = None,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.inputs = inputs
        self.before = before
        self.after = after
        self.contents = contents
        self.blamed = blamed


def difference(
    name: str,
    dtype: DType,
    before: Array,
    after: Array | None,
    *,
    rule: Rule = Rule.BITS,
    places: npt.NDArray[np.bool_] | None = None,
) -> Difference | None:
    """Compare two arrays.

    Parameters
    ----------
    after : ndarray or None
        None for a result that is no longer written.
    rule : Rule
    places : ndarray of bool, optional
        The elements to compare.
    """
    first = before.reshape(-1)
    if after is None or after.size != first.size:
        return Difference(name, first.size, first.size, 0, _text(first[0]), "not written")
    second = after.reshape(-1)
    if rule is Rule.BOUND and not dtype.is_float:
        return None
    if np.array_equal(first.view(np.uint8), second.view(np.uint8)):
        return None
    differs = dtype.array_to_bits(first) != dtype.array_to_bits(second)
    if dtype.is_float:
        with np.errstate(all="ignore"):
            differs &= ~(np.isnan(first) & np.isnan(second))
            if rule is not Rule.BITS:
                differs &= first != second
            if rule is Rule.BOUND:
                differs &= ~_is_near(first, second, dtype)
    if places is not None:
        differs &= places
    found = np.flatnonzero(differs)
    if not len(found):
        return None
    index = int(found[0])
    return Difference(name, len(found), first.size, index, _text(first[index]), _text(second[index]))


def _is_near(first: Array, second: Array, dtype: DType) -> npt.NDArray[np.bool_]:
    one, two = first.astype(np.float64), second.astype(np.float64)
    finite = np.isfinite(one)
    largest = np.abs(one[finite]).max(initial=0.0)
    bound = max(BOUND, LAST_PLACES * 2.0**-dtype.fraction_bits) * largest
    return np.asarray(np.abs(one - two) <= bound)


def _text(value: Any) -> str:
    return f"{float(value):.9g}" if np.issubdtype(np.asarray(value).dtype, np.floating) else str(value)
