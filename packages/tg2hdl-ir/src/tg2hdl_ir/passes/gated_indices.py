"""Gates for loads of indices: a load whose value matters only under a gate gets that gate.

tinygrad gates the access of padded rows ``table[ids[i - 1]]``, but not the load of the index in its address, which is
outside of its buffer where the gate is false.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

from tg2hdl_ir.analysis.address_range import gated_interval
from tg2hdl_ir.dtype import DType
from tg2hdl_ir.nodes import (
    IRBufLoad,
    IRBufStore,
    IRConst,
    IRCounter,
    IROp,
    IRRegLoad,
    IRRegStore,
    IRStatement,
    IRValue,
    KernelIR,
    LoopIR,
    operands,
    values_below,
)
from tg2hdl_ir.passes.rewrite import Rewriter

__all__ = ["gate_indices"]

Context = frozenset[IRValue]
"""Conditions that are all true where a value matters."""

_ALWAYS: frozenset[Context] = frozenset((frozenset(),))
_MOST_CONTEXTS = 8


def gate_indices(kernel: KernelIR) -> KernelIR:
    """Gate the loads without gate that may be outside of their buffer and matter only under a condition."""
    rewriter = Rewriter()
    depths = {b.idx: b.depth for b in kernel.buffers}
    open_loads = [s for s in kernel.loop_tree.statements() if isinstance(s, IRBufLoad) and s.gate is None]

    def is_outside(load: IRBufLoad) -> bool:
        low, high = gated_interval(load.addr, None, rewriter.folder.ranges, rewriter.folder.affine)
        return low < 0 or high >= depths[load.buf_idx]

    outside = [load for load in open_loads if is_outside(load)]
    if not outside:
        return kernel
    contexts = _Contexts(kernel)
    gates = {load: gate for load in outside if (gate := contexts.gate_of(load)) is not None}
    if not gates:
        return kernel

    def gated(statement: IRStatement, rebuilt: IRStatement) -> IRStatement:
        if (
            not isinstance(statement, IRBufLoad)
            or statement not in gates
            or not isinstance(rebuilt, IRBufLoad)
        ):
            return rebuilt
        zero = IRConst(rebuilt.dtype.bits_to_const(0), rebuilt.dtype)
        return replace(rebuilt, gate=rewriter.value(gates[statement]), alt=zero)

    rewriter = Rewriter(change=gated)
    return replace(kernel, loop_tree=rewriter.loop(kernel.loop_tree))


class _Contexts:
    """The conditions under which the values of a kernel matter."""

    def __init__(self, kernel: KernelIR) -> None:
        self.users: dict[IRValue, list[IRValue | IRStatement]] = {}
        self.around: dict[IRStatement, frozenset[IRCounter]] = {}
        self._memo: dict[IRValue, frozenset[Context]] = {}
        self._walk(kernel.loop_tree, frozenset())
        seen: set[IRValue | IRStatement] = set()
        stack: list[IRValue | IRStatement] = list(self.around)
        while stack:
            node = stack.pop()
            if node not in seen:
                seen.add(node)
                for source in operands(node):
                    self.users.setdefault(source, []).append(node)
                    stack.append(source)

    def _walk(self, loop: LoopIR, counters: frozenset[IRCounter]) -> None:
        if loop.counter is not None:
            counters |= {loop.counter}
        for item in loop.items:
            if isinstance(item, LoopIR):
                self._walk(item, counters)
            else:
                self.around[item] = counters

    def gate_of(self, load: IRBufLoad) -> IRValue | None:
        """Condition, known where a load executes, without which its value does not matter; None without one."""
        known = {frozenset(c for c in context if self._is_known(c, load)) for context in self._of(load)}
        if not known or frozenset() in known:
            return None
        # In the order of the kernel, so that the same kernel gets the same gates.
        place = {value: n for n, value in enumerate(self.users)}
        least = [sorted(c, key=place.__getitem__) for c in known if not any(other < c for other in known)]
        terms = [reduce(_both, c) for c in sorted(least, key=lambda c: [place[v] for v in c])]
        return reduce(_either, terms)

    def _is_known(self, condition: IRValue, load: IRBufLoad) -> bool:
        """Whether a condition is one of variables and of counters of the loops around a load."""
        return not any(
            isinstance(value, IRBufLoad | IRRegLoad)
            or (isinstance(value, IRCounter) and value not in self.around[load])
            for value in values_below((condition,))
        )

    def _of(self, value: IRValue) -> frozenset[Context]:
        stack = [value]
        while stack:
            node = stack[-1]
            values = [u for u in self.users.get(node, ()) if not isinstance(u, IRBufStore | IRRegStore)]
            pending = [u for u in values if u not in self._memo]
            if node in self._memo or not pending:
                stack.pop()
                if node not in self._memo:
                    self._memo[node] = self._through(node)
                continue
            stack.extend(pending)
        return self._memo[value]

    def _through(self, node: IRValue) -> frozenset[Context]:
        found = {
            context | more
            for user in self.users.get(node, ())
            for context in (_ALWAYS if isinstance(user, IRBufStore | IRRegStore) else self._memo[user])
            for more in _conditions(user, node)
        }
        return frozenset(found) if len(found) <= _MOST_CONTEXTS else _ALWAYS


def _conditions(user: IRValue | IRStatement, value: IRValue) -> list[Context]:
    """Conditions under which a user's result depends on an operand, for each of its places."""
    always: Context = frozenset()
    match user:
        case IROp(op="and", dtype=dtype, srcs=(a, b)) if dtype.is_bool and a is not b:
            return [_conjuncts(b if value is a else a)]
        case IROp(op="where", srcs=(condition, yes, no)):
            is_always = value is condition or value is no
            return [always if is_always else _conjuncts(condition)] if value is yes or is_always else []
        case IRBufLoad() | IRBufStore() | IRRegStore():
            is_gate = (
                user.gate is None or value is user.gate or (isinstance(user, IRBufLoad) and value is user.alt)
            )
            return [always if is_gate else _conjuncts(user.gate)]
    return [always]


def _conjuncts(condition: IRValue | None) -> Context:
    if condition is None:
        return frozenset()
    if isinstance(condition, IROp) and condition.op == "and" and condition.dtype.is_bool:
        return frozenset().union(*map(_conjuncts, condition.srcs))
    return frozenset((condition,))


def _both(first: IRValue, second: IRValue) -> IRValue:
    return IROp("and", DType.BOOL, (first, second))


def _either(first: IRValue, second: IRValue) -> IRValue:
    return IROp("or", DType.BOOL, (first, second))
