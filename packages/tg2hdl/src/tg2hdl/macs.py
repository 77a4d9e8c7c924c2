"""How many multiplications a kernel needs, and how many products its multipliers compute."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, MutableMapping
from weakref import WeakKeyDictionary

import numpy as np

from tg2hdl_ir import (
    AffineAnalysis,
    IRBufLoad,
    IRBufStore,
    IRCounter,
    IROp,
    IRRegLoad,
    IRRegStore,
    IRValue,
    IRVariable,
    KernelIR,
    LoopIR,
    values_below,
)
from tg2hdl_ir.analysis.cases import ALWAYS, Cases, cases_of, is_product
from tg2hdl_ir.passes.elements import distinct_values, evaluated
from tg2hdl_lower import HardwarePlan
from tg2hdl_lower.plan.graph import bound_value, leaf_steps
from tg2hdl_lower.plan.node import Node
from tg2hdl_lower.plan.operations import DesignProduct, Operation
from tg2hdl_lower.sharing.budget import is_private

__all__ = ["count_macs", "issued_products", "takes_multiplier"]


def count_macs(kernel: KernelIR, variables: Mapping[str, int] | None = None) -> int:
    """Multiplications of data that the results of one run need.

    A product that is computed again for further results counts once, and only in the iterations that select it.
    Address arithmetic and products by constants, which take no multiplier, do not count.

    Parameters
    ----------
    kernel : KernelIR
    variables : mapping of str to int, optional
        Values of run-time variables.
    """
    values = {v.name: variables[v.name] for v in kernel.variables if variables and v.name in variables}
    known = _known.setdefault(kernel, {})
    key = tuple(values.items())
    if key not in known:
        known[key] = _count(kernel, values)
    return known[key]


_known: MutableMapping[KernelIR, dict[tuple[tuple[str, int], ...], int]] = WeakKeyDictionary()
"""Of the kernels that are alive: tables, reports and explanations ask for each several times."""


def _count(kernel: KernelIR, variables: Mapping[str, int]) -> int:
    stored = {s.buf_idx for s in kernel.loop_tree.statements() if isinstance(s, IRBufStore)}
    affine = AffineAnalysis()
    total, seen = 0, set[IRValue]()
    for statement, loops in _stores((kernel.loop_tree,)):
        for value, cases in cases_of([statement.value]).items():
            if value in seen or not is_product(value) or affine.of(value) is not None:
                continue
            seen.add(value)
            trips = math.prod(bound_value(loop.bound, variables) for loop in loops)
            total += min(math.ceil(trips * _share(cases, variables)), _distinct(kernel, value, stored, trips))
    return total


def issued_products(plan: HardwarePlan, variables: Mapping[str, int]) -> int:
    """Products that the multipliers of a kernel compute in a run, needed or not.

    Parameters
    ----------
    plan : HardwarePlan
        Of one kernel.
    variables : mapping of str to int
        Values by the name of a bound.
    """
    return sum(
        leaf_steps(leaf, variables) * sum(takes_multiplier(plan.nodes[n], plan) for n in leaf.nodes)
        for leaf in plan.leaves
    )


def takes_multiplier(node: Node, plan: HardwarePlan) -> bool:
    """Whether a node is a product on a multiplier, of the design or of its own.

    Parameters
    ----------
    node : Node
        Of `plan`.
    plan : HardwarePlan
        Says which products are private to a node.
    """
    return isinstance(node, DesignProduct) or (isinstance(node, Operation) and is_private(node, plan.nodes))


def _stores(path: tuple[LoopIR, ...]) -> Iterator[tuple[IRBufStore | IRRegStore, tuple[LoopIR, ...]]]:
    for item in path[-1].items:
        if isinstance(item, LoopIR):
            yield from _stores((*path, item))
        elif isinstance(item, IRBufStore | IRRegStore):
            yield item, path


def _share(cases: Cases, variables: Mapping[str, int]) -> float:
    """Share of the iterations in which one of the cases holds."""
    if cases == ALWAYS:
        return 1
    conditions = list({condition for case in cases for condition, _ in case})
    truths = evaluated(conditions, variables)
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
