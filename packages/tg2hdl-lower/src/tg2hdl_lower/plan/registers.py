"""Nodes that read and write accumulators, and the hardware of accumulators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from amaranth import Shape, Signal
from amaranth.hdl import Value
from amaranth.lib.memory import Memory

from tg2hdl_lower.plan.delay_line import DelayLine
from tg2hdl_lower.plan.emission import Emission
from tg2hdl_lower.plan.node import Node, present
from tg2hdl_lower.plan.placement import Placement, Ready, StageRules

__all__ = [
    "AccumulatorLine",
    "AccumulatorMemory",
    "AccumulatorRegister",
    "AccumulatorStorage",
    "Clear",
    "RegisterRead",
    "RegisterWrite",
]


@dataclass(frozen=True, eq=False)
class RegisterRead(Node):
    """Read an accumulator, or the element `index` of an array of them."""

    register: int
    index: int | None = None
    label: ClassVar[str] = "regread"

    @property
    def operands(self) -> tuple[int, ...]:
        return present(self.index)

    @property
    def detail(self) -> str:
        return f"r{self.register}"

    def place(self, ready: Ready, rules: StageRules) -> Placement:
        issue = ready.stage + (1 if ready.level else 0)
        return Placement(issue, issue, 2 if self.index is not None else 0)

    def emit(self, d: Emission) -> Value:
        return d.read_register(self.number)


class Clear(NamedTuple):
    """An accumulator's reset input: zero where `flag` is set, the node `otherwise` elsewhere."""

    flag: int
    otherwise: int


@dataclass(frozen=True, eq=False)
class RegisterWrite(Node):
    """Write an accumulator, or the element `index` of an array of them.

    Parameters
    ----------
    clear : Clear, optional
        How `value` splits where the reset input of the register makes the zero in it.
    """

    register: int
    value: int
    gate: int | None = None
    index: int | None = None
    clear: Clear | None = None
    label: ClassVar[str] = "regwrite"

    @property
    def operands(self) -> tuple[int, ...]:
        return present(self.value, self.gate, self.index)

    @property
    def detail(self) -> str:
        gate = "" if self.gate is None else f" if=%{self.gate}"
        return f"r{self.register}{gate}" + (f" clear=%{self.clear.flag}" if self.clear else "")

    def place(self, ready: Ready, rules: StageRules) -> Placement:
        return Placement(ready.stage, ready.stage, ready.level)

    def emit(self, d: Emission) -> None:
        value = d.at_issue(self, self.clear.otherwise if self.clear else self.value)
        d.write_register(self.number, value)


@dataclass(frozen=True)
class AccumulatorStorage:
    """A register of the kernel, or an array of them.

    Parameters
    ----------
    width : int
        Bits of an element.
    signed : bool
        Whether elements are two's complement numbers.
    """

    width: int
    signed: bool

    @property
    def shape(self) -> Shape:
        """Shape of an element."""
        return Shape(self.width, self.signed)

    def add(self, d: Emission, number: int) -> None:
        """Add the storage of register `number`.

        Parameters
        ----------
        d : Emission
            Receives the hardware.
        number : int
        """
        raise NotImplementedError(type(self).__name__)

    def read(self, d: Emission, node: RegisterRead) -> Value:
        """The register that a node reads.

        Parameters
        ----------
        d : Emission
            Receives the hardware.
        node : RegisterRead
        """
        raise NotImplementedError(type(self).__name__)

    def write(self, d: Emission, node: RegisterWrite, value: Value) -> None:
        """Write the value of a node; `value` without the zero of its reset input.

        Parameters
        ----------
        d : Emission
            Receives the hardware.
        node : RegisterWrite
        value : Value
            Next contents, where the gate of the node is true.
        """
        raise NotImplementedError(type(self).__name__)


@dataclass(frozen=True)
class AccumulatorRegister(AccumulatorStorage):
    """Flip-flops; `cleared` by a flag in a register that a reset of the design sets, they need no reset themselves."""

    cleared: bool

    def __str__(self) -> str:
        return "flip-flops, cleared by a flag" if self.cleared else "flip-flops"

    def add(self, d: Emission, number: int) -> None:
        """Add the register."""
        d.result.acc[number] = Signal(self.shape, name=f"acc{number}", reset_less=self.cleared)

    def read(self, d: Emission, node: RegisterRead) -> Value:
        """The register."""
        return d.result.acc[node.register]

    def write(self, d: Emission, node: RegisterWrite, value: Value) -> None:
        """Load it, or clear it."""
        register = d.result.acc[node.register]
        with d.m.If(d.active_when(node, node.gate)):
            d.m.d.sync += register.eq(value)
        if node.clear is not None:
            # A condition of its own becomes the reset input of the register.
            with d.m.If(d.active_when(node, node.clear.flag, init=int(self.cleared))):
                d.m.d.sync += register.eq(0)


@dataclass(frozen=True)
class AccumulatorMemory(AccumulatorStorage):
    """LUT RAM with one word per element."""

    size: int

    def __str__(self) -> str:
        return f"LUT RAM of {self.size} elements"

    def add(self, d: Emission, number: int) -> None:
        """Add the memory."""
        memory = Memory(shape=self.shape, depth=self.size, init=[], attrs={"ram_style": "distributed"})
        d.m.submodules[f"acc{number}"] = d.arrays[number] = memory

    def read(self, d: Emission, node: RegisterRead) -> Value:
        """An element."""
        assert node.index is not None, "an array has an index"
        port = d.arrays[node.register].read_port(domain="comb")
        d.m.d.comb += port.addr.eq(d.at_issue(node, node.index))
        return port.data

    def write(self, d: Emission, node: RegisterWrite, value: Value) -> None:
        """Write an element."""
        assert node.index is not None, "an array has an index"
        port = d.arrays[node.register].write_port()
        d.m.d.comb += [
            port.addr.eq(d.at_issue(node, node.index)),
            port.data.eq(value),
            port.en.eq(d.active_when(node, node.gate)),
        ]


@dataclass(frozen=True)
class AccumulatorLine(AccumulatorStorage):
    """A delay line, which returns each element `steps` steps after it was written."""

    steps: int
    line: DelayLine

    def __str__(self) -> str:
        return f"delay line of {self.steps} steps, {self.line}"

    def add(self, d: Emission, number: int) -> None:
        """Add the output of the line."""
        d.lines[number] = Signal(self.shape, name=f"turn{number}")

    def read(self, d: Emission, node: RegisterRead) -> Value:
        """The output."""
        return d.lines[node.register]

    def write(self, d: Emission, node: RegisterWrite, value: Value) -> None:
        """Add the line, whose input is the value."""
        d.m.d.comb += d.lines[node.register].eq(self.line.build(d.m, value, f"acc{node.register}"))
