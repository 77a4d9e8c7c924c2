"""Fixed values: the same in every run, because they depend only on constants, weights and counters of known bounds."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tg2hdl_ir.nodes import IRBufLoad, IRConst, IRCounter, IROp, IRValue
from tg2hdl_ir.tree import operands

__all__ = ["FixedValue", "FixedValues"]


@dataclass(frozen=True)
class FixedValue:
    """Dependences of a fixed value.

    Parameters
    ----------
    counters : frozenset of IRCounter
        Induction variables that it depends on, also through addresses.
    loads : tuple of IRBufLoad
        Loads of weights that it reads, each after those in its address.
    """

    counters: frozenset[IRCounter] = frozenset()
    loads: tuple[IRBufLoad, ...] = ()


class FixedValues:
    """Finds the fixed values of a kernel, memoized by node.

    Parameters
    ----------
    weights : collection of int
        Slots of the buffers whose contents never change during a run.
    """

    def __init__(self, weights: Collection[int]) -> None:
        self.weights = frozenset(weights)
        self._memo: dict[IRValue, FixedValue | None] = {}

    def of(self, value: IRValue) -> FixedValue | None:
        """Dependences of a fixed value; None for a value that depends on an input, a variable or a register."""
        stack = [value]
        while stack:
            node = stack[-1]
            if node in self._memo:
                stack.pop()
                continue
            pending = [v for v in operands(node) if v not in self._memo]
            if pending:
                stack.extend(pending)
                continue
            self._memo[stack.pop()] = self._compute(node)
        return self._memo[value]

    def _compute(self, node: IRValue) -> FixedValue | None:
        match node:
            case IRConst():
                return FixedValue()
            case IRCounter():
                return FixedValue(frozenset((node,))) if isinstance(node.bound, int) else None
            case IRBufLoad() if node.buf_idx not in self.weights:
                return None
            case IROp() | IRBufLoad():
                parts = [self._memo[v] for v in operands(node)]
                known = [p for p in parts if p is not None]
                if len(known) != len(parts):
                    return None
                loads = dict.fromkeys(load for p in known for load in p.loads)
                if isinstance(node, IRBufLoad):
                    loads[node] = None
                counters: frozenset[IRCounter] = frozenset().union(*(p.counters for p in known))
                return FixedValue(counters, tuple(loads))
        return None
