"""Nodes by number, and the leaf loops whose steps compute them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, overload

from tg2hdl_ir.nodes import LoopIR
from tg2hdl_lower.plan.node import Node

__all__ = ["LeafPlan", "NodeGraph"]

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
