"""Static analysis of a kernel for the golden model: where values live, which loops run at once, recurrences."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tg2hdl_ir.analysis.axes import is_injective
from tg2hdl_ir.analysis.dependence import Dependence
from tg2hdl_ir.analysis.ranges import RangeAnalysis
from tg2hdl_ir.errors import IRVerificationError
from tg2hdl_ir.golden.interchange import interchanged
from tg2hdl_ir.nodes import (
    IRBufLoad,
    IRBufStore,
    IRConst,
    IRCounter,
    IROp,
    IRRegLoad,
    IRRegStore,
    IRValue,
    IRVariable,
    KernelIR,
    LoopIR,
    operands,
)

__all__ = ["Plan", "Selector"]

Selector: TypeAlias = Callable[..., Callable[..., Any]]

_POINTS = 1 << 24
_MOST, _LEAST = 1 << 18, 1 << 12


@dataclass
class Plan:
    """Static facts of a kernel with known trip counts.

    Parameters
    ----------
    home : mapping of value to int
        Frame that holds a value: that of the innermost loop that it depends on, 1 for an outermost one; 0 outside.
    width : mapping of loop to int
        Iterations that run at once inside one iteration of a loop.
    limit : int
        Most iterations that run at once; bounds the memory that intermediate arrays take.
    """

    kernel: KernelIR
    dependence: Dependence
    select: Selector
    home: dict[IRValue, int] = field(default_factory=dict)
    width: dict[LoopIR, int] = field(default_factory=dict)
    unique: set[IRBufStore] = field(default_factory=set)
    dynamic: frozenset[int] = frozenset()
    functions: dict[IROp, Callable[..., Any]] = field(default_factory=dict)
    limit: int = _MOST
    recurrences: dict[LoopIR, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, kernel: KernelIR, bounds: Mapping[int, int], select: Selector) -> Plan:
        """Analyze a kernel."""
        kernel, dependence = interchanged(kernel, bounds)
        plan = cls(kernel, dependence, select)
        plan._place(kernel.loop_tree, 0)
        plan._measure(kernel.loop_tree)
        plan.dynamic = frozenset(
            s.reg
            for s in kernel.loop_tree.statements()
            if isinstance(s, IRRegLoad | IRRegStore)
            and s.index is not None
            and not isinstance(s.index, IRConst)
        )
        plan._find_unique()
        plan.limit = max(_LEAST, min(_MOST, _POINTS // max(1, len(plan.home))))
        return plan

    def function(self, op: IROp) -> Callable[..., Any]:
        """Golden evaluation of an op."""
        if op not in self.functions:
            self.functions[op] = self.select(op.op, tuple(s.dtype for s in op.srcs), op.dtype)
        return self.functions[op]

    def _place(self, loop: LoopIR, depth: int) -> None:
        if loop.counter is not None:
            self.home[loop.counter] = depth
        for item in loop.items:
            if isinstance(item, LoopIR):
                self._place(item, depth + 1)
                continue
            for value in operands(item):
                self._settle(value)
            if isinstance(item, IRBufLoad | IRRegLoad):
                self.home[item] = depth

    def _settle(self, value: IRValue) -> None:
        stack = [value]
        while stack:
            node = stack[-1]
            if node in self.home:
                stack.pop()
                continue
            pending = [s for s in operands(node) if s not in self.home] if isinstance(node, IROp) else []
            if pending:
                stack.extend(pending)
                continue
            match node:
                case IROp():
                    self.home[node] = max((self.home[s] for s in node.srcs), default=0)
                case IRConst() | IRVariable():
                    self.home[node] = 0
                case _:
                    raise IRVerificationError(
                        f"{type(node).__name__} is used before the loop in which it executes",
                        where=f"kernel {self.kernel.name}",
                    )
            stack.pop()

    def _measure(self, loop: LoopIR) -> int:
        width = 1
        for inner in loop.loops:
            own = self.dependence.bound(inner) if self.dependence.parallel(inner) else 1
            width = max(width, own * self._measure(inner))
        self.width[loop] = width
        return width

    def _find_unique(self) -> None:
        ranges = RangeAnalysis()
        for access in self.dependence.accesses[self.kernel.loop_tree]:
            store = access.statement
            if not isinstance(store, IRBufStore):
                continue
            form = self.dependence.forms.of(store.addr)
            if form is None or not is_injective(form, ranges):
                continue
            present = {s for s, _ in form.terms if isinstance(s, IRCounter)}
            if all(one.counter in present for one in access.loops if one.counter is not None):
                self.unique.add(store)
