"""Dependence constraints between the uses of a register, and between the accesses to a memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tg2hdl_ir import IRCounter, RangeAnalysis
from tg2hdl_ir.analysis.axes import is_injective
from tg2hdl_lower.dataflow.dataflow import Dataflow
from tg2hdl_lower.plan.accesses import Load, Store
from tg2hdl_lower.plan.hardware_plan import PortRegisters
from tg2hdl_lower.plan.node import Node
from tg2hdl_lower.plan.operations import Op, UnitOp
from tg2hdl_lower.plan.registers import RegisterRead, RegisterWrite
from tg2hdl_lower.plan.values import linear_form

__all__ = [
    "LOGIC",
    "LOGIC_AND_UNITS",
    "Edge",
    "loop_edges",
    "memory_edges",
    "recurrent_nodes",
    "reuse_period",
]

LOGIC: tuple[type[Node], ...] = (Op,)
LOGIC_AND_UNITS: tuple[type[Node], ...] = (Op, UnitOp)


@dataclass(frozen=True)
class Edge:
    """``stage(after) + distance * II >= stage(before) + gap`` on the issue stages."""

    before: int
    after: int
    distance: int
    gap: int


def loop_edges(flow: Dataflow, lines: Mapping[int, int]) -> list[Edge]:
    """Between the uses of a register; `lines` are those that are delay lines, with their length in steps.

    Parameters
    ----------
    flow : Dataflow
    lines : mapping of int to int
        Length in steps, by the number of the register.
    """
    edges: list[Edge] = []
    uses = flow.all(RegisterRead, RegisterWrite)
    for write in flow.all(RegisterWrite):
        for other in (n for n in uses if n.register == write.register):
            reads = isinstance(other, RegisterRead)
            if write.register in lines:
                if reads:
                    edges.append(Edge(write.number, other.number, lines[write.register], 0))
                continue
            distance = _reuse_distance(flow, write, other)
            same_step = other.leaf == write.leaf
            # Of an array: values of a single register are forwarded within a step.
            follows = same_step and write.index is not None and other.number > write.number
            if follows:
                edges.append(Edge(write.number, other.number, 0, 1))
                edges.append(Edge(other.number, write.number, distance, 0 if reads else 1))
            elif reads:
                edges.append(Edge(write.number, other.number, distance, 1))
                edges.append(Edge(other.number, write.number, 0 if same_step else distance, 0))
            elif not same_step:
                edges.append(Edge(write.number, other.number, distance, 1))
    return edges


def _reuse_distance(flow: Dataflow, write: RegisterWrite, other: RegisterRead | RegisterWrite) -> int:
    """Steps between two uses of the same element: at least 1, more where the element is picked by inner counters."""
    if write.index is None or other.index is None:
        return 1
    return min(reuse_period(flow, write), reuse_period(flow, other))


def reuse_period(flow: Dataflow, use: RegisterRead | RegisterWrite) -> int:
    """Steps from one use of an element of a register to the next: 1 when nothing more is known.

    The product of the innermost bounds that tell the elements apart.

    Parameters
    ----------
    flow : Dataflow
    use : RegisterRead or RegisterWrite
        Access to an array of registers.
    """
    assert use.index is not None, "an access to an array of registers"
    form = linear_form(flow.nodes[use.index])
    if form is None or not is_injective(form, RangeAnalysis()):
        return 1
    chosen = {s for s, _ in form.terms if isinstance(s, IRCounter)}
    period = 1
    for loop in reversed(flow.leaves[use.leaf].path):
        if loop.counter not in chosen or not isinstance(loop.bound, int):
            break
        period *= loop.bound
        chosen.discard(loop.counter)
    return period if not chosen else 1


def memory_edges(flow: Dataflow, registers: PortRegisters) -> list[Edge]:
    """Between the accesses to a buffer that is written.

    Parameters
    ----------
    flow : Dataflow
    registers : PortRegisters
        Which ports have a register, by which an access is later.
    """
    edges: list[Edge] = []

    def add(before: Load | Store, after: Load | Store, distance: int) -> None:
        gap = 1 + registers.delay(before) - registers.delay(after)
        edges.append(Edge(before.number, after.number, distance, gap))

    accesses = flow.all(Load, Store)
    for store in flow.all(Store):
        for other in (n for n in accesses if n.buffer == store.buffer and n is not store):
            same_step = other.leaf == store.leaf
            if isinstance(other, Load):
                if same_step and other.number > store.number:
                    add(store, other, 0)
                elif same_step:
                    add(other, store, 0)
                if not _never_again(flow, store, other):
                    add(store, other, 1 + other.forwarded)
                    add(other, store, 1)
            elif other.number > store.number:
                add(store, other, 0 if same_step else 1)
                add(other, store, 1)
    return edges


def _never_again(flow: Dataflow, store: Store, load: Load) -> bool:
    """Whether no later step reads the element that it writes: same leaf, same address, another one in each step."""
    written, read = linear_form(flow.nodes[store.address]), linear_form(flow.nodes[load.address])
    if store.leaf != load.leaf or written is None or written != read:
        return False
    if not is_injective(written, RangeAnalysis()):
        return False
    used = {s for s, _ in written.terms}
    return all(loop.counter in used or loop.bound == 1 for loop in flow.leaves[store.leaf].path)


def recurrent_nodes(nodes: Iterable[Node], kinds: tuple[type[Node], ...] = LOGIC) -> set[int]:
    """Nodes between the reading and the writing of a register in one leaf, over nodes of these classes.

    Parameters
    ----------
    nodes : iterable of Node
        Operands first.
    kinds : tuple of type of Node, optional
        Classes of nodes that a path may pass through.
    """
    ordered = list(nodes)
    forward: set[int] = set()
    for node in ordered:
        if isinstance(node, RegisterRead) or (
            isinstance(node, kinds) and not forward.isdisjoint(node.operands)
        ):
            forward.add(node.number)
    wanted = {n for node in ordered if isinstance(node, RegisterWrite) for n in node.operands}
    found: set[int] = set()
    for node in reversed(ordered):
        if node.number in wanted and node.number in forward:
            found.add(node.number)
            if isinstance(node, kinds):
                wanted.update(node.operands)
    return found
