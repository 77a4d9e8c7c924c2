"""Allocations of tinygrad, views of them, and the kernels and copies over views."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tinygrad.uop.ops import UOp

from tg2hdl_backend.tinygrad_adapter.model_inputs import TensorSpec
from tg2hdl_ir import DType, UnsupportedError

__all__ = ["Allocation", "MemoryView", "ViewKernel"]


@dataclass(frozen=True)
class MemoryView:
    """`size` elements of the memory `key` from byte `start` on."""

    key: int
    start: int
    size: int
    dtype: DType

    @property
    def bytes_per_element(self) -> int:
        """Bytes that an element takes."""
        return self.dtype.numpy().itemsize

    @property
    def offset(self) -> int:
        """First element, for a view that starts at a multiple of its elements."""
        if self.start % self.bytes_per_element:
            raise UnsupportedError(
                f"a view of {self.dtype} that starts at byte {self.start} of a buffer",
                where=f"{self.size} elements",
                hint="make the tensor contiguous first",
            )
        return self.start // self.bytes_per_element


@dataclass
class Allocation:
    """An allocation of tinygrad: one program buffer, unless it is only ever copied from."""

    buffer: Any
    name: str | None = None
    input: TensorSpec | None = None
    written: int = 0


@dataclass
class ViewKernel:
    """A kernel over views of memories, in slot order; a copy has no UOps.  `once`: only before the first run."""

    uops: tuple[UOp, ...]
    slots: tuple[int, ...]
    views: tuple[MemoryView, ...]
    writes: tuple[bool, ...]
    once: bool = False
