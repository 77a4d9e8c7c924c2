"""Descriptors of the global buffers of a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tinygrad.uop.ops import Ops, UOp

from tg2hdl_backend.tinygrad_adapter.dialect import storage_of
from tg2hdl_ir import BufferMeta, DType, UnsupportedError

__all__ = ["BufferInfo", "analyze_buffers", "buffer_metas"]


@dataclass(frozen=True)
class BufferInfo:
    """A global buffer of a kernel.

    Parameters
    ----------
    idx : int
        Slot in the kernel.
    depth : int
        Elements.
    elem_width : int
        Width of an element (bits).
    is_signed : bool
        Whether elements are signed: signed integers and floats.
    is_output : bool
        Whether the kernel stores to it.
    """

    idx: int
    depth: int
    elem_width: int
    is_signed: bool
    is_output: bool

    @classmethod
    def from_meta(cls, meta: BufferMeta) -> BufferInfo:
        """Build from the IR's own descriptor."""
        return cls(meta.idx, meta.depth, meta.dtype.bit_width, meta.dtype.is_signed, meta.is_output)


def analyze_buffers(uops: Sequence[UOp]) -> list[BufferInfo]:
    """Descriptors of all global buffers of linearized UOps, in slot order."""
    return [BufferInfo.from_meta(m) for m in buffer_metas(uops)]


def buffer_metas(uops: Sequence[UOp]) -> list[BufferMeta]:
    """Typed descriptors of all global buffers of linearized UOps, in slot order.

    Raises
    ------
    UnsupportedError
        For a buffer of a dtype without hardware counterpart.
    """
    written = {_defining(u.src[0]) for u in uops if u.op is Ops.STORE}
    metas = []
    for uop in uops:
        storage = storage_of(uop)
        if storage is None or storage.space != "global":
            continue
        try:
            dtype = DType.from_tinygrad(storage.dtype)
        except UnsupportedError as error:
            where = f"buffer {storage.slot} of {storage.size} elements"
            raise UnsupportedError(error.message, where=where, hint=error.hint) from None
        metas.append(BufferMeta(storage.slot, storage.size, dtype, uop in written))
    return sorted(metas, key=lambda m: m.idx)


def _defining(address: UOp) -> UOp:
    while storage_of(address) is None and address.src:
        address = address.src[0]
    return address
