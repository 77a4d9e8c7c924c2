"""Nodes that read and write accumulators, and what these are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from tg2hdl_lower.plan.delay_line import DelayLine
from tg2hdl_lower.plan.node import Node, present
from tg2hdl_lower.plan.placement import Placement, Ready, StageRules

__all__ = [
    "Accumulator",
    "AccumulatorLine",
    "AccumulatorMemory",
    "AccumulatorRegister",
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


@dataclass(frozen=True)
class Accumulator:
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


@dataclass(frozen=True)
class AccumulatorRegister(Accumulator):
    """Flip-flops; `cleared` by a flag in a register that a reset of the design sets, they need no reset themselves."""

    cleared: bool

    def __str__(self) -> str:
        return "flip-flops, cleared by a flag" if self.cleared else "flip-flops"


@dataclass(frozen=True)
class AccumulatorMemory(Accumulator):
    """LUT RAM of so many elements."""

    size: int

    def __str__(self) -> str:
        return f"LUT RAM of {self.size} elements"


@dataclass(frozen=True)
class AccumulatorLine(Accumulator):
    """A delay line, from which each element comes so many steps after it was written."""

    steps: int
    line: DelayLine

    def __str__(self) -> str:
        return f"delay line of {self.steps} steps, {self.line}"
