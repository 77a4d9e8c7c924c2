"""From a flattened kernel to unscheduled plan nodes: units bound, widths narrowed, memory words shared by lanes."""

from __future__ import annotations

from dataclasses import dataclass, field

from tg2hdl_ir.analysis.affine import Affine, AffineAnalysis
from tg2hdl_ir.analysis.ranges import Interval, RangeAnalysis
from tg2hdl_ir.dtype import DType
from tg2hdl_ir.nodes import (
    IRBufLoad,
    IRBufStore,
    IRConst,
    IRCounter,
    IROp,
    IRRegLoad,
    IRRegStore,
    IRStatement,
    IRValue,
    IRVariable,
    KernelIR,
    LoopIR,
    is_const,
    operands,
)
from tg2hdl_ir.passes.division import ConstantDivision
from tg2hdl_ir.passes.fold import Folder
from tg2hdl_ir.passes.leaves import leaf_paths
from tg2hdl_lower.binding import Binder
from tg2hdl_lower.memories import Memories, element_ranges
from tg2hdl_lower.plan import LeafPlan, PlanNode
from tg2hdl_lower.word_address import WordAddresses

__all__ = ["Dataflow", "LeafBuilder", "build_dataflow"]


@dataclass
class Dataflow:
    """Nodes in topological order, and the leaves that own them."""

    kernel: KernelIR
    memories: Memories
    nodes: list[PlanNode] = field(default_factory=list)
    leaves: list[LeafPlan] = field(default_factory=list)
    gates: dict[int, set[IRValue | None]] = field(default_factory=dict)
    """When each load is of use; None is always."""


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
    flow = Dataflow(kernel, memories)
    buffers = element_ranges(memories.storage)
    for path in leaf_paths(kernel.loop_tree):
        builder = LeafBuilder(flow, path, RangeAnalysis(registers, buffers), binder)
        builder.run()
    return flow


