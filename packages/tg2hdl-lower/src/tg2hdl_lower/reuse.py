"""Sliding windows: what an earlier step has read comes from a delay line instead of another port of the memory.

Neighbours along the innermost loop are a register apart, neighbours along an outer one a line buffer.  A window that is
padded starts outside of the data; one that starts inside is read as a whole, unless its loops begin early (`windows`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tg2hdl_ir.analysis.affine import Affine, AffineAnalysis
from tg2hdl_ir.analysis.constraints import Constraints
from tg2hdl_ir.analysis.ranges import RangeAnalysis
from tg2hdl_ir.nodes import IRCounter, LoopIR
from tg2hdl_lower.dataflow import Dataflow
from tg2hdl_lower.plan import PlanNode

__all__ = ["FARTHEST", "periods", "reuse_loads"]

FARTHEST = 8
"""Iterations from one reading of a word to the next, as in a dilated window."""

_Start = Mapping[IRCounter, int]
"""First iteration of each loop in which a value has been read before; 0 where nothing is said."""


def reuse_loads(flow: Dataflow) -> None:
    """Turn loads into ``reuse`` nodes of loads of the same word in an earlier step, in place."""
    stored = {n.buffer for n in flow.nodes if n.kind == "store"}
    for leaf in flow.leaves:
        nodes = (flow.nodes[n] for n in leaf.nodes)
        work = _LeafReuse(flow, leaf.path, [n for n in nodes if n.kind == "load" and n.buffer not in stored])
        if work.run():
            flow.leaves[leaf.number] = replace(leaf, nodes=_ordered(flow, leaf.nodes))


class _LeafReuse:
    def __init__(self, flow: Dataflow, path: tuple[LoopIR, ...], loads: list[PlanNode]) -> None:
        self.flow = flow
        self.periods = periods(path)
        self.loads = loads
        self.by_word = {(n.buffer, self._form(n)): n for n in loads}
        self.starts: dict[int, _Start] = {}
        self.found: dict[int, tuple[PlanNode, int]] = {}

    def run(self) -> bool:
        """Change the nodes; returns whether there was anything to change."""
        for load in self.loads:
            self._visit(load)
        for number, (ahead, steps) in self.found.items():
            load = self.flow.nodes[number]
            load.kind, load.operands, load.value = "reuse", (ahead.number,), steps
        return bool(self.found)

    def _visit(self, load: PlanNode) -> _Start:
        """Decide where the word of a load comes from; returns where that is right."""
        if load.number not in self.starts:
            self.starts[load.number] = {}
            for counter, steps in self.periods.items():
                ahead, iterations = self._ahead(load, counter)
                steps *= iterations
                if ahead is None or steps > self.flow.memories.layouts[load.buffer].words:
                    continue
                start = dict(self._visit(ahead))
                start[counter] = start.get(counter, 0) + iterations
                if self._only_after(load, start):
                    self.starts[load.number] = start
                    self.found[load.number] = ahead, steps
                    break
        return self.starts[load.number]

    def _ahead(self, load: PlanNode, counter: IRCounter) -> tuple[PlanNode | None, int]:
        """Load that reads what `load` reads some iterations later, and how many."""
        form = self._form(load)
        step = 0 if form is None else form.coefficient(counter)
        if form is not None and step > 0:
            for iterations in range(1, FARTHEST + 1):
                ahead = self.by_word.get((load.buffer, form.offset(step * iterations)))
                if ahead is not None:
                    return ahead, iterations
        return None, 0

    def _form(self, load: PlanNode) -> Affine | None:
        address = self.flow.nodes[load.operands[0]]
        return None if address.digits else address.form

    def _only_after(self, load: PlanNode, start: _Start) -> bool:
        """Whether all uses of a load are gated off before `start`."""
        ranges = RangeAnalysis()
        affine = AffineAnalysis(ranges)
        for gate in self.flow.gates[load.number]:
            needed = Constraints(gate, ranges, affine)
            if any(needed.interval(Affine(0, ((c, 1),)))[0] < first for c, first in start.items()):
                return False
        return True


def periods(path: tuple[LoopIR, ...]) -> dict[IRCounter, int]:
    """Steps from one iteration to the next, innermost loop first, of loops around nothing but this leaf."""
    found: dict[IRCounter, int] = {}
    steps = 1
    for loop in reversed(path):
        if loop.counter is None or len(loop.loops) > 1:
            break
        found[loop.counter] = steps
        if not isinstance(loop.bound, int):
            break
        steps *= loop.bound
    return found


def _ordered(flow: Dataflow, numbers: tuple[int, ...]) -> tuple[int, ...]:
    """Nodes in topological order, without addresses that nothing reads any more."""
    own = set(numbers)
    order: dict[int, None] = {}

    def add(number: int) -> None:
        if number in order or number not in own:
            return
        for operand in flow.nodes[number].operands:
            add(operand)
        order[number] = None

    read = {n for k in numbers for n in flow.nodes[k].operands}
    for number in numbers:
        if flow.nodes[number].kind == "address" and number not in read:
            flow.nodes[number].kind = "dead"
        else:
            add(number)
    return tuple(order)
