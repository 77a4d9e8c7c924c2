"""Binding: each op gets combinational logic or a pipelined unit from the registry."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tg2hdl_ir import (
    ArithmeticUnit,
    DType,
    IROp,
    IRRegLoad,
    IRRegStore,
    IRValue,
    KernelIR,
    UnsupportedError,
    operands,
    registry,
)
from tg2hdl_lower.options import LowerOptions
from tg2hdl_lower.plan.node import Node
from tg2hdl_lower.plan.operations import Op, UnitOp
from tg2hdl_lower.plan.values import Constant

__all__ = ["Binder", "Bound", "recurrence_latency"]


@dataclass(frozen=True)
class Bound:
    """The hardware of an op: the class of its node, and the fields that this class adds to those of `Operation`."""

    kind: type[Op | UnitOp]
    fields: dict[str, Any]


class Binder:
    """Chooses hardware for ops: the user's explicit unit, then combinational logic that is fast enough, then a unit."""

    def __init__(self, options: LowerOptions, where: str) -> None:
        self.options = options
        self.where = where
        self.registry = registry()

    def bind(self, op: IROp, sources: Sequence[Node]) -> Bound:
        """Hardware of an op.

        Parameters
        ----------
        op : IROp
        sources : sequence of Node
            Nodes of the operands.

        Raises
        ------
        UnsupportedError
            When nothing computes the op on these types.
        """
        exact = tuple(s.dtype for s in op.srcs)
        slow: Bound | None = None
        if not self.is_chosen(op):
            slow, fast = self._combinational(op, exact, sources)
            if slow is not None and fast:
                return slow
        unit = self._unit(op)
        if unit is None and slow is not None:
            return slow
        if unit is None:
            types = ", ".join(map(str, exact))
            raise UnsupportedError(
                f"no hardware computes {op.op}({types}) -> {op.dtype}",
                where=self.where,
                notes=self.registry.notes(),
                hint="cast to a supported type, or install a plugin with a unit for it; "
                "`tg2hdl plugins list` shows all",
            )
        return Bound(UnitOp, {"unit": unit})

    def is_chosen(self, op: IROp) -> bool:
        """Whether the user named the unit of an op, for these types; ops of other types are not affected."""
        names = self.options.units.get(op.op, ())
        unit = self._unit(op) if names else None
        return unit is not None and unit.name in ((names,) if isinstance(names, str) else names)

    def _unit(self, op: IROp) -> ArithmeticUnit | None:
        types = tuple(s.dtype for s in op.srcs)
        return self.registry.select_unit(
            op.op, types, op.dtype, target=self.options.target, explicit=self.options.units
        )

    def _combinational(
        self, op: IROp, exact: tuple[DType, ...], sources: Sequence[Node]
    ) -> tuple[Bound | None, bool]:
        """Combinational hardware of an op, and whether it is to be preferred to a unit."""
        lowering = self.registry.select_lowering(op.op, exact, op.dtype)
        if lowering is None:
            return None, False
        narrow = tuple(_narrow(s) for s in sources)
        levels = _levels_by_constant(op.op, sources)
        if levels is None:
            levels = self.registry.call(lowering, "levels", narrow, op.dtype)
        fields = {"lowering": lowering, "levels": math.inf if levels is None else levels}
        return Bound(Op, fields), levels is not None


def _levels_by_constant(op: str, sources: Sequence[Node]) -> int | None:
    """Logic levels of an integer op where a constant makes them fewer: wires, or an AND with the sign bit."""
    values = [s.value if isinstance(s, Constant) and not s.dtype.is_float else None for s in sources]
    if op in ("shl", "shr"):
        return 0 if values[1] is not None else None
    return 1 if op == "max" and 0 in values else None


def recurrence_latency(kernel: KernelIR, options: LowerOptions) -> int:
    """Cycles from a register to its next contents (1 or more), the longest path through the float units of a kernel.

    Parameters
    ----------
    kernel : KernelIR
    options : LowerOptions
        Of which units are chosen.
    """
    known = registry()
    stores = [s for s in kernel.loop_tree.statements() if isinstance(s, IRRegStore)]
    paths: dict[IRValue, int | None] = {}
    stack: list[IRValue] = [s.value for s in stores]
    while stack:
        value = stack[-1]
        pending = [s for s in operands(value) if s not in paths]
        if pending and value not in paths:
            stack.extend(pending)
            continue
        stack.pop()
        if isinstance(value, IRRegLoad):
            paths[value] = 0
            continue
        before = [w for s in operands(value) if (w := paths[s]) is not None]
        latency = 0
        if before and isinstance(value, IROp) and value.dtype.is_float:
            types = tuple(s.dtype for s in value.srcs)
            unit = known.select_unit(
                value.op, types, value.dtype, target=options.target, explicit=options.units
            )
            latency = 0 if unit is None else unit.latency
        paths[value] = max(before) + latency if before else None
    return max((paths[s.value] or 0 for s in stores), default=0) or 1


def _narrow(node: Node) -> DType:
    if node.dtype.is_float or node.dtype.is_bool:
        return node.dtype
    return DType.from_width(node.width, node.signed)
