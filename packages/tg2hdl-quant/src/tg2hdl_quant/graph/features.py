"""Inputs whose features have ranges far apart, and get a scale each."""

from __future__ import annotations

import numpy as np

from tg2hdl_quant.graph.ranges import Observed
from tg2hdl_quant.graph.steps import Plan

__all__ = ["has_feature_scales"]

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
    return _feeds_only_weights(plan, number)


def _feeds_only_weights(plan: Plan, number: int) -> bool:
    """Whether only layers with weights read a node, and constants are all that is added and multiplied between."""
    readers = plan.graph.consumers()
    stack = [number]
    while stack:
        for reader in readers[stack.pop()]:
            node = plan.graph.nodes[reader]
            constant = any(plan.graph.nodes[s].op == "const" for s in node.sources)
            weighted = [plan.contraction(r) is not None for r in readers[reader]]
            if node.op == "MUL" and constant and weighted and all(weighted):
                continue
            moved = node.op in ("reshape", "permute", "expand")
            if reader in plan.functions or not (moved or (node.op in ("ADD", "MUL") and constant)):
                return False
            stack.append(reader)
    return True
