"""Static analysis of a kernel for the golden model: where values live, which loops run at once, recurrences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from tg2hdl_ir.analysis.axes import is_injective
from tg2hdl_ir.analysis.dependence import Dependence
from tg2hdl_ir.analysis.ranges import RangeAnalysis
from tg2hdl_ir.dtype import DType
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

__all__ = ["GoldenPlan", "GoldenStep", "Selector", "ops_first", "post_order"]

Array = npt.NDArray[Any]
Selector: TypeAlias = Callable[..., Callable[..., Any]]

_POINTS = 1 << 24
_MOST, _LEAST = 1 << 18, 1 << 12


class GoldenStep(NamedTuple):
    """An op with its golden evaluation and the frames of its result and of its operands."""

    op: IROp
    home: int
    function: Callable[..., Any]
    types: tuple[DType, ...]
    sources: tuple[tuple[IRValue, int], ...]


@dataclass
class GoldenPlan:
    """Static facts of a kernel with known trip counts.

    Parameters
    ----------
    home : mapping of value to int
        Frame that holds a value: that of the innermost loop that it depends on, 1 for an outermost one; 0 outside.
    constants : mapping of value to ndarray
        Literals.
    orders : mapping of value to tuple of steps
        Ops that a value is made of, operands first.
    width : mapping of loop to int
        Iterations that run at once inside one iteration of a loop.
    limit : int
        Most iterations that run at once; bounds the memory that intermediate arrays take.
    """

    kernel: KernelIR
    dependence: Dependence
    select: Selector
    home: dict[IRValue, int] = field(default_factory=dict)
    constants: dict[IRValue, Array] = field(default_factory=dict)
    orders: dict[IRValue, tuple[GoldenStep, ...]] = field(default_factory=dict)
    width: dict[LoopIR, int] = field(default_factory=dict)
    unique: set[IRBufStore] = field(default_factory=set)
    dynamic: frozenset[int] = frozenset()
    limit: int = _MOST
    recurrences: dict[LoopIR, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, kernel: KernelIR, bounds: Mapping[int, int], select: Selector) -> GoldenPlan:
        """Analyze a kernel.

        Parameters
        ----------
        kernel : KernelIR
        bounds : mapping of int to int
            Trip count of each axis.
        select : Selector
            Chooses the evaluation of an op on its formats.
        """
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

    def step(self, op: IROp) -> GoldenStep:
        """Golden evaluation of an op."""
        types = tuple(s.dtype for s in op.srcs)
        sources = tuple((s, self.home[s]) for s in op.srcs)
        return GoldenStep(op, self.home[op], self.select(op.op, types, op.dtype), types, sources)

    def order(self, value: IRValue) -> tuple[GoldenStep, ...]:
        """Ops that a value is made of, up to the loads of statements, operands first."""
        found = self.orders.get(value)
        if found is None:
            ops = (node for node in ops_first([value]) if isinstance(node, IROp))
            found = self.orders[value] = tuple(map(self.step, ops))
        return found

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
                    if isinstance(node, IRConst):
                        self.constants[node] = constant(node)
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


def constant(node: IRConst) -> Array:
    """Literal as an array without dimensions."""
    bits = np.array(node.dtype.const_to_bits(node.value), dtype=np.uint64)
    return np.asarray(node.dtype.bits_to_array(bits))


def post_order(
    roots: Iterable[IRValue], sources: Callable[[IRValue], Sequence[IRValue]]
) -> Iterator[IRValue]:
    """Values and all below them, sources first.

    Parameters
    ----------
    roots : iterable of IRValue
    sources : callable
        Operands of a value.
    """
    seen: set[IRValue] = set()
    for root in roots:
        stack: list[tuple[IRValue, bool]] = [(root, False)]
        while stack:
            node, ready = stack.pop()
            if ready:
                yield node
            elif node not in seen:
                seen.add(node)
                stack.append((node, True))
                stack.extend((s, False) for s in reversed(sources(node)))


def ops_first(roots: Sequence[IRValue]) -> Iterator[IRValue]:
    """Values below some others, operands first; the address of a load is not below an op of it."""
    return post_order(roots, lambda node: node.srcs if isinstance(node, IROp) else ())
