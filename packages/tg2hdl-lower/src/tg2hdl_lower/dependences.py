"""What must not overtake what: constraints between the uses of a register, and between those of a memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tg2hdl_ir.analysis.axes import is_injective
from tg2hdl_ir.analysis.ranges import RangeAnalysis
from tg2hdl_ir.nodes import IRCounter
from tg2hdl_lower.dataflow import Dataflow
from tg2hdl_lower.plan import PlanNode, PortRegisters

__all__ = ["Edge", "loop_edges", "memory_edges", "recurrent_nodes", "reuse_period"]


@dataclass(frozen=True)
class Edge:
    """``stage(after) + distance * II >= stage(before) + gap`` on the issue stages."""

    before: int
    after: int
    distance: int
    gap: int


def loop_edges(flow: Dataflow, turning: Mapping[int, int]) -> list[Edge]:
    """Between the uses of a register."""
    edges: list[Edge] = []
    live = [n for n in flow.nodes if n.kind in ("regread", "regwrite")]
    for write in (n for n in live if n.kind == "regwrite"):
        for other in (n for n in live if n.register == write.register):
            if write.register in turning:
                if other.kind == "regread":
                    edges.append(Edge(write.number, other.number, turning[write.register], 0))
                continue
            distance = _reuse_distance(flow, write, other)
            if other.kind == "regread":
                edges.append(Edge(write.number, other.number, distance, 1))
                same_step = other.leaf == write.leaf
                edges.append(Edge(other.number, write.number, 0 if same_step else distance, 0))
            elif other.leaf != write.leaf:
                edges.append(Edge(write.number, other.number, distance, 1))
    return edges


def _reuse_distance(flow: Dataflow, write: PlanNode, other: PlanNode) -> int:
    """Steps between two uses of the same element: at least 1, more where the element is picked by inner counters."""
    if write.index is None or other.index is None:
        return 1
    return min(reuse_period(flow, write), reuse_period(flow, other))


def reuse_period(flow: Dataflow, node: PlanNode) -> int:
    """Steps from one use of an element of a register to the next: 1 when nothing more is known.

    The product of the innermost bounds that tell the elements apart.
    """
    assert node.index is not None, "an access to an array of registers"
    index = flow.nodes[node.index]
    form = index.form
    if form is None or index.digits or not is_injective(form, RangeAnalysis()):
        return 1
    chosen = {s for s, _ in form.terms if isinstance(s, IRCounter)}
    period = 1
    for loop in reversed(flow.leaves[node.leaf].path):
        if loop.counter not in chosen or not isinstance(loop.bound, int):
            break
        period *= loop.bound
        chosen.discard(loop.counter)
    return period if not chosen else 1


def memory_edges(flow: Dataflow, registers: PortRegisters) -> list[Edge]:
    """Between the accesses to a buffer that is written."""
    edges: list[Edge] = []

    def add(before: PlanNode, after: PlanNode, distance: int) -> None:
        gap = 1 + registers.delay(before) - registers.delay(after)
        edges.append(Edge(before.number, after.number, distance, gap))

    accesses = [n for n in flow.nodes if n.kind in ("load", "store")]
    for store in (n for n in accesses if n.kind == "store"):
        for other in (n for n in accesses if n.buffer == store.buffer and n is not store):
            same_step = other.leaf == store.leaf
            if other.kind == "load":
                if same_step and other.number > store.number:
                    add(store, other, 0)
                elif same_step:
                    add(other, store, 0)
                if not _never_again(flow, store, other):
                    add(store, other, 1)
                    add(other, store, 1)
            elif other.number > store.number:
                add(store, other, 0 if same_step else 1)
                add(other, store, 1)
    return edges


def _never_again(flow: Dataflow, store: PlanNode, load: PlanNode) -> bool:
    """Whether no later step reads what this step writes: same leaf, same address, another one in each step."""
    assert store.index is not None, "a store has an address"
    written, read = flow.nodes[store.index], flow.nodes[load.operands[0]]
    if store.leaf != load.leaf or written.form is None or written.form != read.form or written.digits:
        return False
    if not is_injective(written.form, RangeAnalysis()):
        return False
    used = {s for s, _ in written.form.terms}
    return all(loop.counter in used or loop.bound == 1 for loop in flow.leaves[store.leaf].path)


def recurrent_nodes(nodes: Sequence[PlanNode], kinds: tuple[str, ...] = ("op",)) -> set[int]:
    """Nodes between the reading and the writing of a register in one leaf, over nodes of these kinds."""
    forward: set[int] = set()
    for node in nodes:
        if node.kind == "regread" or (node.kind in kinds and not forward.isdisjoint(node.operands)):
            forward.add(node.number)
    wanted = {n for node in nodes if node.kind == "regwrite" for n in node.operands}
    found: set[int] = set()
    for node in reversed(nodes):
        if node.number in wanted and node.number in forward:
            found.add(node.number)
            if node.kind in kinds:
                wanted.update(node.operands)
    return found
