"""Sliding windows: words already fetched are replayed from registers and line buffers.

Neighbours along the innermost loop are a register apart, neighbours along an outer one a line buffer.  A padded window
starts outside of the data; one that starts inside is read as a whole, unless its loops have warm-up iterations
(`warm_up`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from tg2hdl_ir import Affine, AffineAnalysis, IRCounter, LoopIR, RangeAnalysis
from tg2hdl_ir.analysis.constraints import Constraints
from tg2hdl_lower.dataflow.dataflow import Dataflow
from tg2hdl_lower.plan.accesses import Load, Replay, Store
from tg2hdl_lower.plan.node import Node
from tg2hdl_lower.plan.values import Address, linear_form

__all__ = ["FARTHEST", "periods", "replay_loads"]

FARTHEST = 8
"""Iterations from one reading of a word to the next, as in a dilated window."""

_Start = Mapping[IRCounter, int]
"""First iteration of each loop in which a value has been read before; 0 where nothing is said."""


def replay_loads(flow: Dataflow) -> Dataflow:
    """Replace loads of words that an earlier step has fetched by replays."""
    stored = {store.buffer for store in flow.all(Store)}
    changed: dict[int, Node] = {}
    for leaf in flow.leaves:
        nodes = (flow.nodes[n] for n in leaf.nodes)
        loads = [n for n in nodes if isinstance(n, Load) and n.buffer not in stored]
        changed |= _LeafReplays(flow, leaf.path, loads).found()
    return _ordered(flow.with_nodes(changed), changed) if changed else flow


class _LeafReplays:
    def __init__(self, flow: Dataflow, path: tuple[LoopIR, ...], loads: list[Load]) -> None:
        self.flow = flow
        self.periods = periods(path)
        self.loads = loads
        self.by_word = {(n.buffer, self._form(n)): n for n in loads}
        self.starts: dict[int, _Start] = {}
        self.replays: dict[int, Replay] = {}

    def found(self) -> dict[int, Replay]:
        """Replays by the number of the load that each replaces."""
        for load in self.loads:
            self._visit(load)
        return self.replays

    def _visit(self, load: Load) -> _Start:
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
                    self.replays[load.number] = Replay(
                        load.number, load.leaf, load.dtype, load.interval, ahead.number, steps
                    )
                    break
        return self.starts[load.number]

    def _ahead(self, load: Load, counter: IRCounter) -> tuple[Load | None, int]:
        """Load that reads the words of `load` some iterations later, and how many iterations."""
        form = self._form(load)
        step = 0 if form is None else form.coefficient(counter)
        if form is not None and step > 0:
            for iterations in range(1, FARTHEST + 1):
                ahead = self.by_word.get((load.buffer, form.offset(step * iterations)))
                if ahead is not None:
                    return ahead, iterations
        return None, 0

    def _form(self, load: Load) -> Affine | None:
        return linear_form(self.flow.nodes[load.address])

    def _only_after(self, load: Load, start: _Start) -> bool:
        """Whether all uses of a load are gated off before `start`."""
        ranges = RangeAnalysis()
        affine = AffineAnalysis(ranges)
        for gate in self.flow.gates[load.number]:
            needed = Constraints(gate, ranges, affine)
            if any(needed.interval(Affine(0, ((c, 1),)))[0] < first for c, first in start.items()):
                return False
        return True


def periods(path: tuple[LoopIR, ...]) -> dict[IRCounter, int]:
    """Steps per iteration, innermost loop first, of the loops that contain only this leaf and are not over rows."""
    found: dict[IRCounter, int] = {}
    steps = 1
    for loop in reversed(path):
        if loop.counter is None or len(loop.loops) > 1 or loop.axis_type == "rows":
            break
        found[loop.counter] = steps
        if not isinstance(loop.bound, int):
            break
        steps *= loop.bound
    return found


def _ordered(flow: Dataflow, replays: Collection[int]) -> Dataflow:
    """Leaves in topological order, without addresses that nothing reads any more."""
    read = {n for node in flow.live() for n in node.operands}
    with_replays = {flow.nodes[n].leaf for n in replays}
    unread = {n.number for n in flow.all(Address) if n.number not in read and n.leaf in with_replays}
    nodes = {number: node for number, node in flow.nodes.items() if number not in unread}
    leaves = tuple(
        replace(leaf, nodes=_topological(nodes, leaf.nodes)) if leaf.number in with_replays else leaf
        for leaf in flow.leaves
    )
    return replace(flow, nodes=nodes, leaves=leaves)


def _topological(nodes: Mapping[int, Node], numbers: Collection[int]) -> tuple[int, ...]:
    own = set(numbers)
    order: dict[int, None] = {}

    def add(number: int) -> None:
        if number in order or number not in own:
            return
        for operand in nodes[number].operands:
            add(operand)
        order[number] = None

    for number in numbers:
        if number in nodes:
            add(number)
    return tuple(order)
