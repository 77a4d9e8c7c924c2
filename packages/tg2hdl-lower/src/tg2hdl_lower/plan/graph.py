"""Nodes by number, and the leaf loops whose steps compute them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, overload

from tg2hdl_ir import InputError, IROp, IRValue, IRVariable, LoopIR
from tg2hdl_ir.golden.kernel import scalar
from tg2hdl_lower.plan.node import Node

__all__ = ["LeafPlan", "NodeGraph", "bound_value", "leaf_steps", "loop_steps", "variables_of"]

_N = TypeVar("_N", bound=Node)
_M = TypeVar("_M", bound=Node)


@dataclass(frozen=True)
class LeafPlan:
    """A leaf loop: the counters on its path, outermost first, and its nodes in the order of computation."""

    number: int
    path: tuple[LoopIR, ...]
    nodes: tuple[int, ...]


class NodeGraph:
    """Common queries of everything that has `nodes` and `leaves`."""

    nodes: Mapping[int, Node]
    leaves: tuple[LeafPlan, ...]

    def live(self) -> Iterator[Node]:
        """All nodes, leaf by leaf, in the order of computation."""
        return (self.nodes[n] for leaf in self.leaves for n in leaf.nodes)

    @overload
    def all(self, kind: type[_N], /) -> list[_N]: ...

    @overload
    def all(self, kind: type[_N], other: type[_M], /) -> list[_N | _M]: ...

    def all(self, *kinds: type[Node]) -> list[Any]:
        """Nodes of a class or of two, by number."""
        return [n for n in self.nodes.values() if isinstance(n, kinds)]


def bound_value(bound: int | IRValue, variables: Mapping[str, int]) -> int:
    """Number of iterations for given variables.

    Parameters
    ----------
    bound : int or IRValue
        A number, or one known at run time.
    variables : mapping of str to int
        Values of run-time variables by name.

    Raises
    ------
    InputError
        When a variable has no value.
    """
    if isinstance(bound, int):
        return bound
    for variable in variables_of(bound):
        if variable.name not in variables:
            raise InputError(
                f"variable {variable.name!r} has no value",
                hint=f"give a value from {variable.low} to {variable.high}",
            )
    return scalar(bound, variables)


def loop_steps(loop: LoopIR, variables: Mapping[str, int]) -> int:
    """Steps of a run of a loop, with those of the loops in it.

    Parameters
    ----------
    loop : LoopIR
        With the loops in it.
    variables : mapping of str to int
        Values by the name of a bound; needed where a bound is no constant.
    """
    inner = sum(loop_steps(child, variables) for child in loop.loops) if loop.loops else 1
    return bound_value(loop.bound, variables) * inner


def leaf_steps(leaf: LeafPlan, variables: Mapping[str, int]) -> int:
    """Steps of a leaf in a run of its kernel.

    Parameters
    ----------
    leaf : LeafPlan
        With the loops around it.
    variables : mapping of str to int
        Values by the name of a bound; needed where a bound is no constant.
    """
    return math.prod(bound_value(loop.bound, variables) for loop in leaf.path)


def variables_of(value: int | IRValue) -> list[IRVariable]:
    """Run-time variables of a bound."""
    if isinstance(value, IRVariable):
        return [value]
    return [v for s in value.srcs for v in variables_of(s)] if isinstance(value, IROp) else []