class LeafBuilder:
    """Builds the nodes of one leaf."""

    def __init__(
        self, flow: Dataflow, path: tuple[LoopIR, ...], ranges: RangeAnalysis, binder: Binder
    ) -> None:
        self.flow = flow
        self.number = len(flow.leaves)
        self.path = path[1:]
        self.statements = tuple(path[-1].statements())
        self.ranges = ranges
        self.affine = AffineAnalysis(self.ranges)
        self.folder = Folder()
        self.division = ConstantDivision(self.folder, ranges)
        self.binder = binder
        self.memo: dict[IRValue, int] = {}
        self.cached: dict[tuple[object, ...], int] = {}
        self.numbers: list[int] = []
        self.needed = _needed(self.statements)
        self.stored = {s.buf_idx for s in self.statements if isinstance(s, IRBufStore)}
        self.stores: dict[tuple[int, int], PlanNode] = {}
        self.addresses = WordAddresses(self)

    def run(self) -> None:
        """Add the nodes and the leaf to the dataflow."""
        for statement in self.statements:
            match statement:
                case IRBufLoad() | IRRegLoad():
                    if statement in self.needed:
                        self.value(statement)
                case IRRegStore():
                    self._regwrite(statement)
                case IRBufStore():
                    self._store(statement)
        self.flow.leaves.append(LeafPlan(self.number, self.path, tuple(self.numbers)))

    def _add(self, kind: str, dtype: DType, interval: Interval, **fields: object) -> PlanNode:
        node = PlanNode(len(self.flow.nodes), kind, self.number, dtype, interval, **fields)  # type: ignore[arg-type]
        self.flow.nodes.append(node)
        self.numbers.append(node.number)
        return node

    def shared(
        self, key: tuple[object, ...], kind: str, dtype: DType, interval: Interval, **fields: object
    ) -> int:
        """Node of this key, added when it is not there yet."""
        if key not in self.cached:
            self.cached[key] = self._add(kind, dtype, interval, **fields).number
        return self.cached[key]

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
        extra = () if node.alt is None or node.gate is None else (node.gate, node.alt)
        needed = self.addresses.needs_element(node.buf_idx, node.addr, node.gate)
        return (node.addr, *extra) if needed else extra

    def _special(self, node: IRValue) -> int | None:
        """Constants, variables, flags and affine values."""
        if isinstance(node, IRConst):
            bits = node.dtype.const_to_bits(node.value) if node.dtype.is_float else int(node.value)
            return self.shared(("const", bits, node.dtype), "const", node.dtype, (bits, bits), value=bits)
        if isinstance(node, IRVariable):
            interval = (node.low, node.high)
            return self.shared(("variable", node.name), "variable", node.dtype, interval, variable=node)
        if isinstance(node, IROp) and node.op == "eq" and isinstance(counter := node.srcs[0], IRCounter):
            other = node.srcs[1]
            if is_const(other, 0):
                return self._flag("first", counter)
            if isinstance(counter.bound, int) and is_const(other, counter.bound - 1):
                return self._flag("last", counter)
        if node.dtype.is_float or node.dtype.is_bool or isinstance(node, IRBufLoad | IRRegLoad):
            return self._run_time_last(node)
        form = self.affine.of(node)
        if form is None or not any(isinstance(s, IRCounter) for s, _ in form.terms):
            return self._divided(node)
        return self.affine_node(form, node.dtype)

    def _divided(self, node: IRValue) -> int | None:
        """Division by a constant, as a multiplication and a shift."""
        if isinstance(node, IROp) and node.op in self.binder.options.units:
            return None
        expanded = self.division.expand(node)
        return None if expanded is None else self.value(expanded)

    def _run_time_last(self, node: IRValue) -> int | None:
        # counter + 1 == bound, for a bound that is known at run time
        if isinstance(node, IROp) and node.op == "eq":
            form = self.affine.of(node.srcs[0])
            if form is not None and form.const == 1 and len(form.terms) == 1:
                counter, factor = form.terms[0]
                if isinstance(counter, IRCounter) and factor == 1 and node.srcs[1] is counter.bound:
                    return self._flag("last", counter)
        return None

    def _flag(self, kind: str, counter: IRCounter) -> int:
        return self.shared((kind, counter.axis), kind, DType.BOOL, (0, 1), axis=counter.axis)

    def affine_node(self, form: Affine, dtype: DType) -> int:
        """Node of an affine value: a counter, or a register with an adder."""
        low = high = form.const
        for symbol, coefficient in form.terms:
            bounds = [coefficient * b for b in self.ranges.of(symbol)]
            low, high = low + min(bounds), high + max(bounds)
        if len(form.terms) == 1 and form.const == 0 and form.terms[0][1] == 1:
            symbol = form.terms[0][0]
            if isinstance(symbol, IRCounter):
                return self.shared(
                    ("counter", symbol.axis), "counter", dtype, (low, high), axis=symbol.axis, form=form
                )
        return self.shared(("address", form), "address", dtype, (low, high), form=form)

    def _make(self, node: IRValue) -> int:
        match node:
            case IRRegLoad():
                index = None if node.index is None else self.memo[node.index]
                fields = {"register": node.reg, "index": index, "operands": () if index is None else (index,)}
                return self._add("regread", node.dtype, self.ranges.of(node), **fields).number
            case IRBufLoad():
                return self._load(node)
            case IROp():
                return self._op(node)
        raise AssertionError(node)

    def _op(self, node: IROp) -> int:
        interval = self.ranges.of(node)
        sources = tuple(self.memo[s] for s in node.srcs)
        if node.op == "cast" and not node.dtype.is_float and not node.srcs[0].dtype.is_float:
            source = self.flow.nodes[sources[0]]
            if source.interval == interval and not node.dtype.is_bool:
                return sources[0]
        bound = self.binder.bind(node, [self.flow.nodes[n] for n in sources])
        # Different values may come to the same nodes, such as the gates of lanes that end together.
        return self.shared(
            (node.op, node.dtype, sources),
            "unit" if bound.unit else "op",
            node.dtype,
            interval,
            operands=sources,
            op=node.op,
            lowering=bound.lowering,
            unit=bound.unit,
            levels=bound.levels,
            latency=bound.latency,
        )

    def _load(self, node: IRBufLoad) -> int:
        in_place = node.buf_idx in self.stored
        address = self.addresses.of(node.buf_idx, node.addr, node.gate, loads=not in_place)
        layout = self.flow.memories.layouts[node.buf_idx]
        full = self.ranges.of(IRBufLoad(node.buf_idx, node.addr, node.dtype))
        words = [n for n in (address.node, address.after) if n is not None]
        loads = tuple(self._word(node, word, full, alone=in_place) for word in words)
        for load in loads:
            self.flow.gates.setdefault(load, set()).add(node.gate)
        load = loads[0]
        if address.lane_node is not None:
            picked = ("picked lane", loads, address.lane_node, address.choices)
            sources = (*loads, address.lane_node)
            result = self.shared(picked, "lane", node.dtype, full, operands=sources, choices=address.choices)
        elif layout.lanes == 1:
            result = load
        else:
            key = ("lane", load, address.lane)
            result = self.shared(key, "lane", node.dtype, full, operands=(load,), lane=address.lane)
        if node.gate is None or node.alt is None:
            return result
        select = IROp("where", node.dtype, (node.gate, node, node.alt))
        bound = self.binder.bind(
            select, [self.flow.nodes[n] for n in (self.memo[node.gate], result, self.memo[node.alt])]
        )
        sources = (self.memo[node.gate], result, self.memo[node.alt])
        return self.shared(
            ("where", node.dtype, sources),
            "op",
            node.dtype,
            full,
            operands=sources,
            op="where",
            lowering=bound.lowering,
            levels=bound.levels,
        )

    def _word(self, node: IRBufLoad, address: int, full: Interval, *, alone: bool) -> int:
        """Load of a word, which is not shared where a store may come in between."""
        fields = {"operands": (address,), "buffer": node.buf_idx}
        if alone:
            return self._add("load", node.dtype, full, **fields).number
        return self.shared(("load", node.buf_idx, address), "load", node.dtype, full, **fields)

    def loads(self, buffer: int) -> list[IRBufLoad]:
        """Loads of a buffer that something needs."""
        return [s for s in self.needed if isinstance(s, IRBufLoad) and s.buf_idx == buffer]

    def _regwrite(self, statement: IRRegStore) -> None:
        value = self.value(statement.value)
        gate = None if statement.gate is None else self.value(statement.gate)
        index = None if statement.index is None else self.value(statement.index)
        used = tuple(n for n in (value, gate, index) if n is not None)
        register = self.flow.kernel.register(statement.reg)
        self._add(
            "regwrite",
            register.dtype,
            self.ranges.of(IRRegLoad(register.dtype, register.idx)),
            operands=used,
            register=statement.reg,
            gate=gate,
            index=index,
        )

    def _store(self, statement: IRBufStore) -> None:
        value = self.value(statement.value)
        gate = None if statement.gate is None else self.value(statement.gate)
        address = self.addresses.of(statement.buf_idx, statement.addr, statement.gate)
        word, lane = address.node, address.lane
        merges = address.affine and address.lane_node is None
        earlier = self.stores.get((statement.buf_idx, word)) if merges else None
        if earlier is not None and all(entry[0] != lane for entry in earlier.lanes):
            # The merged store takes the place of the later one, so that it comes after all of its operands.
            node = self._add(
                "store",
                statement.dtype,
                (0, 0),
                buffer=statement.buf_idx,
                operands=tuple(dict.fromkeys((*earlier.operands, *_present(word, value, gate)))),
                lanes=(*earlier.lanes, (lane, value, gate)),
                index=word,
            )
            self.numbers.remove(earlier.number)
            earlier.kind = "dead"
        else:
            node = self._add(
                "store",
                statement.dtype,
                (0, 0),
                buffer=statement.buf_idx,
                operands=_present(word, value, gate, address.lane_node),
                lanes=((lane, value, gate),),
                index=word,
                lane_node=address.lane_node,
            )
        if merges:
            self.stores[statement.buf_idx, word] = node


def _present(*numbers: int | None) -> tuple[int, ...]:
    return tuple(dict.fromkeys(n for n in numbers if n is not None))


def _needed(statements: tuple[IRStatement, ...]) -> set[IRValue]:
    seen: set[IRValue] = set()
    stack = [v for s in statements if isinstance(s, IRBufStore | IRRegStore) for v in operands(s)]
    while stack:
        value = stack.pop()
        if value not in seen:
            seen.add(value)
            stack.extend(operands(value))
    return seen
