"""Some iterations of the loops of a kernel that each write elements of their own: the others compute the same way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir import (
    AffineAnalysis,
    IRBufLoad,
    IRBufStore,
    IRConst,
    IRCounter,
    IRItem,
    IRRegLoad,
    KernelIR,
    LoopIR,
    values_below,
)
from tg2hdl_ir.passes.dead_loads import without_dead_loads

__all__ = ["few_iterations", "iterations_at", "places_kernel", "work_of_an_element"]

ENDS = 2
"""Iterations of each loop that are always among them: the first and the last."""

Array = npt.NDArray[Any]
Iterations = dict[int, Array]
"""Values of the counter, by axis."""


def few_iterations(kernel: KernelIR, most: int) -> Iterations:
    """Iterations of the loops whose counter is in the address of every store; empty where all are few.

    They write some elements of the results, with the values that the kernel gives them where no iteration reads the
    results of another one.

    Parameters
    ----------
    most : int
        Executions of a statement, unless the first and last iterations have more.
    """
    outer = _separate_loops(kernel)
    inner = _executions(kernel.loop_tree, set(outer))
    bounds = {counter: _bound(counter) for counter in outer}
    sizes = {counter: min(ENDS, bounds[counter]) for counter in outer}
    if inner * prod(bounds.values()) <= most:
        return {}
    # The innermost loops get the most: their iterations are neighbours.
    for counter in sorted(outer, key=lambda c: c.depth, reverse=True):
        others = inner * prod(sizes.values()) // sizes[counter]
        sizes[counter] = max(sizes[counter], min(bounds[counter], most // others))
    return {c.axis: _telling(bounds[c], size, c.axis) for c, size in sizes.items() if size < bounds[c]}


def work_of_an_element(kernel: KernelIR) -> int:
    """Executions of a statement for one iteration of the loops whose counter is in the address of every store."""
    return _executions(kernel.loop_tree, set(_separate_loops(kernel)))


def _telling(bound: int, size: int, seed: int) -> Array:
    """Some numbers below a bound: the first, the last, their neighbours, and random ones."""
    ends = [0, bound - 1, 1, bound - 2][:size]
    others = np.random.default_rng(seed).permutation(bound)
    fresh = others[~np.isin(others, ends)][: size - len(ends)]
    return np.sort(np.concatenate([ends, fresh]).astype(np.int64))


def iterations_at(kernel: KernelIR, places: Mapping[int, Array]) -> Iterations:
    """Iterations of the loops whose counter is in the address of every store, such that these elements are written.

    Parameters
    ----------
    places : mapping of int to ndarray of bool
        Elements by slot.
    """
    outer = _separate_loops(kernel)
    affine = AffineAnalysis()
    found: dict[IRCounter, set[int]] = {counter: set() for counter in outer}
    for store in _stores(kernel):
        form = affine.of(store.addr)
        if form is None or any(not isinstance(symbol, IRCounter) for symbol, _ in form.terms):
            return {}
        terms = [(c, step, _bound(c)) for c, step in form.terms if isinstance(c, IRCounter)]
        terms.sort(key=lambda term: -abs(term[1]))
        left = np.flatnonzero(places.get(store.buf_idx, ())) - form.const
        left -= sum(min(0, step * (bound - 1)) for _, step, bound in terms)
        digits = {}
        for counter, step, bound in terms:
            digit = np.clip(left // abs(step), 0, bound - 1)
            left = left - digit * abs(step)
            digits[counter] = digit if step > 0 else bound - 1 - digit
        for counter in outer:
            found[counter] |= set(digits[counter][left == 0].tolist())
    if not all(found.values()):
        return {}
    return {c.axis: np.array(sorted(n), np.int64) for c, n in found.items() if len(n) < _bound(c)}


def places_kernel(kernel: KernelIR) -> tuple[KernelIR, Iterations] | None:
    """The stores of a kernel with zeros for their values, and iterations: where it writes is quick to evaluate.

    Of a loop that no address depends on the first and last iterations are enough: results are stored in one of them.
    None where registers decide where that is.
    """
    stores = _stores(kernel)
    places = [v for s in stores for v in (s.addr, s.gate) if v is not None]
    if any(isinstance(value, IRRegLoad) for value in values_below(places)):
        return None

    def rebuilt(loop: LoopIR) -> LoopIR:
        items: list[IRItem] = []
        for item in loop.items:
            if isinstance(item, LoopIR):
                items.append(rebuilt(item))
            elif isinstance(item, IRBufStore):
                items.append(replace(item, value=IRConst(0, item.dtype)))
            elif isinstance(item, IRBufLoad):
                items.append(item)
        return LoopIR.from_items(tuple(items), counter=loop.counter, axis_type=loop.axis_type)

    needed = {v for v in values_below([s.addr for s in stores]) if isinstance(v, IRCounter)}
    ends = {
        loop.counter.axis: np.array([0, _bound(loop.counter) - 1])
        for loop in kernel.loop_tree.walk()
        if loop.counter is not None and loop.counter not in needed and _bound(loop.counter) > ENDS
    }
    made = replace(kernel, loop_tree=without_dead_loads(rebuilt(kernel.loop_tree)), registers=())
    return made, ends


def _stores(kernel: KernelIR) -> list[IRBufStore]:
    return [s for s in kernel.loop_tree.statements() if isinstance(s, IRBufStore)]


def _separate_loops(kernel: KernelIR) -> list[IRCounter]:
    """Counters with a constant bound that are in the address of every store."""
    around = [{v for v in values_below([s.addr]) if isinstance(v, IRCounter)} for s in _stores(kernel)]
    common = set.intersection(*around) if around else set()
    return sorted((c for c in common if isinstance(c.bound, int)), key=lambda c: c.depth)


def _bound(counter: IRCounter) -> int:
    """Constant bound of a counter; 0 where it is not constant."""
    return counter.bound if isinstance(counter.bound, int) else 0


def _executions(loop: LoopIR, without: set[IRCounter]) -> int:
    """Most executions of a statement in one iteration of some loops."""
    found = 1
    for inner in loop.loops:
        own = 1 if inner.counter is None or inner.counter in without else max(1, _bound(inner.counter))
        found = max(found, own * _executions(inner, without))
    return found
