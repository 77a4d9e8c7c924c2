"""Bounds of integers in each iteration of some loops: intervals as arrays, with the contents of weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tg2hdl_ir.analysis.accumulators import RunningReduction, reductions
from tg2hdl_ir.dtype import DType
from tg2hdl_ir.nodes import (
    IRBufLoad,
    IRConst,
    IRCounter,
    IROp,
    IRRegLoad,
    IRValue,
    IRVariable,
    KernelIR,
    operands,
)

__all__ = ["Array", "Bounds", "IterationBounds", "trips"]

Array: TypeAlias = npt.NDArray[np.int64]
Bounds: TypeAlias = tuple[Array, Array]
"""Smallest and largest value."""

_LARGEST = 1 << 62
"""Bounds that are computed have smaller sizes; a larger value has those of its type."""

_GROWING = ("add", "sub", "mul", "mulacc", "shl", "neg")


def trips(counter: IRCounter) -> int:
    """Iterations of a loop whose bound is known."""
    assert isinstance(counter.bound, int), "the bound is known"
    return counter.bound


class IterationBounds:
    """Bounds of the integers and bools of a kernel, for each iteration of some loops and all of the others.

    Arrays have an axis for each of these loops, of one element where all iterations are alike.

    Parameters
    ----------
    kernel : KernelIR
    counters : sequence of IRCounter
        Of the loops, with bounds that are known.
    loaded : callable
        ``(load, address or None) -> bounds or None``: values of a buffer, at addresses that depend only on
        loop counters; None for all of its type.
    """

    def __init__(
        self,
        kernel: KernelIR,
        counters: Sequence[IRCounter],
        loaded: Callable[[IRBufLoad, Array | None], Bounds | None],
    ) -> None:
        self.counters = tuple(counters)
        self._loaded = loaded
        self._memo: dict[IRValue, Bounds | None] = {}
        self._reductions = reductions(kernel)

    def of(self, value: IRValue) -> Bounds | None:
        """Bounds of a value; None for one of floats or unsigned 64 bits, or of an operation on them."""
        stack = [value]
        while stack:
            node = stack[-1]
            if node in self._memo:
                stack.pop()
                continue
            pending = [v for v in self._needed(node) if v not in self._memo]
            if pending:
                stack.extend(pending)
                continue
            found = self._compute(node)
            self._memo[stack.pop()] = self.full(node.dtype) if found is None else found
        return self._memo[value]

    def full(self, dtype: DType) -> Bounds | None:
        """All values of a type."""
        if dtype.is_float or dtype.max_value >= 1 << 63:
            return None
        return self.same(dtype.min_value), self.same(dtype.max_value)

    def along(self, counter: IRCounter, values: npt.ArrayLike) -> Array:
        """Values of the iterations of one of the loops.

        Parameters
        ----------
        counter : IRCounter
        values : array_like
            One for each iteration of the loop.
        """
        shape = [1] * len(self.counters)
        shape[self.counters.index(counter)] = -1
        return np.asarray(values, np.int64).reshape(shape)

    def same(self, value: int) -> Array:
        """A value in all iterations."""
        return np.full([1] * len(self.counters), value, np.int64)

    def _needed(self, node: IRValue) -> tuple[IRValue, ...]:
        if isinstance(node, IRRegLoad):
            reduction = self._result_of(node)
            return () if reduction is None else (reduction.start.value, reduction.term)
        return operands(node)

    def _result_of(self, load: IRRegLoad) -> RunningReduction | None:
        reduction = self._reductions.get(load.reg)
        return None if reduction is None or load is reduction.own else reduction

    def _compute(self, node: IRValue) -> Bounds | None:
        match node:
            case IRConst() if not node.dtype.is_float and int(node.value) < 1 << 63:
                value = self.same(int(node.value))
                return value, value
            case IRVariable():
                return self.same(node.low), self.same(node.high)
            case IRCounter() if isinstance(node.bound, int):
                if node in self.counters:
                    value = self.along(node, np.arange(node.bound))
                    return value, value
                return self.same(0), self.same(max(0, node.bound - 1))
            case IRBufLoad() if not node.dtype.is_float:
                return self._load(node)
            case IRRegLoad() if (reduction := self._result_of(node)) is not None:
                return self._reduced(reduction, node.dtype)
            case IROp():
                return self._op(node)
        return None

    def _load(self, load: IRBufLoad) -> Bounds | None:
        address, gate = self._memo[load.addr], None if load.gate is None else self._memo[load.gate]
        point = address[0] if address is not None and _is_point(address) else None
        found = self._loaded(load, point)
        if found is None or load.gate is None or load.alt is None:
            return found
        other = self._memo[load.alt]
        return None if gate is None or other is None else _chosen(gate, found, other)

    def _reduced(self, reduction: RunningReduction, dtype: DType) -> Bounds | None:
        """Result of a reduction; of its loops, those of the arrays have an axis, others are as often the same."""
        start, term = self._memo[reduction.start.value], self._memo[reduction.term]
        if start is None or term is None:
            return None
        axes, times = [], 1
        for loop in reduction.loops:
            if loop.counter in self.counters:
                axes.append(self.counters.index(loop.counter))
            elif isinstance(loop.bound, int) and loop.bound > 0:
                times *= loop.bound
            else:
                return None
        low, high = term
        if reduction.op == "add":
            once = [a for a in axes if low.shape[a] == high.shape[a] == 1]
            times *= math.prod([trips(self.counters[a]) for a in once])
            shape = np.broadcast_shapes(low.shape, high.shape)
            ends = [np.broadcast_to(end, shape) for end in term]
            most = max(float(np.abs(end.astype(float)).sum(tuple(axes)).max()) for end in ends) * times
            if most >= _LARGEST:
                return None
            total = [end.sum(tuple(axes), keepdims=True) * times for end in ends]
            return self._checked("add", dtype, start, (total[0], total[1]))
        lowest, highest = low.min(tuple(axes), keepdims=True), high.max(tuple(axes), keepdims=True)
        if reduction.op == "max":
            # Each update takes in its least value at least.
            lowest = low.max(tuple(axes), keepdims=True)
            return np.maximum(start[0], lowest), np.maximum(start[1], highest)
        highest = high.min(tuple(axes), keepdims=True)
        return np.minimum(start[0], lowest), np.minimum(start[1], highest)

    def _op(self, op: IROp) -> Bounds | None:
        found = [self._memo[source] for source in op.srcs]
        if op.dtype.is_float:
            return None
        if op.op == "where" and found[0] is not None and found[1] is not None and found[2] is not None:
            return _chosen(found[0], found[1], found[2])
        known = [each for each in found if each is not None]
        if len(known) < len(found):
            return None
        return self._checked(op.op, op.dtype, *known)

    def _checked(self, op: str, dtype: DType, *sources: Bounds) -> Bounds | None:
        """Bounds of an operation; those of the type in iterations in which a result might not fit it."""
        full, made = self.full(dtype), _interval(op, sources)
        if full is None or made is None:
            return None
        leaves = (made[0] < full[0]) | (made[1] > full[1])
        if op in _GROWING and _product_of_sizes(op, sources) >= _LARGEST:
            rough = _interval(op, [(a.astype(float), b.astype(float)) for a, b in sources])
            assert rough is not None, "as before"
            leaves |= (rough[0] <= -_LARGEST) | (rough[1] >= _LARGEST)
        if not leaves.any():
            return made
        return np.where(leaves, full[0], made[0]), np.where(leaves, full[1], made[1])


def _product_of_sizes(op: str, sources: Sequence[Bounds]) -> float:
    """More than the size of each result of an operation."""
    sizes = [1 + max(float(np.abs(end.astype(float)).max()) for end in source) for source in sources]
    return 2.0 ** sizes[1] * sizes[0] if op == "shl" else 2 * math.prod(sizes)


def _is_point(bounds: Bounds) -> bool:
    return bounds[0] is bounds[1] or np.array_equal(bounds[0], bounds[1])


def _chosen(gate: Bounds, yes: Bounds, no: Bounds) -> Bounds:
    """Bounds of one of two values."""
    always, never = gate[0] > 0, gate[1] < 1
    low = np.where(always, yes[0], np.where(never, no[0], np.minimum(yes[0], no[0])))
    return low, np.where(always, yes[1], np.where(never, no[1], np.maximum(yes[1], no[1])))


def _interval(op: str, r: Sequence[Bounds]) -> Bounds | None:
    """Bounds of an operation on all integers; None where it is not known here."""
    match op:
        case "add":
            return r[0][0] + r[1][0], r[0][1] + r[1][1]
        case "sub":
            return r[0][0] - r[1][1], r[0][1] - r[1][0]
        case "neg":
            return -r[0][1], -r[0][0]
        case "mul":
            products = [r[0][0] * r[1][0], r[0][1] * r[1][0]]
            if r[1][0] is not r[1][1]:
                products += [r[0][0] * r[1][1], r[0][1] * r[1][1]]
            return _least(products), -_least([-p for p in products])
        case "mulacc":
            product = _interval("mul", r[:2])
            assert product is not None, "known"
            return _interval("add", (product, r[2]))
        case "max":
            return np.maximum(r[0][0], r[1][0]), np.maximum(r[0][1], r[1][1])
        case "min":
            return np.minimum(r[0][0], r[1][0]), np.minimum(r[0][1], r[1][1])
        case "cast":
            return r[0]
        case "shl" if _is_point(r[1]) and (r[1][0] >= 0).all() and (r[1][0] < 62).all():
            factor = np.exp2(r[1][0]) if r[0][0].dtype == float else np.int64(1) << r[1][0].astype(np.int64)
            return r[0][0] * factor, r[0][1] * factor
        case "shr" if _is_point(r[1]) and (r[1][0] >= 0).all():
            places = np.minimum(r[1][0], 63)
            return r[0][0] >> places, r[0][1] >> places
        case "div" if _is_point(r[1]) and (r[1][0] > 0).all() and (r[0][0] > -(1 << 63)).all():
            low, high = (np.sign(x) * (np.abs(x) // r[1][0]) for x in r[0])
            return low, high
        case "lt":
            return (r[0][1] < r[1][0]).astype(np.int64), (r[0][0] < r[1][1]).astype(np.int64)
        case "and" if all((end >= 0).all() & (end <= 1).all() for each in r for end in each):
            return r[0][0] & r[1][0], r[0][1] & r[1][1]
        case "or" if all((end >= 0).all() & (end <= 1).all() for each in r for end in each):
            return r[0][0] | r[1][0], r[0][1] | r[1][1]
        case "eq" | "ne":
            same = (r[0][0] == r[0][1]) & (r[1][0] == r[1][1]) & (r[0][0] == r[1][0])
            never = (r[0][1] < r[1][0]) | (r[1][1] < r[0][0])
            if op == "ne":
                same, never = never, same
            return same.astype(np.int64), (~never).astype(np.int64)
    return None


def _least(values: Sequence[Array]) -> Array:
    least = values[0]
    for value in values[1:]:
        least = np.minimum(least, value)
    return least
