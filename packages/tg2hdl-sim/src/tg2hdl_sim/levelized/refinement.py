"""Colour refinement of many items at once, by hashes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["Refinement"]

Hashes = NDArray[np.uint64]


class Refinement:
    """Items, and the items that each of them reads, in order.

    A round gives two items one colour when they had one, and read items of the same colours.
    """

    def __init__(self, reads: Sequence[Sequence[int]]) -> None:
        counts = np.array([len(sources) for sources in reads], np.int64)
        self._sources = np.array([source for sources in reads for source in sources], np.int64)
        self._readers = np.flatnonzero(counts)
        self._starts = (np.cumsum(counts) - counts)[self._readers]
        place = np.arange(len(self._sources)) - np.repeat(self._starts, counts[self._readers])
        self._weights = _mixed(place.astype(np.uint64) + np.uint64(1)) | np.uint64(1)

    def settled(self, start: NDArray[np.int64], rounds: int) -> NDArray[np.int64] | None:
        """Return the colours once a round separates no more items; None when `rounds` are too few.

        Different colours may collide, with a chance of 1 in 2**30 for 100,000 items: a caller checks them.
        """
        hashes, count = _mixed(start.astype(np.uint64)), 0
        for _ in range(rounds):
            hashes = self._round(hashes)
            _, colours = np.unique(hashes, return_inverse=True)
            found = int(colours.max(initial=-1)) + 1
            if found == count:
                return colours.reshape(-1)
            count = found
        return None

    def _round(self, hashes: Hashes) -> Hashes:
        found = hashes * np.uint64(0x9E3779B97F4A7C15)
        if len(self._readers):
            found[self._readers] += np.add.reduceat(hashes[self._sources] * self._weights, self._starts)
        return _mixed(found)


def _mixed(values: Hashes) -> Hashes:
    """Return the finalizer of SplitMix64: every bit of a value changes half of the bits of its hash."""
    values = (values + np.uint64(0x9E3779B97F4A7C15)).astype(np.uint64)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
