"""A share of the iterations of an independent loop, with buffers that hold only the elements of this share."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tg2hdl_ir.analysis.affine import Affine, AffineAnalysis
from tg2hdl_ir.analysis.axes import analyze_axes, axes_of
from tg2hdl_ir.analysis.ranges import RangeAnalysis
from tg2hdl_ir.dtype import DType
from tg2hdl_ir.nodes import (
    IRBufLoad,
    IRBufStore,
    IRConst,
    IRCounter,
    IRStatement,
    IRValue,
    IRVariable,
    KernelIR,
    LoopIR,
    const_int,
)
from tg2hdl_ir.passes.fold import Folder
from tg2hdl_ir.passes.rewrite import Rewriter

__all__ = ["SliceableAxis", "slice_axis", "sliceable_axes"]


@dataclass(frozen=True)
class SliceableAxis:
    """A loop whose iterations use separate elements of some buffers.

    Parameters
    ----------
    axis, bound : int
    strides : dict of int to int
        By slot: neighbouring elements that an iteration uses.  Those of all iterations are neighbours, once or several
        times.
    """

    axis: int
    bound: int
    strides: dict[int, int]

    def elements(self, slot: int, depth: int, first: int, count: int) -> npt.NDArray[np.int64]:
        """Elements of a buffer of `depth` elements that iterations `first` to ``first + count - 1`` use, in order.

        Those of iterations beyond the loop are -1.

        Parameters
        ----------
        slot : int
            Of the buffer in the kernel.
        depth : int
            Elements of the buffer.
        first, count : int
            In iterations.
        """
        places = np.arange(depth).reshape(-1, self.bound, self.strides[slot])[:, first : first + count]
        beyond = count - places.shape[1]
        return np.pad(places, ((0, 0), (0, beyond), (0, 0)), constant_values=-1).reshape(-1)


def sliceable_axes(kernel: KernelIR, slots: Collection[int]) -> list[SliceableAxis]:
    """Independent loops around all stores whose iterations use separate elements of the buffers of all `slots`.

    Parameters
    ----------
    kernel : KernelIR
    slots : collection of int
        Buffers that are sliced.
    """
    independent = analyze_axes(kernel).independent
    stores = sum(isinstance(s, IRBufStore) for s in kernel.loop_tree.statements())
    found = []
    for loop in kernel.loop_tree.walk():
        counter = loop.counter
        if counter is None or counter.axis not in independent or not isinstance(counter.bound, int):
            continue
        if sum(isinstance(s, IRBufStore) for s in loop.statements()) < stores:
            continue
        strides = {slot: _stride(kernel, slot, counter, counter.bound) for slot in slots}
        known = {slot: stride for slot, stride in strides.items() if stride}
        if len(known) == len(strides):
            found.append(SliceableAxis(counter.axis, counter.bound, known))
    return found


def _stride(kernel: KernelIR, slot: int, counter: IRCounter, bound: int) -> int:
    """Coefficient of a counter in all addresses of a buffer; 0 where its iterations do not use separate blocks."""
    ranges = RangeAnalysis()
    affine = AffineAnalysis(ranges)
    accesses = [
        s
        for s in kernel.loop_tree.statements()
        if isinstance(s, IRBufLoad | IRBufStore) and s.buf_idx == slot
    ]
    strides = set()
    for access in accesses:
        form = affine.of(access.addr)
        if isinstance(access, IRBufStore) or form is None:
            return 0
        stride = form.coefficient(counter)
        if stride <= 0 or kernel.buffer(slot).depth % (stride * bound):
            return 0
        _, inner = _parted(form, counter, stride * bound)
        bounds = [[c * end for end in ranges.of(s)] for s, c in inner.terms]
        low, high = inner.const + sum(map(min, bounds)), inner.const + sum(map(max, bounds))
        if low < 0 or high >= stride:
            return 0
        strides.add(stride)
    return strides.pop() if len(strides) == 1 else 0


def _parted(form: Affine, counter: IRCounter, block: int) -> tuple[Affine, Affine]:
    """The multiples of `block` in an address, and the rest without the counter."""
    others = [(s, c) for s, c in form.terms if s is not counter]
    outer = Affine(form.const - form.const % block, tuple((s, c) for s, c in others if c % block == 0))
    return outer, Affine(form.const % block, tuple((s, c) for s, c in others if c % block))


def slice_axis(kernel: KernelIR, axis: SliceableAxis, first: int | IRVariable, count: int) -> KernelIR:
    """The kernel with `count` iterations of an axis from `first` on; its buffers hold only their elements.

    Stores and loads of other buffers are at the places of these iterations in the whole loop.

    Parameters
    ----------
    kernel : KernelIR
    axis : SliceableAxis
    first : int or IRVariable
        First iteration.  A variable gives the number of the slice instead: slice n starts at iteration n * `count`.
        The last slice may reach beyond the loop; there it neither loads nor stores.
    count : int
        Number of iterations.
    """
    affine, folder = AffineAnalysis(), Folder()
    target = next(
        loop.counter
        for loop in kernel.loop_tree.walk()
        if loop.counter is not None and loop.counter.axis == axis.axis
    )
    counter = IRCounter(count, target.depth, target.axis, target.dtype)
    addresses: dict[IRValue, IRValue] = {}
    for load in kernel.loop_tree.statements():
        if not isinstance(load, IRBufLoad) or load.buf_idx not in axis.strides:
            continue
        form, stride = affine.of(load.addr), axis.strides[load.buf_idx]
        assert form is not None, "a sliceable axis has affine addresses"
        outer, inner = _parted(form, target, stride * axis.bound)
        scaled = Affine(
            outer.const // axis.bound * count, tuple((s, c // axis.bound * count) for s, c in outer.terms)
        )
        dtype = load.addr.dtype
        address: IRValue = folder.op("mul", dtype, _as(folder, counter, dtype), const_int(stride, dtype))
        for part in (scaled, inner):
            for symbol, factor in part.terms:
                term = folder.op("mul", dtype, _as(folder, symbol, dtype), const_int(factor, dtype))
                address = folder.op("add", dtype, address, term)
            if part.const:
                address = folder.op("add", dtype, address, const_int(part.const, dtype))
        addresses[load] = address
    place: IRValue = counter
    inside: IRValue | None = None
    if isinstance(first, IRVariable):
        begin = folder.op(
            "mul", target.dtype, _as(folder, first, target.dtype), const_int(count, target.dtype)
        )
        place = folder.op("add", target.dtype, counter, begin)
        inside = folder.op("lt", DType.BOOL, place, const_int(axis.bound, target.dtype))
        kernel = replace(kernel, variables=(*kernel.variables, first))
    elif first:
        place = folder.op("add", target.dtype, counter, const_int(first, target.dtype))
    rewriter = _Sliced(folder, addresses, target, inside)
    rewriter.memo[target] = place
    buffers = tuple(
        replace(b, depth=b.depth // axis.bound * count) if b.idx in axis.strides else b
        for b in kernel.buffers
    )
    tree = _with_counter(rewriter, kernel.loop_tree, target, counter)
    return replace(kernel, buffers=buffers, loop_tree=tree)


def _as(folder: Folder, symbol: IRValue, dtype: object) -> IRValue:
    return symbol if symbol.dtype == dtype else folder.op("cast", dtype, symbol)  # type: ignore[arg-type]


def _with_counter(rewriter: Rewriter, loop: LoopIR, target: IRCounter, counter: IRCounter) -> LoopIR:
    items = tuple(
        _with_counter(rewriter, item, target, counter)
        if isinstance(item, LoopIR)
        else rewriter.statement(item)
        for item in loop.items
    )
    own = counter if loop.counter is target else loop.counter
    return LoopIR.from_items(items, counter=own, axis_type=loop.axis_type)


class _Sliced(Rewriter):
    """Gives some loads another address, made of new counters already; gates what may be beyond the loop."""

    def __init__(
        self, folder: Folder, addresses: dict[IRValue, IRValue], target: IRCounter, inside: IRValue | None
    ) -> None:
        super().__init__(folder)
        self._addresses = addresses
        self._target = target
        self._inside = inside

    def _rebuild(self, node: IRValue) -> IRValue:
        built = super()._rebuild(node)
        if not isinstance(node, IRBufLoad):
            return built
        assert isinstance(built, IRBufLoad), "a load stays a load"
        if node in self._addresses:
            return replace(built, addr=self._addresses[node])
        if self._inside is not None and self._target.axis in axes_of(node.addr):
            zero = IRConst(0.0 if built.dtype.is_float else 0, built.dtype)
            return replace(built, gate=self.folder.all_of(built.gate, self._inside), alt=built.alt or zero)
        return built

    def statement(self, statement: IRStatement) -> IRStatement:
        """Rebuilt form of a statement."""
        built = super().statement(statement)
        if isinstance(built, IRBufStore) and self._inside is not None:
            return replace(built, gate=self.folder.all_of(built.gate, self._inside))
        return built
