"""Proof of tables: an expression and its replacement have the same bits at all values of their counters."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir.dtype import DType
from tg2hdl_ir.errors import IRVerificationError
from tg2hdl_ir.nodes import (
    BufferMeta,
    IRBufLoad,
    IRBufStore,
    IRConst,
    IRCounter,
    IRItem,
    IROp,
    IRValue,
    KernelIR,
    LoopIR,
    values_below,
)
from tg2hdl_ir.passes.flat_address import flat_address

__all__ = ["Replacement", "prove"]

Array = npt.NDArray[Any]
Run = Callable[[KernelIR, Mapping[int, Array]], Mapping[int, Array]]


@dataclass(frozen=True)
class Replacement:
    """A value of a kernel and the one that replaces it.

    Parameters
    ----------
    loads : tuple of IRBufLoad
        Statements that both need, in program order.
    table : str
        Name of the table that the new value is read from, for the error.
    """

    old: IRValue
    new: IRValue
    loads: tuple[IRBufLoad, ...]
    table: str


def prove(
    kernel: KernelIR,
    replacement: Replacement,
    buffers: Collection[BufferMeta],
    contents: Mapping[int, Array],
    run: Run,
) -> None:
    """Evaluate both values at all values of their counters and compare their bits.

    The old value is evaluated with the statements of the kernel itself, so that the proof shares no code with the
    rewrite.

    Parameters
    ----------
    kernel : KernelIR
        The kernel before the rewrite.
    buffers : collection of BufferMeta
        Those of the kernel, and of the tables.
    contents : mapping of int to ndarray
        Contents by slot.
    run : callable
        ``(kernel, contents) -> contents of the buffers that it writes``: the golden evaluation.

    Raises
    ------
    IRVerificationError
        Where they differ: the rewrite has a bug.
    """
    old, new = replacement.old, replacement.new
    below = values_below((old, new))
    counters = sorted((v for v in below if isinstance(v, IRCounter)), key=lambda c: c.depth)
    used = {load.buf_idx for load in replacement.loads}
    read = [meta for meta in buffers if meta.idx in used]
    first = 1 + max((meta.idx for meta in buffers), default=0)

    def evaluated(*stores: IRBufStore, depth: int) -> list[Array]:
        items: list[IRItem] = [*replacement.loads, *stores]
        for counter in reversed(counters):
            items = [LoopIR.from_items(tuple(items), counter=counter)]
        made = (BufferMeta(s.buf_idx, depth, s.dtype, True) for s in stores)
        slice_ = KernelIR((*read, *made), LoopIR.from_items(tuple(items)), name=f"{kernel.name}_proof")
        results = run(slice_, {meta.idx: contents[meta.idx].reshape(-1) for meta in read})
        return [results[store.buf_idx] for store in stores]

    one, zero = IRConst(True, DType.BOOL), IRConst(0, DType.INT32)
    differ = IROp("ne", DType.BOOL, (_bits(old), _bits(new)))
    (found,) = evaluated(IRBufStore(first, zero, one, one.dtype, differ), depth=1)
    if not found[0]:
        return
    place = flat_address(counters)
    stores = [IRBufStore(first + n, place, value, value.dtype) for n, value in enumerate((old, new))]
    was, is_ = evaluated(*stores, depth=math.prod(c.bound for c in counters if isinstance(c.bound, int)))
    wrong = old.dtype.array_to_bits(was) != old.dtype.array_to_bits(is_)
    if old.dtype.is_float:
        # NaN has no bits of its own in the golden model.
        wrong &= (was == was) | (is_ == is_)
    if not wrong.any():
        return
    at = int(np.flatnonzero(wrong)[0])
    bounds = tuple(c.bound for c in counters if isinstance(c.bound, int))
    values = ", ".join(
        f"i{c.axis} = {n}" for c, n in zip(counters, np.unravel_index(at, bounds), strict=True)
    )
    raise IRVerificationError(
        f"pass hoist-weights changed a value: {replacement.table} holds {is_[at]}, "
        f"the expression of weights is {was[at]}{f' for {values}' if values else ''}; "
        f"{int(wrong.sum())} of {wrong.size} values differ",
        where=kernel.where,
        hint="this is a bug of tg2hdl, not of the model: please report it with the model",
    )


def _bits(value: IRValue) -> IRValue:
    if not value.dtype.is_float:
        return value
    return IROp("bitcast", DType.from_width(value.dtype.bit_width, False), (value,))
