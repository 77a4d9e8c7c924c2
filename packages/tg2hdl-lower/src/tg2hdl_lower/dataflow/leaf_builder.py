"""From a flattened kernel to nodes: units bound, widths narrowed, memory words shared by lanes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tg2hdl_ir import (
    DType,
    Interval,
    IRBufLoad,
    IRBufStore,
    IRConst,
    IRCounter,
    IROp,
    IRRegLoad,
    IRRegStore,
    IRValue,
    IRVariable,
    KernelIR,
    RangeAnalysis,
    is_const,
    operands,
)
from tg2hdl_ir.analysis.forwarding import forwarded_steps
from tg2hdl_ir.passes.division import ConstantDivision
from tg2hdl_ir.passes.leaves import leaf_paths
from tg2hdl_lower.dataflow.binding import Binder
from tg2hdl_lower.dataflow.dataflow import Dataflow
from tg2hdl_lower.dataflow.leaf_nodes import LeafNodes
from tg2hdl_lower.dataflow.word_address import WordAddresses
from tg2hdl_lower.memory.memories import Memories, element_ranges
from tg2hdl_lower.plan.accesses import FixedLane, Load, PickedLane, Store, StoredLane, WordLane
from tg2hdl_lower.plan.graph import LeafPlan
from tg2hdl_lower.plan.node import Node
from tg2hdl_lower.plan.operations import Op, UnitOp
from tg2hdl_lower.plan.registers import Clear, RegisterRead, RegisterWrite
from tg2hdl_lower.plan.values import Constant, FirstFlag, LastFlag, Variable

__all__ = ["build_dataflow"]


def build_dataflow(
    kernel: KernelIR,
    memories: Memories,
    registers: dict[int, Interval],
    binder: Binder,
) -> Dataflow:
    """Build the nodes of all leaves.

    Parameters
    ----------
    kernel : KernelIR
        Flattened, registers forwarded.
    registers : mapping of int to interval
        Known ranges of registers.
    """
    nodes: dict[int, Node] = {}
    gates: dict[int, set[IRValue | None]] = {}
    leaves: list[LeafPlan] = []
    buffers = element_ranges(memories.storage)
    first = 0
    for number, path in enumerate(leaf_paths(kernel.loop_tree)):
        leaf = LeafNodes(number, path, memories.layouts, RangeAnalysis(registers, buffers), first)
        builder = _LeafBuilder(kernel, leaf, memories.storage, binder)
        builder.run()
        first = leaf.following
        nodes |= leaf.nodes
        gates |= builder.gates
        leaves.append(LeafPlan(number, leaf.path, tuple(leaf.nodes)))
    return Dataflow(kernel, memories, nodes, tuple(leaves), gates)


class _LeafBuilder:
    """Builds the nodes of one leaf."""

    def __init__(
        self, kernel: KernelIR, leaf: LeafNodes, storage: Mapping[int, DType], binder: Binder
    ) -> None:
        self.kernel = kernel
        self.leaf = leaf
        self.storage = storage
        self.binder = binder
        self.division = ConstantDivision(leaf.folder, leaf.ranges)
        self.addresses = WordAddresses(leaf, self.value)
        self.memo: dict[IRValue, int] = {}
        self.stores: dict[tuple[int, int, object], Store] = {}
        self.gates: dict[int, set[IRValue | None]] = {}

    def run(self) -> None:
        """Add the nodes of all statements."""
        for statement in self.leaf.statements:
            match statement:
                case IRBufLoad() | IRRegLoad():
                    if statement in self.leaf.needed:
                        self.value(statement)
                case IRRegStore():
                    self._register_write(statement)
                case IRBufStore():
                    self._store(statement)

    def value(self, value: IRValue) -> int:
        """Node number of a value."""
        stack = [value]
        while stack:
            node = stack[-1]
            if node in self.memo:
                stack.pop()
                continue
            special = self._special(node)
            if special is not None:
                self.memo[node] = special
                stack.pop()
                continue
            pending = [s for s in self._inputs(node) if s not in self.memo]
            if pending:
                stack.extend(reversed(pending))
                continue
            self.memo[node] = self._make(node)
            stack.pop()
        return self.memo[value]

    def _inputs(self, node: IRValue) -> tuple[IRValue, ...]:
        if not isinstance(node, IRBufLoad):
            return operands(node)
        if node.alt is not None and is_const(node.gate, 0):
            return (node.alt,)
        extra = () if node.alt is None or node.gate is None else (node.gate, node.alt)
        needed = self.addresses.needs_element(node.buf_idx, node.addr, node.gate)
        return (node.addr, *extra) if needed else extra

    def _special(self, node: IRValue) -> int | None:
        """Constants, variables, flags and affine values."""
        leaf = self.leaf
        if isinstance(node, IRConst):
            bits = node.dtype.const_to_bits(node.value) if node.dtype.is_float else int(node.value)
            return leaf.constant(bits, node.dtype)
        if isinstance(node, IRVariable):
            return leaf.shared(Variable, node.name, node.dtype, (node.low, node.high), variable=node)
        if isinstance(node, IROp) and node.op == "eq" and isinstance(counter := node.srcs[0], IRCounter):
            other = node.srcs[1]
            if is_const(other, 0):
                return self._flag(FirstFlag, counter)
            if isinstance(counter.bound, int) and is_const(other, counter.bound - 1):
                return self._flag(LastFlag, counter)
        if node.dtype.is_float or node.dtype.is_bool or isinstance(node, IRBufLoad | IRRegLoad):
            return self._run_time_last(node)
        form = leaf.affine.of(node)
        if form is None or not any(isinstance(s, IRCounter) for s, _ in form.terms):
            return self._divided(node)
        return leaf.affine_value(form, node.dtype)

    def _divided(self, node: IRValue) -> int | None:
        """Division by a constant, as a multiplication and a shift."""
        if isinstance(node, IROp) and self.binder.is_chosen(node):
            return None
        expanded = self.division.expand(node)
        return None if expanded is None else self.value(expanded)

    def _run_time_last(self, node: IRValue) -> int | None:
        # counter + 1 == bound, for a bound that is known at run time
        if isinstance(node, IROp) and node.op == "eq":
            form = self.leaf.affine.of(node.srcs[0])
            if form is not None and form.const == 1 and len(form.terms) == 1:
                counter, factor = form.terms[0]
                if isinstance(counter, IRCounter) and factor == 1 and node.srcs[1] is counter.bound:
                    return self._flag(LastFlag, counter)
        return None

    def _flag(self, kind: type[FirstFlag | LastFlag], counter: IRCounter) -> int:
        return self.leaf.shared(kind, counter.axis, DType.BOOL, (0, 1), axis=counter.axis)

    def _make(self, node: IRValue) -> int:
        match node:
            case IRRegLoad():
                index = None if node.index is None else self.memo[node.index]
                interval = self.leaf.ranges.of(node)
                return self.leaf.add(
                    RegisterRead, node.dtype, interval, register=node.reg, index=index
                ).number
            case IRBufLoad() if node.alt is not None and is_const(node.gate, 0):
                return self.memo[node.alt]
            case IRBufLoad():
                return self._load(node)
            case IROp():
                return self._op(node)
        raise AssertionError(node)

    def _op(self, node: IROp) -> int:
        interval = self.leaf.ranges.of(node)
        sources = tuple(self.memo[s] for s in node.srcs)
        if node.op == "cast" and not node.dtype.is_float and not node.srcs[0].dtype.is_float:
            source = self.leaf.nodes[sources[0]]
            if source.interval == interval and not node.dtype.is_bool:
                return sources[0]
        return self._bound(node, sources, interval)

    def _bound(self, node: IROp, sources: tuple[int, ...], interval: Interval) -> int:
        """Node of an op on the hardware that the binder chooses."""
        bound = self.binder.bind(node, [self.leaf.nodes[n] for n in sources])
        # Different values may become the same nodes, such as the gates of lanes that end together.
        key = (node.op, node.dtype, sources)
        fields = {"op": node.op, "sources": sources, **bound.fields}
        return self.leaf.shared(bound.kind, key, node.dtype, interval, **fields)

    def _load(self, node: IRBufLoad) -> int:
        leaf = self.leaf
        in_place = node.buf_idx in leaf.stored
        address = self.addresses.of(node.buf_idx, node.addr, node.gate, loads=not in_place)
        layout, storage = leaf.layouts[node.buf_idx], self.storage[node.buf_idx]
        full = leaf.ranges.of(IRBufLoad(node.buf_idx, node.addr, node.dtype))
        words = tuple(self._word(node, word, full, alone=in_place) for word in address.words)
        for word in words:
            self.gates.setdefault(word, set()).add(node.gate)
        if address.position is not None:
            choices = address.choices or tuple(WordLane(n, 0, n) for n in range(layout.lanes))
            key: object = (words, address.position, choices)
            fields: dict[str, Any] = {
                "words": words,
                "position": address.position,
                "choices": choices,
                "storage": storage,
            }
            result = leaf.shared(PickedLane, key, node.dtype, full, **fields)
        elif layout.lanes == 1:
            result = words[0]
        else:
            key = (words[0], address.lane)
            fields = {"word": words[0], "lane": address.lane, "storage": storage}
            result = leaf.shared(FixedLane, key, node.dtype, full, **fields)
        if node.gate is None or node.alt is None:
            return result
        select = IROp("where", node.dtype, (node.gate, node, node.alt))
        return self._bound(select, (self.memo[node.gate], result, self.memo[node.alt]), full)

    def _word(self, node: IRBufLoad, address: int, full: Interval, *, alone: bool) -> int:
        """Load of a word, which is not shared where a store may come in between."""
        fields = {"buffer": node.buf_idx, "address": address}
        if alone:
            fields["forwarded"] = forwarded_steps(self.kernel, node)
            return self.leaf.add(Load, node.dtype, full, **fields).number
        return self.leaf.shared(Load, (node.buf_idx, address), node.dtype, full, **fields)

    def _register_write(self, statement: IRRegStore) -> None:
        value = self.value(statement.value)
        gate = None if statement.gate is None else self.value(statement.gate)
        index = None if statement.index is None else self.value(statement.index)
        register = self.kernel.register(statement.reg)
        self.leaf.add(
            RegisterWrite,
            register.dtype,
            self.leaf.ranges.of(IRRegLoad(register.dtype, register.idx)),
            register=statement.reg,
            value=value,
            gate=gate,
            index=index,
            clear=self._clear(value) if gate is None and index is None else None,
        )

    def _clear(self, number: int) -> Clear | None:
        """How a value splits that is zero where a flag is set."""
        value = self.leaf.nodes[number]
        if not isinstance(value, Op | UnitOp) or value.op != "where":
            return None
        flag, zero, otherwise = value.sources
        chosen = self.leaf.nodes[zero]
        return Clear(flag, otherwise) if isinstance(chosen, Constant) and chosen.value == 0 else None

    def _store(self, statement: IRBufStore) -> None:
        value = self.value(statement.value)
        gate = None if statement.gate is None else self.value(statement.gate)
        address = self.addresses.of(statement.buf_idx, statement.addr, statement.gate)
        moving = address.moving
        merges = address.affine and (address.position is None or moving is not None)
        lane = address.lane if moving is None else moving.offset
        # Lanes that move together: where one is fixed, all are.
        key = statement.buf_idx, address.node, moving and (moving.places, moving.positions, moving.weights)
        lanes: tuple[StoredLane, ...] = (StoredLane(lane, value, gate),)
        earlier = self.stores.get(key) if merges else None
        fields: dict[str, Any] = {"position": address.position}
        if earlier is not None and all(entry.lane != lane for entry in earlier.lanes):
            # The merged store takes the place of the later one, so that it comes after all of its operands.
            del self.leaf.nodes[earlier.number]
            lanes = (*earlier.lanes, *lanes)
            if moving is not None:
                layout = self.leaf.layouts[statement.buf_idx]
                first = self.addresses.lane_index(address.node, replace(moving, offset=0), layout)
                fields = {"position": first, "places": moving.places}
        fields |= {"buffer": statement.buf_idx, "address": address.node}
        node = self.leaf.add(Store, statement.dtype, (0, 0), lanes=lanes, **fields)
        if merges:
            assert isinstance(node, Store), "made as one"
            self.stores[key] = node
