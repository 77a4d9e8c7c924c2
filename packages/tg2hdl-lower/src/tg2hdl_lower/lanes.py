"""Lanes: how many iterations of each loop run at once."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

from tg2hdl_ir.errors import InputError
from tg2hdl_ir.nodes import IRBufLoad, IRConst, IRCounter, IROp, IRValue, KernelIR
from tg2hdl_ir.passes.affine import AffineAnalysis
from tg2hdl_ir.passes.axes import AxisInfo
from tg2hdl_ir.passes.rewrite import operands
from tg2hdl_ir.passes.split import split_axis
from tg2hdl_lower.buffer_use import Access, buffer_accesses
from tg2hdl_lower.layout import Layout

__all__ = [
    "candidate_lanes",
    "explicit_lanes",
    "multiplications",
    "packed_layouts",
    "split_for_layouts",
]

MAX_CANDIDATES = 300
MAX_SMALLER = 40
MAX_LAYOUTS = 32
MAX_SPLIT = 256


def multiplications(kernel: KernelIR) -> int:
    """Multipliers of one lane: products of two values that are not known at compile time, outside of addresses."""
    seen: set[IRValue] = set()
    stack = [
        s.value for s in kernel.loop_tree.statements() if not isinstance(s, IRBufLoad) and hasattr(s, "value")
    ]
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


def _axes(kernel: KernelIR, info: AxisInfo) -> list[IRCounter]:
    legal = info.independent | info.reducible
    return [
        loop.counter
        for loop in kernel.loop_tree.walk()
        if loop.counter is not None
        and loop.counter.axis in legal
        and isinstance(loop.bound, int)
        and loop.bound > 1
    ]


def explicit_lanes(kernel: KernelIR, info: AxisInfo, unroll: int, reduce_unroll: int) -> dict[int, int]:
    """Lanes for `unroll_factor` on the innermost independent axis and `reduce_unroll_factor` on the reduction.

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


def candidate_lanes(kernel: KernelIR, info: AxisInfo, lanes: int) -> list[dict[int, int]]:
    """Lane vectors of at most `lanes` lanes, those with the fewest steps first."""
    axes = _axes(kernel, info)
    found: list[tuple[int, int, dict[int, int]]] = []
    for factors in _vectors([c.bound for c in axes if isinstance(c.bound, int)], lanes):
        steps = math.prod(
            -(-c.bound // f) for c, f in zip(axes, factors, strict=True) if isinstance(c.bound, int)
        )
        vector = {c.axis: f for c, f in zip(axes, factors, strict=True) if f > 1}
        found.append((steps, math.prod(factors), vector))
    found.sort(key=lambda entry: (entry[0], entry[1], len(entry[2])))
    # Memories may starve the largest ones: some of every smaller budget follow.
    chosen = found[:MAX_CANDIDATES]
    for budget in (lanes // n for n in range(2, lanes + 1)):
        chosen += [entry for entry in found[MAX_CANDIDATES:] if entry[1] <= budget][:MAX_SMALLER]
    chosen.sort(key=lambda entry: (entry[0], entry[1], len(entry[2])))
    return [dict(key) for key in dict.fromkeys(tuple(vector.items()) for _, _, vector in chosen)]


def _vectors(bounds: list[int], lanes: int) -> Iterator[tuple[int, ...]]:
    if not bounds:
        yield ()
        return
    for factor in _useful_factors(bounds[0], lanes):
        for rest in _vectors(bounds[1:], lanes // factor):
            yield (factor, *rest)


def _useful_factors(bound: int, lanes: int) -> list[int]:
    """Smallest factor for each number of steps."""
    limit = min(bound, lanes)
    return sorted({-(-bound // -(-bound // f)) for f in range(1, limit + 1)})


def packed_layouts(found: Sequence[Access], lanes: Mapping[int, int], depth: int) -> list[Layout]:
    """Layouts in which lanes of an access find their elements in the same words.

    A dimension along which both the outputs and the window of a convolution have lanes is packed by the elements from
    one step to the next: the window of the next outputs then begins with a word.
    """
    layouts: dict[Layout, None] = {}
    for access in found:
        if access.form is None:
            continue
        strides = sorted({abs(c) for s, c in access.form.terms if isinstance(s, IRCounter)}, reverse=True)
        ways: list[list[int]] = []
        for stride in strides:
            splits = {1}
            for symbol, coefficient in access.form.terms:
                factor = lanes.get(symbol.axis, 1) if isinstance(symbol, IRCounter) else 1
                moved = abs(coefficient) * factor
                if factor > 1 and coefficient % stride == 0 and moved <= MAX_SPLIT * stride:
                    splits.add(moved // stride)
            ways.append(sorted(splits, reverse=True))
        for chosen in itertools.islice(itertools.product(*ways), MAX_LAYOUTS):
            spatial = list(zip(strides, chosen, strict=True))
            # A line that is no multiple of its lanes begins with a word only as a dimension of its own.
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
    """Split the loops that run across a dimension of a packed buffer, so that each follows one dimension."""
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
