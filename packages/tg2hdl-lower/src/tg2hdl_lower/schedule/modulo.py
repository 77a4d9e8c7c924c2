"""Modulo scheduling: every node gets a stage so that all values are ready when used and the II is smallest.

A step is issued every II cycles; stage s of a step happens s cycles after its issue.  A constraint between two nodes
of steps that are d steps apart therefore relates their stages up to ``d * II``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tg2hdl_ir import BudgetError
from tg2hdl_lower.dataflow.dataflow import Dataflow
from tg2hdl_lower.options import LowerOptions
from tg2hdl_lower.plan.accesses import FixedLane, Load, PickedLane, Store
from tg2hdl_lower.plan.hardware_plan import PortRegisters
from tg2hdl_lower.plan.node import Node
from tg2hdl_lower.plan.operations import DesignProduct, SharedUnitOp, UnitOp
from tg2hdl_lower.plan.placement import Placement, Ready, Schedule, StageRules
from tg2hdl_lower.schedule.dependences import (
    LOGIC_AND_UNITS,
    Edge,
    loop_edges,
    memory_edges,
    recurrent_nodes,
)
from tg2hdl_lower.schedule.late_loads import sink_loads
from tg2hdl_lower.schedule.ports import least_ii
from tg2hdl_lower.schedule.turns import MultiplierTurns
from tg2hdl_lower.sharing.budget import MultiplierBudget

__all__ = ["schedule"]

SHORT_STAGE = 2
RECURRENCE_LEVELS = 8
"""Levels that a recurrence may take in all the cycles of the II, which would double if it were cut."""


def schedule(
    flow: Dataflow,
    options: LowerOptions,
    ports: Mapping[int, int],
    registers: PortRegisters,
    lines: Mapping[int, int],
    interval: int = 1,
    budget: MultiplierBudget | None = None,
    *,
    chained: bool = False,
) -> Schedule:
    """Place every node.

    Parameters
    ----------
    lines : mapping of int to int
        Registers that are delay lines, and their length in steps.
    interval : int
        Least initiation interval.
    budget : MultiplierBudget, optional
        Products take turns to stay in it; without one each has a multiplier.
    chained : bool
        Whether one level of logic may precede a unit of a recurrence.

    Raises
    ------
    BudgetError
        When no II up to `options.max_ii` works.
    """
    edges = loop_edges(flow, lines) + memory_edges(flow, registers)
    rules = replace(_rules(flow, options, registers), chained=chained)
    least = max(interval, least_ii(flow, ports).cycles, 1 if budget is None else budget.interval.cycles)
    for ii in range(least, options.max_ii + 1):
        turns = None if budget is None else MultiplierTurns(ii, budget.multipliers(ii) or {})
        attempt = _Attempt(flow, rules, edges, ports, ii, turns)
        if attempt.run():
            attempt.assign_products()
            attempt.assign_shared_units()
            placements = sink_loads(flow, attempt.rules, edges, ii, attempt.placed)
            return Schedule(ii, placements)
    raise BudgetError(
        f"no initiation interval up to {options.max_ii} cycles works",
        where=flow.kernel.where,
        hint="raise max_ii, or split the computation with .contiguous()",
    )


def _rules(flow: Dataflow, options: LowerOptions, registers: PortRegisters) -> StageRules:
    """The levels that fit a stage, with those of a recurrence at II = 1."""
    timing, memories = options.timing, flow.memories
    return StageRules(
        timing.stage_levels,
        max(timing.stage_levels, RECURRENCE_LEVELS),
        # A short stage has no time for much logic after the output of a block RAM.
        1 if timing.stage_levels <= SHORT_STAGE else 0,
        {b: memories.read_latency(b) + (b in registers.reads) for b in memories.layouts},
        {b for b in memories.layouts if memories.read_latency(b) > timing.read_latency},
        options.spread,
        recurrent_nodes(flow.nodes.values()),
        recurrent_nodes(flow.nodes.values(), LOGIC_AND_UNITS),
    )


class _Attempt:
    def __init__(
        self,
        flow: Dataflow,
        rules: StageRules,
        edges: list[Edge],
        ports: Mapping[int, int],
        ii: int,
        turns: MultiplierTurns | None,
    ) -> None:
        self.turns = turns
        self.flow = flow
        self.rules = replace(rules, recurrence_levels=max(rules.levels, -(-RECURRENCE_LEVELS // ii)))
        self.edges = edges
        self.ports = ports
        self.ii = ii
        self.bounds = dict.fromkeys(flow.nodes, 0)
        self.live = list(flow.live())
        self.placed: dict[int, Placement] = {}
        self._place()
        self.limit = 64 + 2 * ii + self._last_issue()

    def run(self) -> bool:
        """Raise lower bounds until nothing is violated, or until a node would go beyond the limit."""
        while True:
            if self._last_issue() > self.limit:
                return False
            late = {} if self.turns is None else self.turns.late
            self.bounds.update({n: max(issue, self.bounds[n]) for n, issue in late.items()})
            if not late and not self._violations() and not self._port_conflicts():
                return True
            self._place()

    def _last_issue(self) -> int:
        return max((self.placed[n.number].issue for n in self.live), default=0)

    def _place(self) -> None:
        if self.turns is not None:
            self.turns.clear()
        for node in self.live:
            at = node.place(self._ready(node), self.rules)
            if self.turns is not None and isinstance(node, DesignProduct):
                at = self.turns.take(node, at)
            self.placed[node.number] = at

    def _ready(self, node: Node) -> Ready:
        rules, nodes = self.rules, self.flow.nodes
        stage, level = self.bounds[node.number], 0
        for number in node.operands:
            source = nodes[number]
            if source.is_fixed:
                continue
            _, at, depth, _ = self.placed[number]
            if number in rules.circular and isinstance(source, UnitOp) and node.number not in rules.circular:
                # Only in the recurrence the logic after its last register counts as none.
                depth = rules.levels
            inside = rules.circular if rules.chained else rules.recurrent
            if depth and node.number in inside and number not in inside:
                # Operands that enter a recurrence come from registers: its stage has no slack for logic.
                at, depth = at + 1, 0
            stage, level = max((stage, level), (at, depth))
        return Ready(stage, level, rules.registered_factors and self._follows_logic(node, stage))

    def _follows_logic(self, node: Node, stage: int) -> bool:
        """Whether an operand comes from logic in this stage, not straight from a register or a memory."""
        placed = ((self.flow.nodes[n], self.placed[n]) for n in node.operands)
        return any(
            at.level and at.stage == stage and not isinstance(source, Load | FixedLane | PickedLane)
            for source, at in placed
        )

    def _violations(self) -> bool:
        found = False
        for edge in self.edges:
            earliest = self.placed[edge.before].issue + edge.gap - edge.distance * self.ii
            if self.placed[edge.after].issue < earliest:
                self.bounds[edge.after] = max(self.bounds[edge.after], earliest)
                found = True
        return found

    def _port_conflicts(self) -> bool:
        """Assign ports; a node that finds none in its slot moves one cycle later."""
        moved = False
        for kind in (Load, Store):
            by_buffer: dict[int, list[Node]] = {}
            for node in self.live:
                if isinstance(node, kind):
                    by_buffer.setdefault(node.buffer, []).append(node)
            for buffer, accesses in by_buffer.items():
                limit = self.ports[buffer] if kind is Load else 1
                moved |= self._assign(accesses, limit)
        return moved

    def assign_products(self) -> None:
        """Give every product a multiplier; products that never start in the same cycle have the same."""
        if self.turns is not None:
            return
        by_key: dict[str, list[DesignProduct]] = {}
        for node in self.live:
            if isinstance(node, DesignProduct):
                by_key.setdefault(node.key, []).append(node)
        first = 0
        for key in sorted(by_key):
            found = by_key[key]
            if self.ii == 1 and len({n.leaf for n in found}) == 1:
                # Each has its own: those of an output are neighbours; those of all kernels can be placed in a row.
                for port, number in enumerate(sorted(n.number for n in found)):
                    self._set_port(number, port)
            else:
                assert not self._assign(found, len(found)), "there are as many multipliers as products"
            for node in found:
                self._set_port(node.number, self.placed[node.number].port + first)
            first = 1 + max(self.placed[n.number].port for n in found)

    def assign_shared_units(self) -> None:
        """Give every shared unit a slot; those of one name that never start in the same cycle have the same."""
        by_unit: dict[str, list[SharedUnitOp]] = {}
        for node in self.live:
            if isinstance(node, SharedUnitOp):
                # Only units with II = 1 can be time-shared.
                key = node.unit.name if node.unit.ii == 1 else f"{node.unit.name} {node.number}"
                by_unit.setdefault(key, []).append(node)
        first = 0
        for key in sorted(by_unit):
            users = by_unit[key]
            assert not self._assign(users, len(users)), "there are as many slots as users"
            for node in users:
                self._set_port(node.number, self.placed[node.number].port + first)
            first = 1 + max(self.placed[n.number].port for n in users)

    def _set_port(self, number: int, port: int) -> None:
        self.placed[number] = self.placed[number]._replace(port=port)

    def _assign(self, accesses: Sequence[Node], limit: int) -> bool:
        """Give each node the first port that is free in its cycle; whether one found none and moves a cycle later."""
        taken: list[dict[int, tuple[int, set[int]]]] = []
        for node in sorted(accesses, key=lambda n: (self.placed[n.number].issue, n.number)):
            issue = self.placed[node.number].issue
            slot = issue % self.ii
            # Steps of different leaves are never in the same cycle of the same stage.
            free = (
                port
                for port, users in enumerate(taken)
                if slot not in users or (users[slot][0] == issue and node.leaf not in users[slot][1])
            )
            port = next(free, len(taken))
            if port == len(taken):
                if port >= limit:
                    self.bounds[node.number] = issue + 1
                    return True
                taken.append({})
            self._set_port(node.number, port)
            taken[port].setdefault(slot, (issue, set()))[1].add(node.leaf)
        return False
