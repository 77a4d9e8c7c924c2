"""The nodes of a kernel in topological order, before they are scheduled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tg2hdl_ir import IRValue, KernelIR
from tg2hdl_lower.memory.memories import Memories
from tg2hdl_lower.plan.graph import LeafPlan, NodeGraph
from tg2hdl_lower.plan.node import Node

__all__ = ["Dataflow"]


@dataclass(frozen=True)
class Dataflow(NodeGraph):
    """Nodes by number, and the leaves that own them; passes make another one.

    Parameters
    ----------
    gates : mapping of int to set of IRValue or None
        When the result of each load is used; None is always.
    """

    kernel: KernelIR
    memories: Memories
    nodes: Mapping[int, Node]
    leaves: tuple[LeafPlan, ...]
    gates: Mapping[int, set[IRValue | None]]

    def with_nodes(self, changed: Mapping[int, Node]) -> Dataflow:
        """The same with some nodes replaced."""
        return replace(self, nodes={**self.nodes, **changed}) if changed else self
