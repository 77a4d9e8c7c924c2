"""Inputs whose features have ranges far apart, and get a scale each."""

from __future__ import annotations

import numpy as np

from tg2hdl_ir.tensors import ELEMENTWISE
from tg2hdl_quant.graph.ranges import Observed
from tg2hdl_quant.graph.steps import Plan

__all__ = ["feeds_only_weights", "has_feature_scales"]

_APART = 8
"""How many times the median range the largest one is."""


def has_feature_scales(plan: Plan, observed: Observed, number: int) -> bool:
    """Whether the features of an input get scales of their own, which the weights that read them take up."""
    shape = plan.graph.nodes[number].shape
    if len(shape) != 2 or shape[0] != 1 or observed.lows is None:
        return False
    assert observed.highs is not None
    spread = np.maximum(np.abs(observed.lows), np.abs(observed.highs))
    spread = spread[observed.highs > observed.lows]
    if not spread.size or spread.max() < _APART * np.median(spread):
        return False
    return feeds_only_weights(plan, number)


def feeds_only_weights(
    plan: Plan,
    number: int,
    between: frozenset[str] = frozenset({"reshape", "permute", "expand", "ADD", "MUL"}),
) -> bool:
    """Whether only layers with weights read a node, after operations of `between` with constants."""
    readers = plan.graph.consumers()
    stack = [number]
    while stack:
        for reader in readers[stack.pop()]:
            node = plan.graph.nodes[reader]
            constant = any(plan.graph.nodes[s].op == "const" for s in node.sources)
            weighted = [plan.contraction(r) is not None for r in readers[reader]]
            if node.op == "MUL" and constant and weighted and all(weighted):
                continue
            with_constant = node.op not in ELEMENTWISE or constant
            if reader in plan.functions or node.op not in between or not with_constant:
                return False
            stack.append(reader)
    return number not in plan.graph.outputs
