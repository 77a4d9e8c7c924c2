"""The external memory that holds the tensors of the device."""

from __future__ import annotations

from bisect import bisect, insort
from functools import cache

import numpy as np

from tg2hdl_ir.errors import CapacityError

__all__ = ["GUARD", "LANES", "ROWS", "ROW_BYTES", "Image", "image"]

LANES = 16
ROW_BYTES = 4 * LANES
#: Rows that address registers reach.
ROWS = (1 << 23) - 1
#: Rows at both ends that belong to no tensor: a block of rows that begins or ends in a tensor stays inside.
GUARD = 64


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

    def take(self, size: int) -> memoryview:
        """Reserve bytes from the first one of a row on.

        Raises
        ------
        CapacityError
            When no free range is large enough.
        """
        count = -(-size // ROW_BYTES)
        for n, (start, end) in enumerate(self.free):
            if end - start >= count:
                self.free[n : n + 1] = [(start + count, end)] if end - start > count else []
                self.taken[start] = count
                return self.bytes[start * ROW_BYTES : start * ROW_BYTES + size]
        raise CapacityError(
            f"{size} bytes are more than is free of the {len(self.rows) * ROW_BYTES} of external memory",
            where="device TINYTPU",
            hint="delete tensors, or realize fewer at a time",
        )

    def give_back(self, buffer: memoryview) -> None:
        """Free what `take` returned."""
        start = self.row_of(buffer)
        assert start is not None
        end = start + self.taken.pop(start)
        at = bisect(self.free, (start, end))
        if at < len(self.free) and self.free[at][0] == end:
            end = self.free.pop(at)[1]
        if at and self.free[at - 1][1] == start:
            start = self.free.pop(at - 1)[0]
        insort(self.free, (start, end))

    def row_of(self, buffer: memoryview) -> int | None:
        """First row of bytes that begin with a row; None for others."""
        if not len(buffer):
            return None
        at = np.frombuffer(buffer, np.uint8).ctypes.data - self.address
        return at // ROW_BYTES if 0 <= at < self.rows.nbytes and at % ROW_BYTES == 0 else None


@cache
def image() -> Image:
    """The memory of the process."""
    return Image()
