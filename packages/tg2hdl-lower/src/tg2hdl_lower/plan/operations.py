"""Nodes that compute: logic, pipelined units, and operations on shared resources."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from amaranth.hdl import Value

from tg2hdl_ir import ArithmeticUnit, OpLowering, registry
from tg2hdl_lower.ops.multiplication import Multiplier
from tg2hdl_lower.ops.unit_component import build_constant_unit, build_unit
from tg2hdl_lower.plan.emission import Emission
from tg2hdl_lower.plan.node import Node
from tg2hdl_lower.plan.placement import Placement, Ready, StageRules

__all__ = [
    "ConstantProduct",
    "DesignProduct",
    "Op",
    "Operation",
    "Product",
    "SharedOperation",
    "SharedUnitOp",
    "UnitOp",
    "UnitProduct",
    "WideProduct",
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

    def emit(self, d: Emission) -> Value:
        stage = d.placement(self).stage
        operands = [d.at(n, stage) for n in self.sources]
        types = tuple(d.dtype(n) for n in self.sources)
        built = registry().call(self.lowering, "build", d.m, operands, types, self.dtype)
        return d.named(self, built, self.op)


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
        chained = rules.chained and self.number in rules.circular
        issue = ready.stage + (1 if ready.level > chained else 0)
        # A unit has logic after its output register; in a recurrence a register there would cost a cycle of the II.
        after_register = self.latency and self.number in rules.circular
        return Placement(issue, issue + self.latency, 0 if after_register else rules.levels)

    def build(self) -> Any:
        """Component of the unit."""
        return build_unit(self.unit)

    def emit(self, d: Emission) -> Value:
        component = self.build()
        d.m.submodules[f"u{self.number}_{self.op}"] = component
        d.m.d.comb += component.en.eq(1)
        for port, number in zip("abc", self.sources, strict=False):
            d.m.d.comb += getattr(component, port).eq(d.at_issue(self, number))
        return d.named(self, component.result, self.op)


@dataclass(frozen=True, eq=False)
class SharedOperation(Operation):
    """An operation of a resource outside of the kernel, in a slot that the schedule gives."""

    is_product: ClassVar[bool] = True
    """Whether the resource is a multiplier of the design; a shared unit otherwise."""

    def emit(self, d: Emission) -> Value:
        result = d.slot_result(self, self.label, self.is_product, self.sources)
        return d.named(self, result, self.op)


@dataclass(frozen=True, eq=False)
class SharedUnitOp(SharedOperation, UnitOp):
    """An operation of a unit that kernels share; a register for its operands takes a cycle more."""

    label: ClassVar[str] = "shared"
    is_product: ClassVar[bool] = False

    @property
    def latency(self) -> int:
        """Cycles from operands to result."""
        return self.unit.latency + 1

    @property
    def detail(self) -> str:
        return f"{self.unit.name} {{port}}"


@dataclass(frozen=True, eq=False)
class ConstantProduct(UnitOp):
    """A product by a constant, of additions in a unit that is built for it.

    Its one operand is the other factor.  `constant` is the value of the `Constant`: a number, or the bits of a float.
    """

    constant: int

    @property
    def detail(self) -> str:
        return f"{self.unit.name} by {self.constant:#x}"

    def build(self) -> Any:
        return build_constant_unit(self.unit, self.constant)


@dataclass(frozen=True, eq=False)
class DesignProduct(SharedOperation):
    """A product on a multiplier of the design."""

    label: ClassVar[str] = "product"

    @property
    def key(self) -> str:
        """The same for products that may take turns on one multiplier."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class UnitProduct(DesignProduct, UnitOp):
    """A product of a unit of its format, which is a multiplier of the design."""

    @property
    def key(self) -> str:
        # Only units with II = 1 can be time-shared.
        return self.unit.name if self.unit.ii == 1 else f"{self.unit.name} {self.number}"

    @property
    def detail(self) -> str:
        return f"{self.unit.name} m{{port}}"


@dataclass(frozen=True, eq=False)
class WideProduct(DesignProduct):
    """A product of integers on several hardware multipliers and a tree of additions.

    Parameters
    ----------
    limbs : (int, int)
        Pieces of the operands; each pair of pieces takes a multiplier.
    """

    limbs: tuple[int, int]

    @property
    def latency(self) -> int:
        """Cycles from operands to result."""
        return Multiplier.latency_of(*self.limbs)

    @property
    def key(self) -> str:
        return "{} x {} pieces".format(*self.limbs)

    @property
    def detail(self) -> str:
        return "m{port} of " + self.key

    def place(self, ready: Ready, rules: StageRules) -> Placement:
        issue = ready.stage + (1 if ready.level else 0)
        return Placement(issue, issue + self.latency, rules.levels)


@dataclass(frozen=True, eq=False)
class Product(DesignProduct):
    """A product on a hardware multiplier."""

    latency: int

    @property
    def key(self) -> str:
        return "18 bits"

    @property
    def detail(self) -> str:
        return "m{port}"

    def place(self, ready: Ready, rules: StageRules) -> Placement:
        late = ready.level > rules.memory_level or (rules.registered_factors and ready.after_logic)
        issue = ready.stage + (1 if late else 0)
        return Placement(issue, issue + self.latency, 0 if self.latency else rules.levels)
