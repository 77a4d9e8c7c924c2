"""Nodes that compute: logic, pipelined units, and operations on shared resources."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tg2hdl_ir.plugins.descriptors import ArithmeticUnit, OpLowering
from tg2hdl_lower.plan.node import Node
from tg2hdl_lower.plan.placement import Placement, Ready, StageRules

__all__ = [
    "ConstantProduct",
    "Op",
    "Operation",
    "Product",
    "SharedOperation",
    "SharedUnitOp",
    "UnitOp",
    "UnitProduct",
]


@dataclass(frozen=True, eq=False)
class Operation(Node):
    """An op of the IR."""

    op: str
    sources: tuple[int, ...]

    @property
    def operands(self) -> tuple[int, ...]:
        return self.sources

    @property
    def detail(self) -> str:
        return self.op


@dataclass(frozen=True, eq=False)
class Op(Operation):
    """An operation of combinational logic; of infinite levels, it fills a stage."""

    lowering: OpLowering
    levels: float
    label: ClassVar[str] = "op"
    takes_operands_late: ClassVar[bool] = True

    def place(self, ready: Ready, rules: StageRules) -> Placement:
        levels = int(min(self.levels, rules.levels))
        limit = rules.recurrence_levels if self.number in rules.recurrent else rules.levels
        stage, level, _ = ready
        if level and level + levels > limit:
            stage, level = stage + 1, 0
        return Placement(stage, stage, level + levels)


@dataclass(frozen=True, eq=False)
class UnitOp(Operation):
    """An operation of a pipelined unit of its own."""

    unit: ArithmeticUnit
    label: ClassVar[str] = "unit"

    @property
    def latency(self) -> int:
        """Cycles from operands to result."""
        return self.unit.latency

    @property
    def detail(self) -> str:
        return self.unit.name

    def place(self, ready: Ready, rules: StageRules) -> Placement:
        issue = ready.stage + (1 if ready.level else 0)
        # A unit has logic after its output register; in a recurrence a register there would cost a cycle of the II.
        after_register = self.latency and self.number in rules.circular
        return Placement(issue, issue + self.latency, 0 if after_register else rules.levels)


@dataclass(frozen=True, eq=False)
class SharedOperation(Operation):
    """An operation of a resource outside of the kernel, in a slot that the schedule gives."""


@dataclass(frozen=True, eq=False)
class SharedUnitOp(SharedOperation, UnitOp):
    """An operation of a unit that kernels share; a register for its operands takes a cycle more."""

    label: ClassVar[str] = "shared"

    @property
    def latency(self) -> int:
        """Cycles from operands to result."""
        return self.unit.latency + 1

    @property
    def detail(self) -> str:
        return f"{self.unit.name} {{port}}"


@dataclass(frozen=True, eq=False)
class ConstantProduct(UnitOp):
    """A product by a constant, of additions in a unit that is built for it; `constant` is its bit pattern."""

    constant: int

    @property
    def detail(self) -> str:
        return f"{self.unit.name} by {self.constant:#x}"


@dataclass(frozen=True, eq=False)
class UnitProduct(SharedOperation, UnitOp):
    """A product of a unit of its format, which is a multiplier of the design."""

    label: ClassVar[str] = "product"

    @property
    def detail(self) -> str:
        return f"{self.unit.name} m{{port}}"


@dataclass(frozen=True, eq=False)
class Product(SharedOperation):
    """A product on a hardware multiplier."""

    latency: int
    label: ClassVar[str] = "product"

    @property
    def detail(self) -> str:
        return "m{port}"

    def place(self, ready: Ready, rules: StageRules) -> Placement:
        late = ready.level > rules.memory_level or (rules.registered_factors and ready.after_logic)
        issue = ready.stage + (1 if late else 0)
        return Placement(issue, issue + self.latency, 0 if self.latency else rules.levels)
