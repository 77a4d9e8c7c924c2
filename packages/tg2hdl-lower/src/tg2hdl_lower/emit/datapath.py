"""Common parts of emission: signals by node, and registers that carry them to later stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from amaranth import Module, Shape, Signal
from amaranth.hdl import Const, Value
from amaranth.lib.memory import Memory

from tg2hdl_ir import DType
from tg2hdl_lower.emit.addresses import AddressGenerators
from tg2hdl_lower.emit.control import Control
from tg2hdl_lower.emit.ports import ReadPort, ResourcePort
from tg2hdl_lower.plan.emission import ArithResult, CounterSignals, PlacedNode
from tg2hdl_lower.plan.hardware_plan import HardwarePlan
from tg2hdl_lower.plan.placement import Placement
from tg2hdl_lower.plan.registers import RegisterRead, RegisterWrite
from tg2hdl_lower.plan.values import Address, Constant, WordPosition

__all__ = ["Datapath"]


@dataclass
class Datapath:
    """The module under construction, its inputs, and the signals made so far."""

    m: Module
    plan: HardwarePlan
    control: Control
    addresses: AddressGenerators
    reads: Mapping[tuple[int, int], ReadPort]
    variables: Mapping[str, Value]
    products: Sequence[ResourcePort]
    shared: Sequence[ResourcePort]
    result: ArithResult
    arrays: dict[int, Memory] = field(default_factory=dict)
    lines: dict[int, Signal] = field(default_factory=dict)
    turns: dict[tuple[str, int, str], tuple[Value, list[tuple[PlacedNode, Value]]]] = field(
        default_factory=dict
    )
    """Operands of shared resources, by kind, slot and name: where each goes, and the operations that use it."""
    _delayed: dict[tuple[int, int], Value] = field(default_factory=dict)
    _enables: dict[tuple[int, int, int, int], Signal] = field(default_factory=dict)

    def placement(self, node: PlacedNode) -> Placement:
        """Stages of a node."""
        return self.plan.placement(node.number)

    def dtype(self, number: int) -> DType:
        """Type of a node's result."""
        return self.plan.nodes[number].dtype

    def at(self, number: int, stage: int) -> Value:
        """Value of a node at a stage, through as many registers as needed.

        Parameters
        ----------
        number, stage
            As of `Emission.at`.
        """
        value = self.result.signals[number]
        if number in self.plan.run_constant or stage <= self.plan.placement(number).stage:
            return value
        if self.plan.holds_values:
            return self._held(number, stage)
        if (number, stage) not in self._delayed:
            register = Signal(value.shape(), name=f"v{number}_s{stage}", reset_less=True)
            self.m.d.sync += register.eq(self.at(number, stage - 1))
            self._delayed[number, stage] = register
        return self._delayed[number, stage]

    def _held(self, number: int, stage: int) -> Value:
        """The same with registers that each hold a value from one step to the next."""
        first = self.plan.placement(number).stage
        count = -(-(stage - first) // self.plan.ii)
        if (number, count) not in self._delayed:
            before = first + (count - 1) * self.plan.ii
            value = self.at(number, before)
            register = Signal(value.shape(), name=f"v{number}_h{count}", reset_less=True)
            with self.m.If(self.control.valid_at(self.m, self.plan.nodes[number].leaf, before)):
                self.m.d.sync += register.eq(value)
            self._delayed[number, count] = register
        return self._delayed[number, count]

    def at_issue(self, node: PlacedNode, number: int) -> Value:
        """Value of a node in the cycle in which another one takes its operands.

        Parameters
        ----------
        node, number
            As of `Emission.at_issue`.
        """
        return self.at(number, self.plan.placement(node.number).issue)

    def named(self, node: PlacedNode, value: Value, name: str) -> Signal:
        """The value of a node as a signal of its shape.

        Parameters
        ----------
        node, value, name
            As of `Emission.named`.
        """
        signal = Signal(node.shape, name=f"v{node.number}_{name}")
        self.m.d.comb += signal.eq(value)
        return signal

    def active(self, node: PlacedNode) -> Signal:
        """Whether a step is in the stage of a node."""
        return self.control.valid_at(self.m, node.leaf, self.plan.placement(node.number).issue)

    def active_when(self, node: PlacedNode, flag: int | None, init: int = 0) -> Signal:
        """Whether a step is in the stage of a node with this flag set; a reset sets its register, if any, to `init`.

        Parameters
        ----------
        node, flag, init
            As of `Emission.active_when`.
        """
        if flag is None:
            return self.active(node)
        stage = self.plan.placement(node.number).issue
        key = node.leaf, flag, stage, init
        if key not in self._enables:
            known = (node.number, flag) in self.plan.control_registers.enables
            before = stage - 1 if known else stage
            active = self.control.valid_at(self.m, node.leaf, before)
            signal = Signal(name=f"v{flag}_{'clear' if init else 'active'}{stage}", init=init)
            domain = self.m.d.sync if known else self.m.d.comb
            domain += signal.eq(active & self.at(flag, before))
            self._enables[key] = signal
        return self._enables[key]

    def constant(self, number: int, value: int, shape: Shape) -> Value:
        """A number; of several variants that of the one that runs.

        Parameters
        ----------
        number, value, shape
            As of `Emission.constant`.
        """
        nodes = [plan.nodes[number] for plan in self.addresses.choice.plans]
        chosen = self.addresses.choice.of([n.value for n in nodes if isinstance(n, Constant)])
        return Const(chosen, shape) if isinstance(chosen, int) else chosen

    def variable(self, name: str) -> Value:
        """Port of a run-time scalar."""
        return self.variables[name]

    def counter(self, axis: int) -> CounterSignals:
        """Registers of a loop."""
        return self.control.counters[axis]

    def generated(self, number: int) -> Value:
        """Register of an address, or of a position in a word."""
        node = self.plan.nodes[number]
        if isinstance(node, WordPosition):
            return self.addresses.position(node)
        assert isinstance(node, Address), "others are not generated"
        return self.addresses.add(node, self.plan.leaves[node.leaf])

    def word(self, node: PlacedNode, buffer: int) -> Value:
        """The word that a load reads.

        Parameters
        ----------
        node, buffer
            As of `Emission.word`.
        """
        data = self.reads[buffer, self.placement(node).port].data
        whole = self.plan.layouts[buffer].lanes == 1
        return data.as_signed() if whole and self.plan.storage[buffer].kind == "int" else data

    def replayed(self, node: PlacedNode, source: int) -> Value:
        """Word of another load, from the delay line of a node.

        Parameters
        ----------
        node, source
            As of `Emission.replayed`.
        """
        line = self.plan.delay_lines[node.number]
        return line.build(self.m, self.result.signals[source], f"v{node.number}_reuse")

    def slot_result(self, node: PlacedNode, kind: str, is_product: bool, operands: tuple[int, ...]) -> Value:
        """Result of the slot of a shared resource, whose operands in a node's turn are these nodes.

        Parameters
        ----------
        node, kind, is_product, operands
            As of `Emission.slot_result`.
        """
        slot = self.placement(node).port
        port = (self.products if is_product else self.shared)[slot]
        for name, number in zip("abc", operands, strict=False):
            turns = self.turns.setdefault((kind, slot, name), (port.operand(name), []))
            turns[1].append((node, self.at_issue(node, number)))
        return port.result

    def read_register(self, number: int) -> Value:
        """The value that a node reads from its accumulator."""
        node = self.plan.nodes[number]
        assert isinstance(node, RegisterRead), "others read no accumulator"
        return self.plan.accumulators[node.register].read(self, node)

    def write_register(self, number: int, value: Value) -> None:
        """Write an accumulator as a node does.

        Parameters
        ----------
        number, value
            As of `Emission.write_register`.
        """
        node = self.plan.nodes[number]
        assert isinstance(node, RegisterWrite), "others write no accumulator"
        self.plan.accumulators[node.register].write(self, node, value)
