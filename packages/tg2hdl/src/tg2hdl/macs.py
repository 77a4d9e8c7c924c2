"""How many multiplications a kernel needs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np

from tg2hdl_ir.analysis.affine import AffineAnalysis
from tg2hdl_ir.nodes import (
    IRBufLoad,
    IRBufStore,
    IRConst,
    IRCounter,
    IROp,
    IRRegLoad,
    IRRegStore,
    IRValue,
    IRVariable,
    KernelIR,
    LoopIR,
)
from tg2hdl_ir.passes.elements import distinct_values, evaluated
from tg2hdl_ir.tree import loads_used_by, values_below

__all__ = ["count_macs"]

MAX_CHOICES = 8
"""Choices that lead to a product; with more it counts in every iteration."""

_Cases = frozenset[frozenset[tuple[IRValue, bool]]]
"""Conjunctions of conditions, one of which holds where a value is needed."""
_ALWAYS: _Cases = frozenset((frozenset(),))


def count_macs(kernel: KernelIR, variables: Mapping[str, int] | None = None) -> int:
    """Multiplications of data that the results of one run need.

    A product that is computed again for further results counts once, and only in the iterations that select it.
    Address arithmetic and products by constants, which take no multiplier, do not count.
    """
    stored = {s.buf_idx for s in kernel.loop_tree.statements() if isinstance(s, IRBufStore)}
    affine = AffineAnalysis()
    total, seen = 0, set[IRValue]()
    for statement, loops in _stores((kernel.loop_tree,)):
        for value, cases in _cases(statement.value).items():
            if value in seen or not _is_product(value) or affine.of(value) is not None:
                continue
            seen.add(value)
            trips = math.prod(_trips(loop.bound, variables or {}) for loop in loops)
            total += min(math.ceil(trips * _share(cases)), _distinct(kernel, value, stored, trips))
    return total


def _stores(path: tuple[LoopIR, ...]) -> Iterator[tuple[IRBufStore | IRRegStore, tuple[LoopIR, ...]]]:
    for item in path[-1].items:
        if isinstance(item, LoopIR):
            yield from _stores((*path, item))
        elif isinstance(item, IRBufStore | IRRegStore):
            yield item, path


def _is_product(value: IRValue) -> bool:
    constant = isinstance(value, IROp) and any(isinstance(s, IRConst) for s in value.srcs[:2])
    return isinstance(value, IROp) and value.op in ("mul", "mulacc") and not constant


def _cases(root: IRValue) -> dict[IRValue, _Cases]:
    """When the operations of an expression are needed, by their operation; users come before operands."""
    found: dict[IRValue, _Cases] = {root: _ALWAYS}
    for value in reversed(_operands_first(root)):
        cases = found[value]
        if not isinstance(value, IROp):
            continue
        condition = value.srcs[0]
        chooses = value.op == "where" and not _depends_on_data(condition)
        for number, source in enumerate(value.srcs):
            own = cases
            if chooses and number:
                own = frozenset(case | {(condition, number == 1)} for case in cases)
            own |= found.get(source, frozenset())
            found[source] = _ALWAYS if frozenset() in own or len(own) > MAX_CHOICES else own
    return found


def _operands_first(root: IRValue) -> list[IRValue]:
    order: dict[IRValue, None] = {}
    pending = [(root, False)]
    while pending:
        value, done = pending.pop()
        if done:
            order[value] = None
        elif value not in order:
            pending.append((value, True))
            pending += [(s, False) for s in value.srcs] if isinstance(value, IROp) else []
    return list(order)


def _depends_on_data(value: IRValue) -> bool:
    return bool(loads_used_by((value,))) or any(isinstance(v, IRVariable) for v in values_below((value,)))


def _share(cases: _Cases) -> float:
    """Share of the iterations in which one of the cases holds."""
    if cases == _ALWAYS:
        return 1
    conditions = list({condition for case in cases for condition, _ in case})
    truths = evaluated(conditions)
    if truths is None:
        return 1
    by_condition = dict(zip(conditions, truths, strict=True))
    holds = [np.logical_and.reduce([by_condition[c] == truth for c, truth in case]) for case in cases]
    return float(np.logical_or.reduce(holds).mean())


def _distinct(kernel: KernelIR, value: IRValue, stored: set[int], trips: int) -> int:
    """Most values that a product has in one run."""
    below = values_below((value,))
    loads = [v for v in below if isinstance(v, IRBufLoad)]
    varies = any(
        isinstance(v, IRRegLoad | IRVariable) or (isinstance(v, IRCounter) and not isinstance(v.bound, int))
        for v in below
    )
    if varies or not loads or not isinstance(value, IROp) or any(v.buf_idx in stored for v in loads):
        return trips
    return distinct_values(kernel, value, loads)


def _trips(bound: int | IRValue, variables: Mapping[str, int]) -> int:
    if isinstance(bound, int):
        return bound
    from tg2hdl_lower.plan.bounds import bound_value

    return bound_value(bound, dict(variables))
