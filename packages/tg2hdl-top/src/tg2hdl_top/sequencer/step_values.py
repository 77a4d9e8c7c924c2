"""Values of a plan's nodes in all steps of a leaf loop, as far as they do not depend on data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import takewhile
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir import Affine, DType, IRCounter, LoopIR, registry
from tg2hdl_lower import HardwarePlan
from tg2hdl_lower.plan import LeafPlan
from tg2hdl_lower.plan.graph import bound_value, loop_steps
from tg2hdl_lower.plan.node import Node
from tg2hdl_lower.plan.operations import ConstantProduct, Operation
from tg2hdl_lower.plan.values import (
    Address,
    Constant,
    Counter,
    FirstFlag,
    LaneIndex,
    LastFlag,
    WordPosition,
)

__all__ = ["StepValues", "steps_of"]

_CHUNK = 1 << 18
"""Steps whose values are computed at a time."""

_Array = npt.NDArray[Any]


def steps_of(
    plan: HardwarePlan, leaf: LeafPlan, variables: Mapping[str, int] | None = None
) -> Iterator[StepValues]:
    """The steps of a leaf in order, some at a time.

    Parameters
    ----------
    variables : mapping of str to int, optional
        Values of the run-time variables of loop bounds.
    """
    variables = variables or {}
    bounds = [bound_value(loop.bound, variables) for loop in leaf.path]
    total = math.prod(bounds)
    parents = (plan.kernel.loop_tree, *leaf.path)
    before = 0
    for parent, loop in zip(parents, leaf.path, strict=False):
        # Where a core checks both ends of windows, the loops of its leaves are those of another kernel.
        before += sum(loop_steps(child, variables) for child in _loops_before(loop, parent.loops))
    periods = [loop_steps(loop, variables) // bound for loop, bound in zip(leaf.path, bounds, strict=True)]
    for first in range(0, total, _CHUNK):
        numbers = np.arange(first, min(first + _CHUNK, total), dtype=np.int64)
        digits = np.unravel_index(numbers, bounds) if bounds else ()
        steps = np.full(len(numbers), before, dtype=np.int64)
        counters: dict[int, _Array] = {}
        for loop, digit, period in zip(leaf.path, digits, periods, strict=True):
            assert loop.counter is not None, "only the root has no counter"
            steps += digit * period
            counters[loop.counter.axis] = digit.astype(np.int64)
        yield StepValues(plan, dict(zip(counters, bounds, strict=True)), counters, steps)


def _loops_before(loop: LoopIR, loops: Iterable[LoopIR]) -> Iterator[LoopIR]:
    """The loops before the one of an axis, whose number is unique in a kernel."""
    return takewhile(lambda other: _axis(other) != _axis(loop), loops)


def _axis(loop: LoopIR) -> int:
    assert loop.counter is not None, "only the root has no counter"
    return loop.counter.axis


class StepValues:
    """Values in some consecutive steps of a leaf.

    Attributes
    ----------
    steps : ndarray
        Number of each step in the run of the kernel.
    """

    def __init__(
        self, plan: HardwarePlan, bounds: dict[int, int], counters: dict[int, _Array], steps: _Array
    ) -> None:
        self.steps = steps
        self._plan = plan
        self._bounds = bounds
        self._counters = counters
        self._memo: dict[int, _Array | None] = {}

    def of(self, number: int) -> _Array | None:
        """Value of a node in each step; None where it depends on data or on a run-time variable."""
        if number not in self._memo:
            self._memo[number] = self._compute(self._plan.nodes[number])
        return self._memo[number]

    def _compute(self, node: Node) -> _Array | None:
        match node:
            case Constant():
                return self._constant(node)
            case Counter():
                return self._affine(node.form)
            case FirstFlag():
                return np.equal(self._counters[node.axis], 0)
            case LastFlag():
                return np.equal(self._counters[node.axis], self._bounds[node.axis] - 1)
            case Address():
                return self._address(node)
            case WordPosition():
                address = self._plan.nodes[node.address]
                assert isinstance(address, Address), "positions are those of addresses"
                digit = address.digits[node.digit]
                value = self._affine(digit.form)
                return None if value is None else value % digit.split
            case LaneIndex():
                return self._sum(node)
            case ConstantProduct():
                return self._constant_product(node)
            case Operation():
                return self._operation(node)
        return None

    def _constant(self, node: Constant) -> _Array | None:
        if node.dtype.is_float:
            return None
        return np.full(len(self.steps), node.value, dtype=node.dtype.numpy())

    def _affine(self, form: Affine) -> _Array | None:
        value = np.full(len(self.steps), form.const, dtype=np.int64)
        for symbol, coefficient in form.terms:
            if not isinstance(symbol, IRCounter):
                return None
            value += coefficient * self._counters[symbol.axis]
        return value

    def _address(self, node: Address) -> _Array | None:
        value = self._affine(node.form)
        for digit in node.digits:
            part = self._affine(digit.form)
            if value is None or part is None:
                return None
            value = value + digit.stride * (part // digit.split)
        return value

    def _sum(self, node: LaneIndex) -> _Array | None:
        total = np.full(len(self.steps), node.offset, dtype=np.int64)
        for position, weight in zip(node.positions, node.weights, strict=True):
            value = self.of(position)
            if value is None:
                return None
            total += weight * value
        return total

    def _operation(self, node: Operation) -> _Array | None:
        types = tuple(self._plan.nodes[n].dtype for n in node.sources)
        if node.dtype.is_float or any(t.is_float for t in types):
            return None
        return self._evaluate(node, [self.of(n) for n in node.sources], types)

    def _constant_product(self, node: ConstantProduct) -> _Array | None:
        types = node.unit.operands
        if node.dtype.is_float or any(t.is_float for t in types):
            return None
        (source,) = node.sources
        # The factors of a product can change places, so that the constant has the type that is left.
        dtype = self._plan.nodes[source].dtype
        constant = types[1] if types[0] == dtype else types[0]
        factor = np.full(len(self.steps), node.constant, dtype=constant.numpy())
        return self._evaluate(node, [self.of(source), factor], (dtype, constant))

    def _evaluate(
        self, node: Operation, values: list[_Array | None], types: tuple[DType, ...]
    ) -> _Array | None:
        known = [v.astype(t.numpy(), copy=False) for v, t in zip(values, types, strict=True) if v is not None]
        if len(known) != len(values):
            return None
        evaluate = registry().evaluation(node.op, types, node.dtype)
        return np.asarray(evaluate(tuple(known), types, node.dtype))
