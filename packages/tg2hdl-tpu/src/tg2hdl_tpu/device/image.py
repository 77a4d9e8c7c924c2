"""The external memory that holds the tensors of the device."""

from __future__ import annotations

from bisect import bisect, insort
from collections.abc import Hashable
from functools import cache
from itertools import count
from threading import RLock

import numpy as np

from tg2hdl_ir import CapacityError
from tg2hdl_ir.turns import in_turn

__all__ = ["GUARD", "LANES", "ROWS", "ROW_BYTES", "Image", "image"]

LANES = 16
ROW_BYTES = 4 * LANES
#: Rows that address registers reach.
ROWS = (1 << 23) - 1
#: Rows at both ends that belong to no tensor: a block of rows that begins or ends in a tensor stays inside.
GUARD = 64
#: Kernels whose copies of tensors are held.
_KEPT = 256


class Image:
    """Rows of external memory, and which of them are free.

    Attributes
    ----------
    rows : ndarray of int32
    """

    def __init__(self, rows: int = ROWS) -> None:
        self.rows = np.zeros((rows, LANES), np.int32)  # pages that are never written take no memory
        self.bytes = memoryview(self.rows.reshape(-1).view(np.uint8))  # type: ignore[arg-type]
        self.address = self.rows.ctypes.data
        self.free: list[tuple[int, int]] = [(GUARD, rows - GUARD)]
        self.taken: dict[int, int] = {}
        self.sizes: dict[int, int] = {}
        self.starts: list[int] = []
        self.states: dict[int, int] = {}
        self.number = count()
        self.shared: set[int] = set()
        self.kept: dict[Hashable, dict[int, memoryview]] = {}

    @in_turn
    def take(self, size: int) -> memoryview:
        """Reserve bytes from the first one of a row on.

        Raises
        ------
        CapacityError
            When no free range is large enough.
        """
        rows = -(-size // ROW_BYTES)
        for n, (start, end) in enumerate(self.free):
            if end - start >= rows:
                self.free[n : n + 1] = [(start + rows, end)] if end - start > rows else []
                self.taken[start], self.sizes[start] = rows, size
                insort(self.starts, start)
                self.states[start] = next(self.number)
                return self.bytes[start * ROW_BYTES : start * ROW_BYTES + size]
        if self.kept:
            self.drop(len(self.kept))
            return self.take(size)
        raise CapacityError(
            f"{size} bytes are more than is free of the {len(self.rows) * ROW_BYTES} of external memory",
            where="device TINYTPU",
            hint="delete tensors, or realize fewer at a time",
        )

    @in_turn
    def give_back(self, buffer: memoryview) -> None:
        """Free a buffer that `take` returned."""
        start = self.row_of(buffer)
        assert start is not None
        end = start + self.taken.pop(start)
        del self.sizes[start]
        self.starts.remove(start)
        del self.states[start]
        self.shared.discard(start)
        at = bisect(self.free, (start, end))
        if at < len(self.free) and self.free[at][0] == end:
            end = self.free.pop(at)[1]
        if at and self.free[at - 1][1] == start:
            start = self.free.pop(at - 1)[0]
        insort(self.free, (start, end))

    @in_turn
    def keep(self, key: Hashable, buffers: dict[int, memoryview]) -> None:
        """Hold buffers until room is needed, or many others are held.

        Parameters
        ----------
        key : Hashable
            Under which `drop_one` finds them.
        buffers : mapping of int to memoryview
            By slot; from `take`.
        """
        self.kept[key] = buffers
        self.drop(len(self.kept) - _KEPT)

    @in_turn
    def drop_one(self, key: Hashable) -> None:
        """Give back the buffers that are held for a key."""
        for buffer in self.kept.pop(key, {}).values():
            self.give_back(buffer)

    @in_turn
    def drop(self, number: int) -> None:
        """Give back those that are held longest."""
        for key in list(self.kept)[: max(number, 0)]:
            self.drop_one(key)

    @in_turn
    def wrote(self, buffer: memoryview) -> None:
        """Note that these bytes have changed."""
        start = self._start(buffer)
        if start is not None:
            self.states[start] = next(self.number)

    @in_turn
    def share(self, buffer: memoryview) -> None:
        """Note that others may change these bytes at any time."""
        start = self._start(buffer)
        if start is not None:
            self.shared.add(start)

    @in_turn
    def state(self, row: int) -> int | None:
        """A number that no other content of the buffer from this row on has had; None where that is unknown."""
        return None if row in self.shared else self.states.get(row)

    @in_turn
    def is_whole(self, buffer: memoryview) -> bool:
        """Whether bytes are all that were reserved at once, so that the rest of their last row belongs to nothing."""
        row = self.row_of(buffer)
        return row is not None and self.sizes.get(row) == len(buffer)

    def _start(self, buffer: memoryview) -> int | None:
        """First row of the reserved bytes that some bytes belong to."""
        at = np.frombuffer(buffer, np.uint8).ctypes.data - self.address if len(buffer) else -1
        return self.starts[bisect(self.starts, at // ROW_BYTES) - 1] if 0 <= at < self.rows.nbytes else None

    def row_of(self, buffer: memoryview) -> int | None:
        """First row of bytes that begin with a row; None for others."""
        if not len(buffer):
            return None
        at = np.frombuffer(buffer, np.uint8).ctypes.data - self.address
        return at // ROW_BYTES if 0 <= at < self.rows.nbytes and at % ROW_BYTES == 0 else None


_making = RLock()
_made = cache(Image)


def image() -> Image:
    """The memory of the process."""
    with _making:
        return _made()
