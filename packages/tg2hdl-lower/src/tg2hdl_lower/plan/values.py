"""Nodes that follow the loops: constants, variables, counters and addresses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from amaranth.hdl import Const, Value

from tg2hdl_ir import Affine, IRVariable
from tg2hdl_lower.plan.emission import Emission
from tg2hdl_lower.plan.node import Node
from tg2hdl_lower.plan.placement import Placement, Ready, StageRules

__all__ = [
    "Address",
    "Constant",
    "Counter",
    "DigitSplit",
    "FirstFlag",
    "LaneIndex",
    "LastFlag",
    "Variable",
    "WordPosition",
    "linear_form",
]


@dataclass(frozen=True, eq=False)
class _Issued(Node):
    """A node whose value is available when a step is issued."""

    def place(self, ready: Ready, rules: StageRules) -> Placement:
        return Placement()


@dataclass(frozen=True, eq=False)
class Constant(_Issued):
    """A number; of a float, its bit pattern."""

    value: int
    label: ClassVar[str] = "const"

    @property
    def detail(self) -> str:
        return str(self.value)

    @property
    def is_fixed(self) -> bool:
        return True

    def emit(self, d: Emission) -> Value:
        return d.constant(self.number, self.value, self.shape)


@dataclass(frozen=True, eq=False)
class Variable(_Issued):
    """A run-time scalar, which is a port of the kernel."""

    variable: IRVariable
    label: ClassVar[str] = "variable"

    @property
    def detail(self) -> str:
        return self.variable.name

    @property
    def is_fixed(self) -> bool:
        return True

    def emit(self, d: Emission) -> Value:
        return d.variable(self.variable.name)


@dataclass(frozen=True, eq=False)
class _OfLoop(_Issued):
    axis: int

    @property
    def detail(self) -> str:
        return f"i{self.axis}"


@dataclass(frozen=True, eq=False)
class Counter(_OfLoop):
    """The counter of a loop."""

    form: Affine
    label: ClassVar[str] = "counter"

    def emit(self, d: Emission) -> Value:
        return d.counter(self.axis).value


@dataclass(frozen=True, eq=False)
class FirstFlag(_OfLoop):
    """Whether a loop is in its first iteration."""

    label: ClassVar[str] = "first"

    def emit(self, d: Emission) -> Value:
        return d.counter(self.axis).first


@dataclass(frozen=True, eq=False)
class LastFlag(_OfLoop):
    """Whether a loop is in its last iteration."""

    label: ClassVar[str] = "last"

    def emit(self, d: Emission) -> Value:
        return d.counter(self.axis).last


@dataclass(frozen=True)
class DigitSplit:
    """A position along a dimension that is divided into words: ``form // split`` counts `stride` words."""

    form: Affine
    split: int
    stride: int


@dataclass(frozen=True, eq=False)
class _Generated(Node):
    """A node that a register holds, a cycle after a step is issued."""

    def place(self, ready: Ready, rules: StageRules) -> Placement:
        return Placement(1, 1)


@dataclass(frozen=True, eq=False)
class Address(_Generated):
    """An affine value in a register with an adder: `form`, plus ``stride * (form // split)`` of each digit."""

    form: Affine
    digits: tuple[DigitSplit, ...] = ()
    label: ClassVar[str] = "address"

    @property
    def detail(self) -> str:
        return " + ".join([str(self.form), *(f"{d.stride}*(({d.form}) // {d.split})" for d in self.digits)])

    def emit(self, d: Emission) -> Value:
        return d.generated(self.number)


def linear_form(node: Node) -> Affine | None:
    """The affine form of a node that is nothing else."""
    if isinstance(node, Counter):
        return node.form
    return node.form if isinstance(node, Address) and not node.digits else None


@dataclass(frozen=True, eq=False)
class WordPosition(_Generated):
    """Position in a word along a divided dimension: the remainder of digit `digit` of an address."""

    address: int
    digit: int
    label: ClassVar[str] = "position"

    @property
    def operands(self) -> tuple[int, ...]:
        return (self.address,)

    @property
    def detail(self) -> str:
        return f"[{self.digit}]"

    def emit(self, d: Emission) -> Value:
        return d.generated(self.number)


@dataclass(frozen=True, eq=False)
class LaneIndex(Node):
    """Lane in a word of several divided dimensions: `offset` plus the weighted positions."""

    positions: tuple[int, ...]
    weights: tuple[int, ...]
    offset: int
    label: ClassVar[str] = "index"
    takes_operands_late: ClassVar[bool] = True

    @property
    def operands(self) -> tuple[int, ...]:
        return self.positions

    def place(self, ready: Ready, rules: StageRules) -> Placement:
        return Placement(ready.stage, ready.stage, ready.level + 2)

    def emit(self, d: Emission) -> Value:
        stage = d.placement(self).stage
        parts = zip(self.positions, self.weights, strict=True)
        terms = [_times(d.at(n, stage), weight) for n, weight in parts]
        return d.named(self, sum(terms, Const(self.offset)), "laneindex")


def _times(value: Value, factor: int) -> Value:
    """Product with a positive constant, which is not a product to synthesis."""
    bits = [bit for bit in range(factor.bit_length()) if factor >> bit & 1]
    return sum((value.shift_left(bit) for bit in bits[1:]), value.shift_left(bits[0]))
