"""Modulo scheduling: every node gets a stage so that all values are ready when used and the II is smallest.

A step is issued every II cycles; stage s of a step happens s cycles after its issue.  A constraint between two nodes
of steps that are d steps apart therefore relates their stages up to ``d * II``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from tg2hdl_ir.errors import UnsupportedError
from tg2hdl_lower.dataflow import Dataflow
from tg2hdl_lower.demands import ReadPorts, least_ii
from tg2hdl_lower.dependences import Edge, loop_edges, memory_edges, recurrent_nodes
from tg2hdl_lower.memories import extra_latency
from tg2hdl_lower.options import LowerOptions
from tg2hdl_lower.plan import PlanNode, PortRegisters

__all__ = ["schedule"]

SHORT_STAGE = 2
RECURRENCE_LEVELS = 8
"""Levels that a recurrence may take in all the cycles of the II, which would double if it were cut."""


def schedule(
    flow: Dataflow,
    options: LowerOptions,
    ports: ReadPorts,
    registers: PortRegisters,
    turning: Mapping[int, int],
) -> int:
    """Set issue, stage, level and port of every node; returns the II.

    Parameters
    ----------
    turning : mapping of int to int
        Registers that are delay lines, and their length in steps.

    Raises
    ------
    UnsupportedError
        When no II up to `options.max_ii` works.
    """
    edges = loop_edges(flow, turning) + memory_edges(flow, registers)
    ii = least_ii(flow, ports)
    while ii <= options.max_ii:
        attempt = _Attempt(flow, options, edges, ports, registers, ii)
        if attempt.run():
            attempt.assign_products()
            attempt.assign_shared_units()
            attempt.sink_loads()
            return ii
        ii += 1
    raise UnsupportedError(
        f"no initiation interval up to {options.max_ii} cycles works",
        where=flow.kernel.where,
        hint="raise max_ii, or split the computation with .contiguous()",
    )


def _needed_at(node: PlanNode) -> int:
    """Stage in which a node takes its operands."""
    return node.stage if node.kind in ("op", "lane", "laneindex") else node.issue


class _Attempt:
    def __init__(
        self,
        flow: Dataflow,
        options: LowerOptions,
        edges: list[Edge],
        ports: ReadPorts,
        registers: PortRegisters,
        ii: int,
    ) -> None:
        self.flow = flow
        self.options = options
        self.edges = edges
        self.ports = ports
        self.registers = registers
        self.ii = ii
        # A short stage has no time for much logic behind the way out of a block RAM.
        self.memory_level = 1 if options.timing.stage_levels <= SHORT_STAGE else 0
        self.bounds = [0] * len(flow.nodes)
        self.live = [flow.nodes[n] for leaf in flow.leaves for n in leaf.nodes]
        self.recurrent = recurrent_nodes(flow.nodes)
        self.circular = recurrent_nodes(flow.nodes, ("op", "unit"))
        self._place()
        self.limit = 64 + 2 * ii + max((n.issue for n in self.live), default=0)

    def run(self) -> bool:
        """Raise lower bounds until nothing is violated, or until a node would go beyond the limit."""
        while True:
            if max((n.issue for n in self.live), default=0) > self.limit:
                return False
            if not self._violations() and not self._port_conflicts():
                return True
            self._place()

    def _place(self) -> None:
        budget = self.options.timing.stage_levels
        nodes = self.flow.nodes
        for node in self.live:
            stage, level = self.bounds[node.number], 0
            for number in node.operands:
                source = nodes[number]
                if source.kind in ("const", "variable"):
                    continue
                ready = (source.stage, source.level)
                if source.kind == "unit" and number in self.circular and node.number not in self.circular:
                    # Only in the recurrence the logic behind its last register counts as none.
                    ready = (source.stage, budget)
                if node.number in self.recurrent and number not in self.recurrent and source.level:
                    # What enters a recurrence comes from a register: its stage has no time to share.
                    ready = (source.stage + 1, 0)
                stage, level = max((stage, level), ready)
            self._place_one(node, stage, level, budget)

    def _place_one(self, node: PlanNode, stage: int, level: int, budget: int) -> None:
        match node.kind:
            case "const" | "variable":
                node.issue, node.stage, node.level = 0, 0, 0
            case "first" | "last" | "counter":
                node.issue, node.stage, node.level = 0, 0, 0
            case "address" | "remainder":
                node.issue, node.stage, node.level = 1, 1, 0
            case "op":
                levels = min(node.levels, budget)
                if node.number in self.recurrent:
                    budget = max(budget, -(-RECURRENCE_LEVELS // self.ii))
                if level and level + levels > budget:
                    stage, level = stage + 1, 0
                node.issue, node.stage, node.level = stage, stage, level + levels
            case "laneindex":
                node.issue, node.stage, node.level = stage, stage, level + 2
            case "lane":
                node.issue, node.stage = stage, stage
                node.level = level + (2 if len(node.operands) > 1 else 0)
            case "unit" | "product" | "shared":
                late = level > self._free_level(node) or self._comes_from_logic(node, stage)
                node.issue = stage + (1 if late else 0)
                node.stage = node.issue + node.latency
                # A unit has logic behind its last register; in a recurrence a register there would cost a turn.
                last = node.kind != "product" and node.number not in self.circular
                node.level = budget if last or not node.latency else 0
            case "load":
                node.issue = stage + (1 if level else 0)
                extra = extra_latency(self.flow.memories.layouts[node.buffer])
                node.stage = (
                    node.issue + self.options.timing.read_latency + self.registers.delay(node) + extra
                )
                # Behind that register is the choice of a block.
                node.level = budget if extra else self.memory_level
            case "reuse":
                node.issue, node.stage, node.level = stage, stage, 0
            case "store":
                node.issue = stage + (1 if level else 0)
                node.stage, node.level = node.issue, 0
            case "regread":
                node.issue = stage + (1 if level else 0)
                node.stage, node.level = node.issue, 2 if node.index is not None else 0
            case "regwrite":
                node.issue, node.stage, node.level = stage, stage, level

    def _free_level(self, node: PlanNode) -> int:
        """Level of an operand that needs no register more: a memory leads straight to those of a multiplier."""
        return self.memory_level if node.kind == "product" else 0

    def _comes_from_logic(self, product: PlanNode, stage: int) -> bool:
        """Whether a far multiplier would wait for logic, in front of the choice between the kernels that share it."""
        if product.kind != "product" or not self.options.spread:
            return False
        factors = (self.flow.nodes[n] for n in product.operands)
        return any(n.level and n.stage == stage and n.kind not in ("load", "lane") for n in factors)

    def _latest(self, load: PlanNode, user: PlanNode) -> int:
        """Last stage in which a user can take a word."""
        if user.kind == "reuse":
            return user.stage + user.value * self.ii - 1
        return _needed_at(user) - (1 if load.level > self._free_level(user) else 0)

    def _violations(self) -> bool:
        found = False
        nodes = self.flow.nodes
        for edge in self.edges:
            before, after = nodes[edge.before], nodes[edge.after]
            if "dead" in (before.kind, after.kind):
                continue
            earliest = before.issue + edge.gap - edge.distance * self.ii
            if after.issue < earliest:
                self.bounds[edge.after] = max(self.bounds[edge.after], earliest)
                found = True
        return found

    def _port_conflicts(self) -> bool:
        """Assign ports; a node that finds none in its slot moves one cycle later."""
        moved = False
        for kind in ("load", "store"):
            by_buffer: dict[int, list[PlanNode]] = {}
            for node in self.live:
                if node.kind == kind:
                    by_buffer.setdefault(node.buffer, []).append(node)
            for buffer, accesses in by_buffer.items():
                limit = self.ports.of(buffer) if kind == "load" else 1
                moved |= self._assign(accesses, limit)
        return moved

    def assign_products(self) -> None:
        """Give every product a multiplier; products that never start in the same cycle have the same."""
        found = [n for n in self.live if n.kind == "product"]
        if self.ii == 1 and len({n.leaf for n in found}) == 1:
            # Each has its own: those of an output are neighbours, so that those of all kernels can be placed in a row.
            for number, node in enumerate(sorted(found, key=lambda n: n.number)):
                node.port = number
            return
        assert not self._assign(found, len(found)), "there are as many multipliers as products"

    def assign_shared_units(self) -> None:
        """Give every shared unit a slot; those of one name that never start in the same cycle have the same."""
        by_unit: dict[str, list[PlanNode]] = {}
        for node in self.live:
            if node.kind == "shared" and node.unit is not None:
                # A unit that is not free again in the next cycle is not for turns.
                key = node.unit.name if node.unit.ii == 1 else f"{node.unit.name} {node.number}"
                by_unit.setdefault(key, []).append(node)
        first = 0
        for key in sorted(by_unit):
            assert not self._assign(by_unit[key], len(by_unit[key])), "there are as many slots as users"
            for node in by_unit[key]:
                node.port += first
            first = 1 + max(n.port for n in by_unit[key])

    def sink_loads(self) -> None:
        """Read late what is used late, so that an address waits in registers and not a word of many lanes.

        Loads stay where a store or another user of their port fixes their place.
        """
        fixed = {n for edge in self.edges for n in (edge.before, edge.after)}
        loads = [n for n in self.live if n.kind in ("load", "reuse")]
        sharing = Counter((n.buffer, n.port) for n in loads if n.kind == "load")
        users: dict[int, list[PlanNode]] = {}
        at = {node.number: place for place, node in enumerate(self.live)}
        for node in self.live:
            for number in node.operands:
                users.setdefault(number, []).append(node)
        # A load may be the address of an earlier one, or the end of its delay line.
        for load in sorted(loads, key=lambda n: (-n.issue, -at[n.number])):
            moving = self._moving_together(load, users)
            if any(n.number in fixed or (n.kind == "load" and sharing[n.buffer, n.port] > 1) for n in moving):
                continue
            numbers = {n.number for n in moving}
            slack = min(
                (
                    self._latest(node, user) - node.stage
                    for node in moving
                    for user in users.get(node.number, ())
                    if user.number not in numbers
                ),
                default=0,
            )
            if slack > 0:
                for node in moving:
                    node.issue, node.stage = node.issue + slack, node.stage + slack

    def _moving_together(self, load: PlanNode, users: dict[int, list[PlanNode]]) -> list[PlanNode]:
        """A load with its lanes, and the other words of these lanes with all of theirs."""
        moving = {load.number: load}
        pending = [load]
        while pending:
            node = pending.pop()
            near = (
                [self.flow.nodes[n] for n in node.operands]
                if node.kind == "lane"
                else [n for n in users.get(node.number, ()) if n.kind == "lane"]
            )
            for other in near:
                if other.kind in ("load", "reuse", "lane") and other.number not in moving:
                    moving[other.number] = other
                    pending.append(other)
        return list(moving.values())

    def _assign(self, accesses: list[PlanNode], limit: int) -> bool:
        ports: list[list[PlanNode]] = []
        for node in sorted(accesses, key=lambda n: (n.issue, n.number)):
            for number, users in enumerate(ports):
                if all(self._compatible(node, user) for user in users):
                    node.port = number
                    users.append(node)
                    break
            else:
                if len(ports) >= limit:
                    self.bounds[node.number] = node.issue + 1
                    return True
                node.port = len(ports)
                ports.append([node])
        return False

    def _compatible(self, a: PlanNode, b: PlanNode) -> bool:
        if a.issue % self.ii != b.issue % self.ii:
            return True
        return a.leaf != b.leaf and a.issue == b.issue
