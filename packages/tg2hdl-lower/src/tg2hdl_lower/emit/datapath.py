"""Common parts of emission: signals by node, and registers that carry them to later stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from amaranth import Module, Signal
from amaranth.hdl import Value
from amaranth.lib.memory import Memory

from tg2hdl_lower.emit.addresses import AddressGenerators
from tg2hdl_lower.emit.control import Control
from tg2hdl_lower.emit.ports import ReadPort, ResourcePort
from tg2hdl_lower.plan.hardware_plan import HardwarePlan
from tg2hdl_lower.plan.node import Node

__all__ = ["ArithResult", "Datapath"]


@dataclass
class ArithResult:
    """Signals of all nodes by number, accumulators by register, counters by axis."""

    signals: dict[int, Value] = field(default_factory=dict)
    acc: dict[int, Signal] = field(default_factory=dict)
    counter_sigs: dict[int, Signal] = field(default_factory=dict)


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
    turns: dict[tuple[str, int, str], tuple[Value, list[tuple[Node, Value]]]] = field(default_factory=dict)
    """Operands of shared resources, by kind, slot and name: where each goes, and the operations that use it."""
    _delayed: dict[tuple[int, int], Value] = field(default_factory=dict)
    _enables: dict[tuple[int, int, int, int], Signal] = field(default_factory=dict)

    def at(self, number: int, stage: int) -> Value:
        """Value of a node at a stage, through as many registers as needed."""
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

    def at_issue(self, node: Node, number: int) -> Value:
        """Value of a node in the cycle in which another one takes its operands."""
        return self.at(number, self.plan.placement(node.number).issue)

    def named(self, node: Node, value: Value, name: str) -> Signal:
        """The value of a node as a signal of its shape."""
        signal = Signal(node.shape, name=f"v{node.number}_{name}")
        self.m.d.comb += signal.eq(value)
        return signal

    def active(self, node: Node) -> Signal:
        """Whether a step is in the stage of a node."""
        return self.control.valid_at(self.m, node.leaf, self.plan.placement(node.number).issue)

    def active_when(self, node: Node, flag: int | None, init: int = 0) -> Signal:
        """Whether a step is in the stage of a node with this flag set; a reset sets its register, if any, to `init`."""
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
