"""Lanes: how many iterations of each loop run at once."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

from tg2hdl_ir import (
    AffineAnalysis,
    InputError,
    IRBufLoad,
    IRConst,
    IRCounter,
    IROp,
    IRStatement,
    IRValue,
    IRVariable,
    KernelIR,
    LoopIR,
    RangeAnalysis,
    operands,
)
from tg2hdl_ir.analysis.axes import AxisInfo
from tg2hdl_ir.passes.flatten import flatten
from tg2hdl_ir.passes.leaves import leaf_paths
from tg2hdl_ir.passes.split import split_axis
from tg2hdl_lower.lanes.demand import LaneAccess, buffer_accesses
from tg2hdl_lower.memory.layout import Layout

__all__ = [
    "LeafProducts",
    "candidate_lanes",
    "executed_products",
    "explicit_lanes",
    "leaf_multiplications",
    "multiplications",
    "packed_layouts",
    "split_for_layouts",
]

MAX_CANDIDATES = 300
MAX_SMALLER = 40
MAX_COMBINED = 100
MAX_LAYOUTS = 32
MAX_SPLIT = 256
MAX_CHOSEN = 64
"""Elements of a word from which a lane chooses one by a value that no counter follows."""


_leaves: MutableMapping[KernelIR, list[LeafProducts]] = WeakKeyDictionary()
"""Of the kernels that are alive: a kernel is placed several times."""


def multiplications(kernel: KernelIR) -> int:
    """Multipliers of one lane: products in a step of the busiest leaf, whose values are not known at compile time."""
    return max((leaf.products for leaf in leaf_multiplications(kernel)), default=0)


class LeafProducts(NamedTuple):
    """Products in a step of a leaf loop, its steps with the largest run-time bounds, and the axes on its path."""

    products: int
    steps: int
    axes: tuple[int, ...]


def leaf_multiplications(kernel: KernelIR) -> list[LeafProducts]:
    """Products of each leaf loop with one lane."""
    if kernel in _leaves:
        return _leaves[kernel]
    ranges = RangeAnalysis()
    found = []
    for path in leaf_paths(flatten(kernel).loop_tree):
        counters = [loop.counter for loop in path if loop.counter is not None]
        steps = math.prod(ranges.of(counter)[1] + 1 for counter in counters)
        products = _products(tuple(path[-1].statements()))
        found.append(LeafProducts(products, steps, tuple(counter.axis for counter in counters)))
    _leaves[kernel] = found
    return found


def executed_products(kernel: KernelIR) -> int:
    """Products of a run; those before or after an inner loop are executed once for all of its iterations."""
    ranges = RangeAnalysis()

    def of(loop: LoopIR) -> int:
        own = [s for s in (*loop.prologue, *loop.body, *loop.epilogue) if not isinstance(s, LoopIR)]
        times = 1 if loop.counter is None else ranges.of(loop.counter)[1] + 1
        return times * (_products(own) + sum(of(inner) for inner in loop.loops))

    return of(kernel.loop_tree)


def _products(statements: Sequence[IRStatement]) -> int:
    """Products of two values that are not known at compile time, outside of addresses."""
    seen: set[IRValue] = set()
    stack = [s.value for s in statements if not isinstance(s, IRBufLoad) and hasattr(s, "value")]
    analysis = AffineAnalysis()
    count = 0
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if isinstance(node, IRBufLoad):
            stack.extend(v for v in (node.gate, node.alt) if v is not None)
            continue
        stack.extend(operands(node))
        if isinstance(node, IROp) and node.op in ("mul", "mulacc") and analysis.of(node) is None:
            count += not any(isinstance(s, IRConst) for s in node.srcs)
    return count


def explicit_lanes(kernel: KernelIR, info: AxisInfo, unroll: int, reduce_unroll: int) -> dict[int, int]:
    """Lanes for `unroll_factor` on the innermost independent axis and `reduce_unroll_factor` on the reduction.

    Parameters
    ----------
    kernel : KernelIR
    info : AxisInfo
    unroll : int
        Lanes of the innermost independent axis; 1 for none.
    reduce_unroll : int
        Lanes of the reduction; 1 for none.

    Raises
    ------
    InputError
        When the kernel has no axis for a factor that is larger than 1.
    """
    counters = [loop.counter for loop in kernel.loop_tree.walk() if loop.counter is not None]
    fixed = [c for c in counters if isinstance(c.bound, int)]
    independent = [c.axis for c in fixed if c.axis in info.independent]
    reducing = [c.axis for c in fixed if c.axis in info.reducible]
    lanes: dict[int, int] = {}
    for name, factor, axes in (
        ("unroll_factor", unroll, independent),
        ("reduce_unroll_factor", reduce_unroll, reducing),
    ):
        if factor == 1:
            continue
        if not axes:
            kind = "independent" if name == "unroll_factor" else "integer reduction"
            raise InputError(
                f"{name}={factor} needs an {kind} loop, and there is none",
                where=kernel.where,
                hint=f"leave {name} at 1 for this kernel, or give multipliers=N for the whole model"
                + ('; float_order="relaxed" lets lanes add floats' if name == "reduce_unroll_factor" else ""),
            )
        bound = next(c.bound for c in fixed if c.axis == axes[-1])
        assert isinstance(bound, int), "only constant bounds are kept"
        lanes[axes[-1]] = min(factor, bound)
    return lanes


def candidate_lanes(kernel: KernelIR, legal: Collection[int], lanes: int) -> list[dict[int, int]]:
    """Lane vectors of at most `lanes` lanes in each loop, those with the fewest steps first.

    Parameters
    ----------
    kernel : KernelIR
    legal : collection of int
        Axes that may have lanes.
    lanes : int
        Upper bound.
    """
    found = sorted(_vectors(kernel.loop_tree, legal, lanes), key=_Vector.order)
    # Wide candidates may be port-bound; keep some from smaller budgets.
    chosen = found[:MAX_CANDIDATES]
    for budget in (lanes // n for n in range(2, lanes + 1)):
        chosen += [entry for entry in found[MAX_CANDIDATES:] if entry.lanes <= budget][:MAX_SMALLER]
    chosen.sort(key=_Vector.order)
    return [dict(factors) for factors in dict.fromkeys(entry.factors for entry in chosen)]


class _Vector(NamedTuple):
    """Lanes of a loop and all inner ones: steps, lanes of the innermost loop with the most, and factors by axis."""

    steps: int
    lanes: int
    factors: tuple[tuple[int, int], ...]

    def order(self) -> tuple[int, int, int]:
        """Fewest steps first, then fewest lanes."""
        return self.steps, self.lanes, len(self.factors)


def _vectors(loop: LoopIR, legal: Collection[int], lanes: int) -> Iterator[_Vector]:
    """Vectors of at most `lanes` lanes; for sibling loops, some of each."""
    bound = loop.bound if isinstance(loop.bound, int) else 1
    axis = -1 if loop.counter is None else loop.counter.axis
    for factor in _useful_factors(bound, lanes) if axis in legal else [1]:
        here = ((axis, factor),) if factor > 1 else ()
        inner: list[Iterable[_Vector]] = [_vectors(each, legal, lanes // factor) for each in loop.loops]
        if len(inner) > 1:
            most = round(MAX_COMBINED ** (1 / len(inner)))
            inner = [_best(vectors, lanes // factor, most) for vectors in inner]
        for chosen in itertools.product(*inner):
            steps = sum(vector.steps for vector in chosen) if chosen else 1
            widest = max((vector.lanes for vector in chosen), default=1)
            factors = here + tuple(itertools.chain.from_iterable(v.factors for v in chosen))
            yield _Vector(-(-bound // factor) * steps, factor * widest, factors)


def _best(vectors: Iterable[_Vector], lanes: int, most: int) -> list[_Vector]:
    """Those of fewest steps with so many lanes, with half as many, and so on; then more of fewest steps."""
    found = sorted(vectors, key=_Vector.order)
    budgets = itertools.takewhile(bool, (lanes >> n for n in itertools.count()))
    first = [next(v for v in found if v.lanes <= budget) for budget in budgets]
    return list(dict.fromkeys([*first, *found]))[:most]


def _useful_factors(bound: int, lanes: int) -> list[int]:
    """Smallest factor for each number of steps."""
    limit = min(bound, lanes)
    return sorted({-(-bound // -(-bound // f)) for f in range(1, limit + 1)})


def packed_layouts(found: Sequence[LaneAccess], lanes: Mapping[int, int], depth: int) -> list[Layout]:
    """Layouts in which lanes of an access find their elements in the same words.

    A dimension along which both the outputs and the window of a convolution have lanes is packed by the elements from
    one step to the next: the window of the next outputs then begins with a word.

    Parameters
    ----------
    found : sequence of LaneAccess
        Accesses to the buffer.
    lanes : mapping of int to int
        By axis.
    depth : int
        Elements of the buffer.
    """
    layouts: dict[Layout, None] = {}
    for access in found:
        if access.form is None:
            continue
        strides = sorted(
            {abs(c) for s, c in access.form.terms if not isinstance(s, IRVariable)}, reverse=True
        )
        splits_of: list[list[int]] = []
        # Lanes that choose an element each find all elements along this dimension in one word.
        chooses = access.chosen and any(lanes.get(axis, 1) > 1 for axis in access.axes)
        values = access.form.values if chooses else ()
        across = {abs(coefficient) for symbol, coefficient in access.form.terms if symbol in values}
        for stride, above in zip(strides, [depth, *strides], strict=False):
            splits = {1}
            if stride in across and above <= MAX_CHOSEN * stride:
                splits.add(above // stride)
            for symbol, coefficient in access.form.terms:
                factor = lanes.get(symbol.axis, 1) if isinstance(symbol, IRCounter) else 1
                moved = abs(coefficient) * factor
                if factor > 1 and coefficient % stride == 0 and moved <= MAX_SPLIT * stride:
                    splits.add(moved // stride)
            splits_of.append(sorted(splits, reverse=True))
        for chosen in itertools.islice(itertools.product(*splits_of), MAX_LAYOUTS):
            spatial = list(zip(strides, chosen, strict=True))
            # A line that is not a multiple of its lanes begins with a word only as a dimension of its own.
            for dims in ([(s, n) for s, n in spatial if n > 1], spatial):
                layout = _strided(dims, depth)
                if layout is not None and layout.lanes > 1:
                    layouts[layout] = None
    return list(layouts)


def _strided(spatial: list[tuple[int, int]], depth: int) -> Layout | None:
    if not spatial:
        return None
    sizes: list[int] = []
    split: list[int] = []
    above = depth
    for stride, lanes in spatial:
        if stride == 0 or above % stride or above // stride < lanes:
            return None
        sizes.append(above // stride)
        split.append(lanes)
        above = stride
    if above > 1:
        sizes.append(above)
        split.append(1)
    return Layout(tuple(sizes), tuple(split))


def split_for_layouts(kernel: KernelIR, layouts: Mapping[int, Layout]) -> KernelIR:
    """Split the loops that run across a dimension of a packed buffer, so that each follows one dimension.

    Parameters
    ----------
    kernel : KernelIR
    layouts : mapping of int to Layout
        By slot.
    """
    while True:
        found = _crossing(kernel, layouts)
        if found is None:
            return kernel
        kernel = split_axis(kernel, *found)


def _crossing(kernel: KernelIR, layouts: Mapping[int, Layout]) -> tuple[int, int] | None:
    for idx, access in ((n, a) for n, use in buffer_accesses(kernel).items() for a in use.found):
        layout = layouts.get(idx)
        if layout is None or access.form is None:
            continue
        for n in range(len(layout.dims) - 1):
            span = math.prod(layout.dims[n + 1 :])
            for symbol, coefficient in access.form.terms:
                if not isinstance(symbol, IRCounter) or not isinstance(symbol.bound, int) or coefficient < 1:
                    continue
                inner = span // coefficient
                if span % coefficient == 0 and 1 < inner < symbol.bound and symbol.bound % inner == 0:
                    return symbol.axis, inner
    return None
