"""Loads as late as possible, so that an address waits in registers and not a word of many lanes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from tg2hdl_lower.dataflow.dataflow import Dataflow
from tg2hdl_lower.plan.accesses import FixedLane, Load, PickedLane, Replay
from tg2hdl_lower.plan.node import Node
from tg2hdl_lower.plan.operations import Product
from tg2hdl_lower.plan.placement import Placement, StageRules
from tg2hdl_lower.schedule.dependences import Edge

__all__ = ["sink_loads"]


def sink_loads(
    flow: Dataflow,
    rules: StageRules,
    edges: Iterable[Edge],
    ii: int,
    placed: Mapping[int, Placement],
) -> dict[int, Placement]:
    """Placements in which words are read as late as their users allow.

    Loads stay where a store or another user of their port fixes their place.

    Parameters
    ----------
    flow : Dataflow
    rules : StageRules
    edges : iterable of Edge
        Dependences that the result keeps.
    ii : int
        Initiation interval in cycles.
    placed : mapping of int to Placement
        Placements so far.
    """
    return _Sinking(flow, rules, edges, ii, placed).run()


class _Sinking:
    def __init__(
        self,
        flow: Dataflow,
        rules: StageRules,
        edges: Iterable[Edge],
        ii: int,
        placed: Mapping[int, Placement],
    ) -> None:
        self.flow = flow
        self.rules = rules
        self.ii = ii
        self.placed = dict(placed)
        self.fixed = {n for edge in edges for n in (edge.before, edge.after)}
        self.live = list(flow.live())
        loads = [n for n in self.live if isinstance(n, Load)]
        sharing = Counter((n.buffer, placed[n.number].port) for n in loads)
        self.fixed |= {n.number for n in loads if sharing[n.buffer, placed[n.number].port] > 1}
        self.users: dict[int, list[Node]] = {}
        for node in self.live:
            for number in node.operands:
                self.users.setdefault(number, []).append(node)

    def run(self) -> dict[int, Placement]:
        """Move all loads and replays, each with the words of the same lanes."""
        # A load may be the address of an earlier one, or the end of its delay line.
        found = [(at, n) for at, n in enumerate(self.live) if isinstance(n, Load | Replay)]
        for _, load in sorted(found, key=lambda entry: (-self.placed[entry[1].number].issue, -entry[0])):
            moving = self._moving_together(load)
            slack = 0 if moving.keys() & self.fixed else self._slack(moving)
            if slack > 0:
                for number in moving:
                    at = self.placed[number]
                    self.placed[number] = at._replace(issue=at.issue + slack, stage=at.stage + slack)
        return self.placed

    def _slack(self, moving: Mapping[int, Node]) -> int:
        """Cycles that nodes may move until one of their other users takes them."""
        return min(
            (
                self._latest(number, user) - self.placed[number].stage
                for number in moving
                for user in self.users.get(number, ())
                if user.number not in moving
            ),
            default=0,
        )

    def _latest(self, word: int, user: Node) -> int:
        """Last stage in which a user can take a word."""
        at = self.placed[user.number]
        if isinstance(user, Replay):
            return at.stage + user.steps * self.ii - 1
        free_level = self.rules.memory_level if isinstance(user, Product) else 0
        needed = at.stage if user.takes_operands_late else at.issue
        return needed - (1 if self.placed[word].level > free_level else 0)

    def _moving_together(self, load: Node) -> dict[int, Node]:
        """A load with its lanes, and the other words of these lanes with all of theirs."""
        moving = {load.number: load}
        pending = [load]
        while pending:
            node = pending.pop()
            near = (
                [self.flow.nodes[n] for n in node.operands]
                if isinstance(node, FixedLane | PickedLane)
                else [n for n in self.users.get(node.number, ()) if isinstance(n, FixedLane | PickedLane)]
            )
            for other in near:
                if isinstance(other, Load | Replay | FixedLane | PickedLane) and other.number not in moving:
                    moving[other.number] = other
                    pending.append(other)
        return moving
