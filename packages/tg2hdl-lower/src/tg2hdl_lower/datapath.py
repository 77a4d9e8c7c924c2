"""The datapath: one signal per node, and registers that carry it to the stages where it is used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from amaranth import Module, Mux, Signal
from amaranth.hdl import Cat, Const, Value, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.memory import Memory

from tg2hdl_ir.plugins.descriptors import resolve
from tg2hdl_lower.address import AddressGenerators
from tg2hdl_lower.control import Control
from tg2hdl_lower.delay_lines import delayed
from tg2hdl_lower.plan import HardwarePlan, PlanNode
from tg2hdl_lower.shared_units import build_unit

__all__ = ["ArithResult", "ArithmeticLowering", "PortSignals"]


@dataclass(frozen=True)
class PortSignals:
    """Signals of a memory port as the kernel sees it: `enable` has a bit per lane on a write port."""

    address: Signal
    data: Signal
    enable: Signal


@dataclass
class ArithResult:
    """Signals of all nodes by number, accumulators by register, counters by axis."""

    signals: dict[int, Value] = field(default_factory=dict)
    acc: dict[int, Signal] = field(default_factory=dict)
    counter_sigs: dict[int, Signal] = field(default_factory=dict)


class ArithmeticLowering:
    """Emits the datapath of a plan.

    Parameters
    ----------
    reads, writes : dict of (buffer, port) to PortSignals
    variables : dict of str to Value
        Run-time scalars.
    products : sequence of interfaces
        Multipliers, by number; see `tg2hdl_lower.products.product_signature`.
    shared : sequence of interfaces
        Shared units, by number; see `tg2hdl_lower.shared_units.unit_signature`.
    """

    def __init__(
        self,
        m: Module,
        plan: HardwarePlan,
        control: Control,
        start: Value,
        reads: dict[tuple[int, int], PortSignals],
        writes: dict[tuple[int, int], PortSignals],
        variables: dict[str, Value] | None = None,
        products: Sequence[wiring.PureInterface] = (),
        shared: Sequence[wiring.PureInterface] = (),
    ) -> None:
        self.m = m
        self.plan = plan
        self.control = control
        self.reads = reads
        self.writes = writes
        self.variables = variables or {}
        self.products = products
        self.shared = shared
        self.addresses = AddressGenerators(m, control, start, self.variables)
        self.result = ArithResult(counter_sigs={a: c.value for a, c in control.counters.items()})
        self.delayed: dict[tuple[int, int], Value] = {}
        self.arrays: dict[int, Memory] = {}
        self.turning: dict[int, Signal] = {}
        self.enables: dict[tuple[int, ...], Signal] = {}

    def run(self) -> ArithResult:
        """Add everything to the module."""
        self._registers()
        for leaf in self.plan.leaves:
            for number in leaf.nodes:
                node = self.plan.nodes[number]
                value = self._node(node)
                if value is not None:
                    self.result.signals[number] = value
        self._read_ports()
        self._write_ports()
        return self.result

    def at(self, number: int, stage: int) -> Value:
        """Value of a node at a stage, through as many registers as needed."""
        node = self.plan.nodes[number]
        value = self.result.signals[number]
        if node.kind in ("const", "variable") or stage <= node.stage or self._stands_still(node):
            return value
        if (number, stage) not in self.delayed:
            register = Signal(value.shape(), name=f"v{number}_s{stage}", reset_less=True)
            self.m.d.sync += register.eq(self.at(number, stage - 1))
            self.delayed[number, stage] = register
        return self.delayed[number, stage]

    def _stands_still(self, node: PlanNode) -> bool:
        """Whether a value is of the only word of a buffer that the kernel does not write."""
        if node.kind == "lane" and len(node.operands) == 1:
            return self._stands_still(self.plan.nodes[node.operands[0]])
        if node.kind != "load" or self.plan.layouts[node.buffer].words > 1:
            return False
        return not self.plan.kernel.buffer(node.buffer).is_output

    def _registers(self) -> None:
        for register in self.plan.kernel.registers:
            writes = [n for n in self.plan.nodes if n.kind == "regwrite" and n.register == register.idx]
            reads = [n for n in self.plan.nodes if n.kind == "regread" and n.register == register.idx]
            if not writes and not reads:
                continue
            example = (reads or writes)[0]
            shape = signed(example.width) if example.signed else unsigned(example.width)
            if register.idx in self.plan.turning:
                self.turning[register.idx] = Signal(shape, name=f"turn{register.idx}")
            elif register.size == 1:
                # Some start at zero, as `clear_with_last` leaves them; a reset ends a run in the middle.
                self.result.acc[register.idx] = Signal(
                    shape, name=f"acc{register.idx}", reset_less=any(self._cleared_late(w) for w in writes)
                )
            else:
                memory = Memory(shape=shape, depth=register.size, init=[], attrs={"ram_style": "distributed"})
                self.m.submodules[f"acc{register.idx}"] = memory
                self.arrays[register.idx] = memory

    def _node(self, node: PlanNode) -> Value | None:
        match node.kind:
            case "const":
                return Const(node.value, _shape(node))
            case "variable":
                assert node.variable is not None, "a variable node names it"
                return self.variables[node.variable.name]
            case "first":
                return self.control.counters[node.axis].first
            case "last":
                return self.control.counters[node.axis].last
            case "counter":
                return self.control.counters[node.axis].value
            case "address":
                return self.addresses.add(node, self.plan.leaves[node.leaf])
            case "remainder":
                return self.addresses.remainder(node)
            case "laneindex":
                parts = zip(node.operands, node.weights, strict=True)
                terms = [_times(self.at(n, node.stage), weight) for n, weight in parts]
                return self._named(node, sum(terms, Const(node.value)))
            case "op":
                return self._op(node)
            case "unit":
                return self._unit(node)
            case "product" | "shared":
                return self._outside(node)
            case "load":
                data = self.reads[node.buffer, node.port].data
                whole = self.plan.layouts[node.buffer].lanes == 1
                return data.as_signed() if whole and self.plan.storage[node.buffer].kind == "int" else data
            case "reuse":
                (ahead,) = (self.plan.nodes[n] for n in node.operands)
                cycles = node.value * self.plan.ii + node.stage - ahead.stage
                return delayed(self.m, self.result.signals[ahead.number], cycles, f"v{node.number}_reuse")
            case "lane":
                return self._lane(node)
            case "regread":
                return self._regread(node)
            case "regwrite":
                self._regwrite(node)
        return None

    def _named(self, node: PlanNode, value: Value) -> Signal:
        signal = Signal(_shape(node), name=f"v{node.number}_{node.op or node.kind}")
        self.m.d.comb += signal.eq(value)
        return signal

    def _op(self, node: PlanNode) -> Value:
        assert node.lowering is not None, "bound by the binder"
        operands = [self.at(n, node.stage) for n in node.operands]
        types = tuple(self.plan.nodes[n].dtype for n in node.operands)
        return self._named(node, resolve(node.lowering.build)(self.m, operands, types, node.dtype))

    def _unit(self, node: PlanNode) -> Value:
        assert node.unit is not None, "bound by the binder"
        component = build_unit(node.unit)
        self.m.submodules[f"u{node.number}_{node.op}"] = component
        self.m.d.comb += component.en.eq(1)
        for port, number in zip("abc", node.operands, strict=False):
            self.m.d.comb += getattr(component, port).eq(self.at(number, node.issue))
        return self._named(node, component.result)

    def _outside(self, node: PlanNode) -> Value:
        """Multiplier or shared unit behind a port, for which several nodes may take turns."""
        port = (self.products if node.kind == "product" else self.shared)[node.port]
        users = [n for n in self.plan.nodes if n.kind == node.kind and n.port == node.port]
        operands = [self.at(n, node.issue) for n in node.operands]
        drivers = [(getattr(port, name), value) for name, value in zip("abc", operands, strict=False)]
        if node is users[0]:
            self.m.d.comb += [factor.eq(value) for factor, value in drivers]
        else:
            with self.m.If(self._active(node)):
                self.m.d.comb += [factor.eq(value) for factor, value in drivers]
        return self._named(node, port.result)

    def _lane(self, node: PlanNode) -> Value:
        load = self.plan.nodes[node.operands[0]]
        layout = self.plan.layouts[load.buffer]
        storage = self.plan.storage[load.buffer]
        width = storage.bit_width
        assert layout.lanes > 1, "a lane of a wide word"
        lane: Value
        if len(node.operands) > 1:
            # Not word_select, which multiplies the number of the lane by its width.
            *words, position = (self.at(n, node.stage) for n in node.operands)
            lane = Signal(width, name=f"v{node.number}_selected")
            with self.m.Switch(position.as_unsigned()):
                for value, word, number in node.choices or [(n, 0, n) for n in range(layout.lanes)]:
                    with self.m.Case(value):
                        self.m.d.comb += lane.eq(words[word].word_select(number, width))
        else:
            lane = self.at(load.number, node.stage).word_select(node.lane, width)
        return self._named(node, lane.as_signed() if storage.kind == "int" else lane)

    def _regread(self, node: PlanNode) -> Value:
        if node.register in self.turning:
            return self.turning[node.register]
        if node.index is None:
            return self.result.acc[node.register]
        port = self.arrays[node.register].read_port(domain="comb")
        self.m.d.comb += port.addr.eq(self.at(node.index, node.stage))
        return port.data

    def _regwrite(self, node: PlanNode) -> None:
        if node.register in self.turning:
            (read,) = (n for n in self._live("regread") if n.register == node.register)
            cycles = self.plan.turning[node.register] * self.plan.ii + read.issue - node.issue
            value = self.at(node.operands[0], node.issue)
            line = delayed(self.m, value, cycles, f"acc{node.register}")
            self.m.d.comb += self.turning[node.register].eq(line)
            return
        enable = self._active(node) if node.gate is None else self._active_when(node, node.gate)
        value = self.at(node.operands[0], node.issue)
        if node.index is None:
            accumulator, zero_at = self.result.acc[node.register], self._zero_at(node)
            if zero_at is not None:
                value = self.at(self.plan.nodes[node.operands[0]].operands[2], node.issue)
            with self.m.If(enable):
                self.m.d.sync += accumulator.eq(value)
            if zero_at is not None:
                # A condition of its own becomes the reset input of the register.
                with self.m.If(self._active_when(node, zero_at, init=int(self._cleared_late(node)))):
                    self.m.d.sync += accumulator.eq(0)
            return
        port = self.arrays[node.register].write_port()
        self.m.d.comb += [
            port.addr.eq(self.at(node.index, node.issue)),
            port.data.eq(value),
            port.en.eq(enable),
        ]

    def _cleared_late(self, write: PlanNode) -> bool:
        """Whether an accumulator is cleared by a register, which a reset of the design sets."""
        zero_at = self._zero_at(write)
        return zero_at is not None and self._known_before(write, zero_at)

    def _known_before(self, node: PlanNode, flag: int) -> bool:
        return self.plan.nodes[flag].stage < node.issue

    def _zero_at(self, node: PlanNode) -> int | None:
        """Node that says when an ungated write is of zero, if it is a choice of zero."""
        value = self.plan.nodes[node.operands[0]]
        if value.op != "where" or node.gate is not None:
            return None
        zero = self.plan.nodes[value.operands[1]]
        return value.operands[0] if zero.kind == "const" and zero.value == 0 else None

    def _active(self, node: PlanNode) -> Signal:
        return self.control.valid_at(self.m, node.leaf, node.issue)

    def _active_when(self, node: PlanNode, flag: int, init: int = 0) -> Signal:
        """Whether a step is in the stage of a node with this flag set.

        A register, which a reset sets to `init`, where that is known a cycle before.
        """
        stage = node.issue
        key = node.leaf, flag, stage, init
        if key not in self.enables:
            known = self._known_before(node, flag)
            before = stage - 1 if known else stage
            active = self.control.valid_at(self.m, node.leaf, before)
            signal = Signal(name=f"v{flag}_{'clear' if init else 'active'}{stage}", init=init)
            domain = self.m.d.sync if known else self.m.d.comb
            domain += signal.eq(active & self.at(flag, before))
            self.enables[key] = signal
        return self.enables[key]

    def _read_ports(self) -> None:
        for key, port in self.reads.items():
            loads = [n for n in self._live("load") if (n.buffer, n.port) == key]
            address: Value = Const(0)
            for n, load in enumerate(loads):
                word = self.at(load.operands[0], load.issue)
                address = word if n == 0 else Mux(self._active(load), word, address)
            enable = Const(0, 1)
            for load in loads:
                enable = enable | self._active(load)
            domain = self.m.d.sync if key[0] in self.plan.registers.reads else self.m.d.comb
            domain += [port.address.eq(address), port.enable.eq(enable)]

    def _write_ports(self) -> None:
        for key, port in self.writes.items():
            stores = [n for n in self._live("store") if (n.buffer, n.port) == key]
            layout = self.plan.layouts[key[0]]
            width = len(port.data) // layout.lanes
            address: Value = Const(0)
            data: list[Value] = [Const(0, width)] * layout.lanes
            enables: list[Value] = [Const(0, 1)] * layout.lanes
            for n, store in enumerate(stores):
                active = self._active(store)
                assert store.index is not None, "a store has an address"
                word = self.at(store.index, store.issue)
                address = word if n == 0 else Mux(active, word, address)
                for lane, value, gate in store.lanes:
                    enable = active if gate is None else self._active_when(store, gate)
                    source = self.at(value, store.issue)
                    for target, selected in self._targets(store, lane, enable):
                        data[target] = source if n == 0 else Mux(active, source, data[target])
                        enables[target] = enables[target] | selected
            domain = self.m.d.sync if key[0] in self.plan.registers.writes else self.m.d.comb
            domain += [port.address.eq(address), port.enable.eq(Cat(*enables))]
            domain += [port.data.word_select(n, width).eq(value) for n, value in enumerate(data)]

    def _targets(self, store: PlanNode, lane: int, enable: Value) -> list[tuple[int, Value]]:
        if store.lane_node is None:
            return [(lane, enable)]
        chosen = self.at(store.lane_node, store.issue)
        lanes = self.plan.layouts[store.buffer].lanes
        return [(n, enable & (chosen == n)) for n in range(lanes)]

    def _live(self, kind: str) -> list[PlanNode]:
        return [
            self.plan.nodes[n]
            for leaf in self.plan.leaves
            for n in leaf.nodes
            if self.plan.nodes[n].kind == kind
        ]


def _times(value: Value, factor: int) -> Value:
    """Product with a positive constant, which is no product to synthesis."""
    bits = [bit for bit in range(factor.bit_length()) if factor >> bit & 1]
    return sum((value.shift_left(bit) for bit in bits[1:]), value.shift_left(bits[0]))


def _shape(node: PlanNode):  # type: ignore[no-untyped-def]
    return signed(node.width) if node.signed else unsigned(node.width)
