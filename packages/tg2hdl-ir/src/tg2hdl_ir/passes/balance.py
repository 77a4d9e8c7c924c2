"""Balancing: a chain of integer additions (or min, max, and, or, xor) becomes a tree with the register last.

So do float additions where the user gave up their order.  Where the sums in between are used too, as in a scan, each is
the register plus a prefix of the terms.  The prefixes share their trees, as in Sklansky's conditional-sum adder (1960).

Float extrema keep their bits.  ``max(a, b)`` is ``b if b > a else a``: a chain that starts at `a` gives the first of
its largest elements and skips every later NaN.  Among numbers "the first of the largest" is associative, so a tree of
the terms in their order gives the same element, -0 and +0 included.  A NaN must not be the first operand in the tree:
there the infinity that no term exceeds takes its place.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

from tg2hdl_ir.analysis.axes import is_associative, keeps_order
from tg2hdl_ir.dtype import DType
from tg2hdl_ir.nodes import IRConst, IROp, IRRegLoad, IRRegStore, IRValue, KernelIR, operands
from tg2hdl_ir.passes.fold import Folder
from tg2hdl_ir.passes.instrument import ir_pass
from tg2hdl_ir.passes.rewrite import Rewriter

__all__ = ["balance"]


@ir_pass(
    "balance",
    "chains of an associative op become trees with the register last",
    term="tree height reduction",
)
def balance(kernel: KernelIR, *, regroup_floats: bool = False) -> KernelIR:
    """Regroup chains of integers and extrema of floats, whose results do not depend on the grouping.

    Parameters
    ----------
    kernel : KernelIR
    regroup_floats : bool
        Regroup float sums too, which changes their rounding.
    """
    uses: Counter[IRValue] = Counter(v for s in kernel.loop_tree.statements() for v in operands(s))
    seen: set[IRValue] = set()
    stack = list(uses)
    while stack:
        value = stack.pop()
        if value not in seen:
            seen.add(value)
            for source in operands(value):
                uses[source] += 1
                stack.append(source)
    balancer = _Balancer(uses, regroup_floats)
    for statement in kernel.loop_tree.statements():
        if isinstance(statement, IRRegStore):
            balancer.find_prefixes(statement.value)
    return replace(kernel, loop_tree=balancer.loop(kernel.loop_tree))


def _neutral(op: str, dtype: DType) -> IRConst:
    if dtype.is_float and op != "add":
        return IRConst(-math.inf if op == "max" else math.inf, dtype)
    if dtype.is_float:
        # Unlike 0.0 it leaves a sum of negative zeros as it is.
        return IRConst(-0.0, dtype)
    value = {"add": 0, "or": 0, "xor": 0, "and": -1, "min": dtype.max_value, "max": dtype.min_value}[op]
    return IRConst(bool(value) if dtype.is_bool else dtype.wrap(value), dtype)


def _is_neutral(value: IRValue, op: str) -> bool:
    return isinstance(value, IRConst) and value.value == _neutral(op, value.dtype).value


class _Balancer(Rewriter):
    def __init__(self, uses: Counter[IRValue], regroup_floats: bool) -> None:
        super().__init__(Folder())
        self.uses = uses
        self.regroup_floats = regroup_floats
        self.carried: dict[IRValue, bool] = {}
        self.chains: dict[IRValue, str | None] = {}
        self.prefixes: set[IRValue] = set()
        self.trees: dict[tuple[str, tuple[IRValue, ...]], IRValue] = {}
        self.numbers: set[IRValue] = set()

    def find_prefixes(self, updated: IRValue) -> None:
        """Note the sums that lead to a register's new value, if one of them is used elsewhere too."""
        op = self._chain_op(updated)
        found: list[IRValue] = []
        shared = False
        node = updated
        while op is not None and isinstance(node, IROp) and self._chain_op(node) == op:
            found.append(node)
            before = [node.srcs[2]] if node.op == "where" else [s for s in node.srcs if self._is_carried(s)]
            if len(before) != 1:
                break
            shared = shared or (
                isinstance(before[0], IROp) and self.uses[before[0]] > 1 + (node.op == "where")
            )
            (node,) = before
        if shared and len(found) > 1:
            self.prefixes.update(found)

    def _rebuild(self, node: IRValue) -> IRValue:
        op = self._chain_op(node)
        if op is None:
            return super()._rebuild(node)
        leaves = self._leaves(node, op, limit=None)
        if len(leaves) < 3:
            return super()._rebuild(node)
        if node in self.prefixes:
            return self._prefix(op, node.dtype, leaves)
        return self._tree(op, node.dtype, leaves)

    def _chain_op(self, node: IRValue) -> str | None:
        if node not in self.chains:
            self.chains[node] = self._find_chain_op(node)
        return self.chains[node]

    def _find_chain_op(self, node: IRValue) -> str | None:
        if not isinstance(node, IROp):
            return None
        if self._is_associative(node):
            return node.op
        # where(gate, acc + x, acc) is acc + where(gate, x, 0): the chain goes on through the mask
        if node.op == "where" and self._is_carried(node.srcs[2]):
            yes, no = node.srcs[1:]
            if isinstance(yes, IROp) and self._is_associative(yes) and no in yes.srcs and self.uses[yes] <= 1:
                return yes.op
        return None

    def _is_associative(self, node: IROp) -> bool:
        if not is_associative(node.op, node.dtype, self.regroup_floats):
            return False
        if not keeps_order(node.op, node.dtype):
            return True
        before, term = node.srcs
        starts = self._is_carried(before) or _is_neutral(before, node.op)
        return (starts or self._chain_op(before) == node.op) and not self._is_carried(term)

    def _leaves(self, node: IRValue, op: str, limit: int | None) -> list[IRValue]:
        within = limit is None or self.uses[node] <= limit or node in self.prefixes
        if not isinstance(node, IROp) or not within or self._chain_op(node) != op:
            return [self.value(node)]
        if node.op == op and keeps_order(op, node.dtype):
            return [*self._leaves(node.srcs[0], op, limit=1), self.value(node.srcs[1])]
        if node.op == op:
            return [leaf for source in node.srcs for leaf in self._leaves(source, op, limit=1)]
        gate, yes, no = node.srcs
        assert isinstance(yes, IROp), "checked by _chain_op"
        other = yes.srcs[1] if yes.srcs[0] is no else yes.srcs[0]
        masked = IROp("where", node.dtype, (gate, other, _neutral(op, node.dtype)))
        return [*self._leaves(no, op, limit=2), self.value(masked)]

    def _is_carried(self, value: IRValue) -> bool:
        if value not in self.carried:
            self.carried[value] = isinstance(value, IRRegLoad) or (
                isinstance(value, IROp) and any(self._is_carried(s) for s in value.srcs)
            )
        return self.carried[value]

    def _prefix(self, op: str, dtype: DType, leaves: list[IRValue]) -> IRValue:
        """The register and the terms up to one of them, in order."""
        value = self._joined(op, dtype, tuple(v for v in leaves if not self._is_carried(v)))
        for other in (v for v in leaves if self._is_carried(v)):
            value = self.folder.op(op, dtype, other, value)
        return value

    def _joined(self, op: str, dtype: DType, terms: tuple[IRValue, ...]) -> IRValue:
        """Tree of some terms; those that begin at the same one share the tree of the first 2, 4, 8, ..."""
        if len(terms) == 1:
            return terms[0]
        if (op, terms) not in self.trees:
            half = 1 << (len(terms) - 1).bit_length() - 1
            parts = self._joined(op, dtype, terms[:half]), self._joined(op, dtype, terms[half:])
            self.trees[op, terms] = self._pair(op, dtype, *parts)
        return self.trees[op, terms]

    def _pair(self, op: str, dtype: DType, first: IRValue, second: IRValue) -> IRValue:
        """Node of a tree; the first operand of an extreme of floats is a number."""
        if not keeps_order(op, dtype):
            return self.folder.op(op, dtype, first, second)
        if first not in self.numbers and not _is_neutral(first, op):
            first = self.folder.op(op, dtype, _neutral(op, dtype), first)
        made = self.folder.op(op, dtype, first, second)
        self.numbers.add(made)
        return made

    def _tree(self, op: str, dtype: DType, leaves: list[IRValue]) -> IRValue:
        if dtype.is_float and op == "add":
            # A level of the tree would add the zero that sums start at.
            leaves = [v for v in leaves if not (isinstance(v, IRConst) and v.value == 0)] or leaves[:1]
        carried = [v for v in leaves if self._is_carried(v)]
        level = [v for v in leaves if not self._is_carried(v)]
        while len(level) > 1:
            paired = [self._pair(op, dtype, level[i], level[i + 1]) for i in range(0, len(level) - 1, 2)]
            level = paired + level[len(level) & ~1 :]
        result = level + carried
        value = result[0]
        for other in result[1:]:
            value = self.folder.op(op, dtype, other, value)
        return value
