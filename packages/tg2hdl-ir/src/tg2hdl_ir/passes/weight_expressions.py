"""Maximal subexpressions of a kernel that depend only on weights, and the kernel that tabulates one."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace

from tg2hdl_ir.analysis.affine import AffineAnalysis
from tg2hdl_ir.analysis.fixed_values import FixedValues
from tg2hdl_ir.nodes import (
    BufferMeta,
    IRBufLoad,
    IRBufStore,
    IRConst,
    IRCounter,
    IRItem,
    IROp,
    IRStatement,
    IRValue,
    KernelIR,
    LoopIR,
)
from tg2hdl_ir.passes.flat_address import flat_address
from tg2hdl_ir.passes.rewrite import Rewriter
from tg2hdl_ir.tree import operands
from tg2hdl_ir.verifier import verify

__all__ = ["WeightExpression", "weight_expressions"]

_SMALL = 16384
"""Largest table that may exceed the buffers that it replaces: one block RAM (bits)."""

_MOVES = ("cast", "bitcast")
_COSTLY = ("mul", "mulacc", "div", "mod")


@dataclass(frozen=True, eq=False)
class WeightExpression:
    """A value of a kernel that is a table of its counters.

    Parameters
    ----------
    root : IROp or IRBufLoad
    loads : tuple of IRBufLoad
        Loads that it is made of; the last one in program order is where the table is read.
    counters : tuple of IRCounter
        Indices of the table, outermost first; empty for a table of one element.
    index_of : mapping of value to IRCounter
        Values of the kernel that equal an index of the table: its counters, or the addresses of the loads when the
        table has the shape of the buffers that it is made of.
    address : IRValue
        Element of the table, in counters of the kernel.
    costly : bool
        Whether hardware would compute it with a multiplier or a floating-point unit.
    """

    root: IROp | IRBufLoad
    loads: tuple[IRBufLoad, ...]
    counters: tuple[IRCounter, ...]
    index_of: Mapping[IRValue, IRCounter]
    address: IRValue
    costly: bool

    @property
    def depth(self) -> int:
        """Elements of the table."""
        return math.prod(c.bound for c in self.counters if isinstance(c.bound, int))

    def is_worth(self, bits: int, read: int) -> bool:
        """Whether a table of so many bits may take the place of logic on buffers of `read` bits.

        Parameters
        ----------
        bits : int
            Size of the table.
        read : int
            Size of the weights that the expression reads, in bits.
        """
        return bits <= read or (self.costly and bits <= _SMALL)

    def kernel(self, kernel: KernelIR, name: str) -> KernelIR:
        """Kernel that computes the table in slot 0 from the kernel's own slots, each one higher.

        Parameters
        ----------
        kernel : KernelIR
            The kernel that has the expression.
        name : str
            Of the table and of the kernel that computes it.
        """
        out = BufferMeta(0, self.depth, self.root.dtype, True, name)
        rewriter = Rewriter(change=_one_slot_higher)
        rewriter.memo.update(self.index_of)
        items: list[IRItem] = [rewriter.changed(load) for load in self.loads]
        items.append(IRBufStore(0, flat_address(self.counters), rewriter.value(self.root), self.root.dtype))
        for counter in reversed(self.counters):
            items = [LoopIR.from_items(tuple(items), counter=counter, axis_type="loop")]
        used = dict.fromkeys(load.buf_idx for load in self.loads)
        metas = (kernel.buffer(idx) for idx in used)
        buffers = (out, *(BufferMeta(1 + b.idx, b.depth, b.dtype, False, b.name) for b in metas))
        return verify(KernelIR(buffers, LoopIR.from_items(tuple(items)), name=name))

    def key(self, buffers: Mapping[int, int]) -> Hashable:
        """Same for expressions that compute the same table; `buffers` numbers the slots across kernels."""
        numbers = {value: -1 - counter.axis for value, counter in self.index_of.items()}
        known: dict[Hashable, int] = {}
        stack: list[IRValue] = [self.root]
        while stack:
            node = stack[-1]
            pending = [v for v in operands(node) if v not in numbers]
            if pending and node not in numbers:
                stack.extend(pending)
                continue
            stack.pop()
            if node not in numbers:
                parts = (self._label(node, buffers), *(numbers[v] for v in operands(node)))
                numbers[node] = known.setdefault(parts, len(known))
        return tuple((c.bound, c.dtype) for c in self.counters), tuple(known)

    def _label(self, node: IRValue, buffers: Mapping[int, int]) -> Hashable:
        match node:
            case IRConst():
                return "const", node.dtype, node.dtype.const_to_bits(node.value)
            case IRBufLoad():
                return "load", node.dtype, buffers[node.buf_idx], node.gate is None, node.alt is None
            case IROp():
                return node.op, node.dtype
        raise AssertionError("an expression of weights has no other nodes")


def _one_slot_higher(statement: IRStatement, rebuilt: IRStatement) -> IRStatement:
    assert isinstance(rebuilt, IRBufLoad), "a load stays a load"
    return replace(rebuilt, buf_idx=1 + rebuilt.buf_idx)


def weight_expressions(
    kernel: KernelIR, fixed: FixedValues, accept: Callable[[WeightExpression], bool]
) -> list[WeightExpression]:
    """Maximal accepted fixed expressions with an op; where one is rejected, its operands are tried.

    Parameters
    ----------
    kernel : KernelIR
    fixed : FixedValues
        Which values depend only on weights.
    accept : callable
        Whether an expression may become a table.
    """
    order, levels = _placed(kernel)
    affine = AffineAnalysis()
    accepted: list[WeightExpression] = []
    seen: set[IRValue] = set()
    stack = [
        value
        for statement in kernel.loop_tree.statements()
        if not isinstance(statement, IRBufLoad) or fixed.of(statement) is None
        for value in operands(statement)
    ]
    while stack:
        value = stack.pop()
        found = fixed.of(value)
        if value in seen or (found is None and isinstance(value, IRBufLoad)):
            continue
        seen.add(value)
        if found is not None and not found.loads:
            continue
        if found is not None and isinstance(value, IROp | IRBufLoad):
            loads = tuple(sorted(found.loads, key=order.__getitem__))
            if found.counters <= levels[loads[-1]]:
                made = _expression(kernel, value, loads, found.counters, affine, fixed)
                if made is not None and accept(made):
                    accepted.append(made)
                    continue
        stack.extend(operands(value))
    return accepted


def _placed(kernel: KernelIR) -> tuple[dict[IRValue, int], dict[IRValue, frozenset[IRCounter]]]:
    order: dict[IRValue, int] = {}
    levels: dict[IRValue, frozenset[IRCounter]] = {}

    def walk(loop: LoopIR, path: frozenset[IRCounter]) -> None:
        if loop.counter is not None:
            path |= {loop.counter}
        for item in loop.items:
            if isinstance(item, LoopIR):
                walk(item, path)
            elif isinstance(item, IRBufLoad):
                order[item], levels[item] = len(order), path

    walk(kernel.loop_tree, frozenset())
    return order, levels


def _expression(
    kernel: KernelIR,
    root: IROp | IRBufLoad,
    loads: tuple[IRBufLoad, ...],
    counters: frozenset[IRCounter],
    affine: AffineAnalysis,
    fixed: FixedValues,
) -> WeightExpression | None:
    ops, plain = _ops_of_weights(root, fixed)
    if all(op.op in _MOVES and not _is_conversion(op) for op in ops) and len(loads) == 1:
        return None
    costly = any(op.op in _COSTLY or (_is_real(op) and op.op != "cast") for op in ops)
    indices = tuple(sorted(counters, key=_order_of(kernel, loads, affine)))
    own = tuple(IRCounter(c.bound, n, n, c.dtype) for n, c in enumerate(indices))
    table = WeightExpression(
        root, loads, own, dict(zip(indices, own, strict=True)), flat_address(indices), costly
    )
    moving = [load for load in loads if not isinstance(load.addr, IRConst)]
    places, depths = (
        {affine.of(load.addr) for load in moving},
        {kernel.buffer(load.buf_idx).depth for load in moving},
    )
    if (
        not plain
        or len(places) != 1
        or None in places
        or len(depths) != 1
        or (size := depths.pop()) > table.depth
    ):
        return table if table.depth else None
    # The table has the shape of the buffers that it is made of, and their address.
    whole = IRCounter(size, 0, 0)
    return WeightExpression(
        root, loads, (whole,), {load.addr: whole for load in moving}, moving[0].addr, costly
    )


def _order_of(
    kernel: KernelIR, loads: tuple[IRBufLoad, ...], affine: AffineAnalysis
) -> Callable[[IRCounter], tuple[int, int]]:
    """Order of the counters in the largest buffer: the table is laid out like it."""
    largest = max(loads, key=lambda load: kernel.buffer(load.buf_idx).depth)
    form = affine.of(largest.addr)
    return lambda c: (-abs(form.coefficient(c)) if form is not None else 0, c.depth)


def _ops_of_weights(root: IRValue, fixed: FixedValues) -> tuple[list[IROp], bool]:
    """Ops between the loads and the root, and whether counters appear in addresses only."""
    ops: list[IROp] = []
    plain = True
    seen: set[IRValue] = set()
    stack = [root]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if isinstance(node, IRBufLoad):
            address = fixed.of(node.addr)
            nested = address is None or bool(address.loads)
            plain = plain and node.gate is None and not nested
            stack.extend(v for v in (node.gate, node.alt, node.addr if nested else None) if v is not None)
            continue
        found = fixed.of(node)
        if isinstance(node, IROp) and found is not None and found.loads:
            ops.append(node)
            stack.extend(node.srcs)
        elif found is not None and found.counters:
            plain = False
    return ops, plain


def _is_real(op: IROp) -> bool:
    moves = op.op in ("bitcast", "where", "neg") or (op.op == "cast" and op.dtype.is_bool)
    return not moves and (op.dtype.is_float or any(s.dtype.is_float for s in op.srcs))


def _is_conversion(op: IROp) -> bool:
    return op.op == "cast" and _is_real(op)
