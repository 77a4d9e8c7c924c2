"""Differences between the UOps of tinygrad 0.13 and 0.14: storage and variables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tinygrad import Tensor
from tinygrad.dtype import AddrSpace, dtypes
from tinygrad.uop.ops import Ops, UOp

__all__ = ["BoundVariable", "Storage", "scalar_dtype", "storage_of", "strong", "variable_of"]

_DEFINE_LOCAL = getattr(Ops, "DEFINE_LOCAL", None)
_DEFINE_REG = getattr(Ops, "DEFINE_REG", None)
_DEFINE_VAR = getattr(Ops, "DEFINE_VAR", None)
_WEAK = {dtypes.weakint, getattr(dtypes, "weakfloat", dtypes.weakint)}


@dataclass(frozen=True)
class Storage:
    """A buffer or an array of registers that a kernel names.

    Parameters
    ----------
    space : {"global", "register", "local"}
    slot : int
        Number within its space.
    size : int
        Elements.
    dtype : tinygrad DType
    """

    space: str
    slot: int
    size: int
    dtype: Any


@dataclass(frozen=True)
class BoundVariable:
    """A scalar that is bound when the kernel runs; `low` and `high` are inclusive.

    tinygrad passes the values sorted by `order`.
    """

    name: str
    low: int
    high: int
    dtype: Any
    order: tuple[Any, ...]


def storage_of(uop: UOp) -> Storage | None:
    """Storage that a UOp defines; None for other UOps."""
    pointer: Any = uop.dtype  # before 0.14 it has the size
    if uop.op is Ops.PARAM:
        if isinstance(uop.arg, int):
            return Storage("global", uop.arg, pointer.size, pointer.base)
        if uop.arg.addrspace is AddrSpace.GLOBAL:
            return Storage("global", uop.arg.slot, uop.max_numel(), uop.dtype)
        return None
    if uop.op is Ops.BUFFER:
        space = {AddrSpace.REG: "register", AddrSpace.LOCAL: "local"}.get(uop.addrspace, "global")
        return Storage(space, uop.arg.slot, uop.max_numel(), uop.dtype)
    if uop.op is _DEFINE_REG:
        return Storage("register", uop.arg, pointer.size, pointer.base)
    if uop.op is _DEFINE_LOCAL:
        return Storage("local", uop.arg, pointer.size, pointer.base)
    return None


def variable_of(uop: UOp) -> BoundVariable | None:
    """Run-time scalar that a UOp defines; None for other UOps."""
    if _DEFINE_VAR is not None and uop.op is _DEFINE_VAR:
        return BoundVariable(uop.arg[0], int(uop.arg[1]), int(uop.arg[2]), _strong(uop.dtype), tuple(uop.arg))
    if uop.op is Ops.PARAM and not isinstance(uop.arg, int) and uop.arg.addrspace is AddrSpace.ALU:
        low, high = uop.arg.vmin_vmax
        return BoundVariable(uop.arg.name, int(low), int(high), _strong(uop.dtype), (uop.arg.slot,))
    return None


def scalar_dtype(uop: UOp) -> Any:
    """Scalar tinygrad dtype of a value, or of the element at an address."""
    return uop.dtype.base.scalar() if hasattr(uop.dtype, "base") else uop.dtype


def strong(tensor: Tensor) -> Tensor:
    """The tensor; one of literals, which has no width, in tinygrad's default type."""
    if tensor.dtype not in _WEAK:
        return tensor
    return tensor.cast(dtypes.float32 if dtypes.is_float(tensor.dtype) else dtypes.int32)


def _strong(dtype: Any) -> Any:
    return dtypes.int32 if dtype in _WEAK else dtype
