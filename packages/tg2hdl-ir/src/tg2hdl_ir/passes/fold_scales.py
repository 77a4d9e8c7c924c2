"""Folding: a scale of weights after a sum of products becomes part of the weights of the products.

``(sum(x * w) - mean) * scale + bias`` becomes ``sum(x * (w * scale)) + (bias - mean * scale)``, in which everything
in brackets depends only on weights and is computed once.  Sums of floats are then rounded elsewhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from tg2hdl_ir.analysis.fixed_values import FixedValues
from tg2hdl_ir.nodes import (
    IRBufLoad,
    IRConst,
    IRItem,
    IROp,
    IRRegLoad,
    IRRegStore,
    IRValue,
    KernelIR,
    LoopIR,
)
from tg2hdl_ir.passes.instrument import ir_pass
from tg2hdl_ir.passes.rewrite import Rewriter
from tg2hdl_ir.program import ProgramIR
from tg2hdl_ir.tree import operands
from tg2hdl_ir.verifier import verify

__all__ = ["fold_scales"]


@ir_pass(
    "fold-scales", "scales of float sums become part of the weights", term="distribution of scales over sums"
)
def fold_scales(program: ProgramIR) -> ProgramIR:
    """Fold scales of float sums, such as those of a normalization after a convolution, into weights.

    Results change by rounding.  `hoist_weights` makes tables of the products of weights.
    """
    weights = program.constant_buffers()
    calls = []
    for call in program.calls:
        fixed = FixedValues([slot for slot, number in call.slots.items() if number in weights])
        kernel = call.kernel
        for register in kernel.registers:
            if register.dtype.is_float and register.size == 1:
                kernel = _folded(kernel, register.idx, fixed)
        calls.append(replace(call, kernel=kernel))
    return replace(program, calls=tuple(calls))


@dataclass(frozen=True)
class _Chain:
    """``value == sum * scale + offset``; None for a scale of 1 and for an offset of 0."""

    value: IRValue
    scale: IRValue | None = None
    offset: IRValue | None = None

    def then(self, op: IROp, other: IRValue) -> _Chain | None:
        """The chain with one more operation on a fixed value; None where it is not affine."""
        dtype = op.dtype
        scale, offset = self.scale, self.offset
        match op.op:
            case "add":
                return _Chain(op, scale, other if offset is None else IROp("add", dtype, (offset, other)))
            case "mul":
                scale = other if scale is None else IROp("mul", dtype, (scale, other))
                return _Chain(op, scale, None if offset is None else IROp("mul", dtype, (offset, other)))
            case "sub" if op.srcs[1] is other:
                negative = IROp("neg", dtype, (other,))
                return _Chain(op, scale, negative if offset is None else IROp("sub", dtype, (offset, other)))
            case "sub":
                scale = IRConst(-1.0, dtype) if scale is None else IROp("neg", dtype, (scale,))
                return _Chain(op, scale, other if offset is None else IROp("sub", dtype, (other, offset)))
        return None


def _folded(kernel: KernelIR, register: int, fixed: FixedValues) -> KernelIR:
    """The kernel with the scale of one sum in its weights; the same kernel where that is impossible."""
    found = _sum_of(kernel, register)
    if found is None:
        return kernel
    added, result = found
    chain = _chain(kernel, result, fixed)
    weight = next((s for s in added.srcs if fixed.of(s) is not None), None)
    if weight is None or chain.scale is None or not _fits(kernel, weight, chain.scale, fixed):
        return kernel
    copier, rewriter = Rewriter(), Rewriter()
    scale = copier.value(chain.scale)
    known = fixed.of(chain.scale)
    assert known is not None, "made of fixed values"
    copies = tuple(load for load in (copier.memo[n] for n in known.loads) if isinstance(load, IRBufLoad))
    other = next(s for s in added.srcs if s is not weight)
    scaled = IROp("mul", added.dtype, (rewriter.value(weight), scale))
    rewriter.memo[added] = IROp("mul", added.dtype, (rewriter.value(other), scaled))
    total: IRValue = rewriter.value(result)
    if chain.offset is not None:
        total = IROp("add", added.dtype, (total, rewriter.value(chain.offset)))
    rewriter.memo[chain.value] = total

    def rebuilt(loop: LoopIR) -> LoopIR:
        items: list[IRItem] = []
        for item in loop.items:
            if isinstance(item, LoopIR):
                items.append(rebuilt(item))
                continue
            if isinstance(item, IRRegStore) and item.reg == register and added in operands(item.value):
                items.extend(copies)
            items.append(rewriter.statement(item))
        return LoopIR.from_items(tuple(items), counter=loop.counter, axis_type=loop.axis_type)

    return verify(replace(kernel, loop_tree=rebuilt(kernel.loop_tree)))


def _sum_of(kernel: KernelIR, register: int) -> tuple[IROp, IRRegLoad] | None:
    """Product that a register adds up from zero, and the load of the result at the level that set it to zero."""
    for home in kernel.loop_tree.walk():
        inner = [s for loop in home.loops for s in loop.statements()]
        mine = [s for s in kernel.loop_tree.statements() if _uses(s, register)]
        resets = [s for s in home.prologue if isinstance(s, IRRegStore) and s.reg == register]
        results = [s for s in home.epilogue if isinstance(s, IRRegLoad) and s.reg == register]
        adds = [s for s in inner if isinstance(s, IRRegStore) and s.reg == register]
        if not (len(resets) == len(results) == len(adds) == 1 and len(mine) == 4):
            continue
        zero, store = resets[0], adds[0]
        if not isinstance(zero.value, IRConst) or zero.value.dtype.const_to_bits(zero.value.value):
            return None
        if zero.gate is not None or store.gate is not None:
            return None
        match store.value:
            case IROp(op="add", srcs=(IRRegLoad(reg=reg), IROp(op="mul") as product)) if reg == register:
                return product, results[0]
    return None


def _uses(statement: object, register: int) -> bool:
    return isinstance(statement, IRRegLoad | IRRegStore) and statement.reg == register


def _chain(kernel: KernelIR, result: IRRegLoad, fixed: FixedValues) -> _Chain:
    """The longest chain of affine operations with weights on a result; its values have no other reader."""
    users: dict[IRValue, list[IRValue | None]] = {}
    seen: set[IRValue] = set()
    for statement in kernel.loop_tree.statements():
        stack: list[IRValue] = []
        for value in operands(statement):
            users.setdefault(value, []).append(None)
            stack.append(value)
        while stack:
            node = stack.pop()
            if node in seen or not isinstance(node, IROp):
                continue
            seen.add(node)
            for value in operands(node):
                users.setdefault(value, []).append(node)
                stack.append(value)
    chain = best = _Chain(result)
    while len(users[chain.value]) == 1:
        user = users[chain.value][0]
        if not isinstance(user, IROp) or len(user.srcs) != 2 or not user.dtype.is_float:
            break
        other = user.srcs[user.srcs[0] is chain.value]
        longer = chain.then(user, other) if fixed.of(other) is not None else None
        if longer is None:
            break
        chain = longer
        best = chain if chain.scale is not None else best
    return best


def _fits(kernel: KernelIR, weight: IRValue, scale: IRValue, fixed: FixedValues) -> bool:
    """Whether scaled weights take no more elements than the weights."""
    weights, scales = fixed.of(weight), fixed.of(scale)
    assert weights is not None, "fixed"
    assert scales is not None, "made of fixed values"
    if not weights.loads or not scales.loads or not scales.counters <= weights.counters:
        return False
    depth = math.prod(c.bound for c in weights.counters if isinstance(c.bound, int))
    return depth <= max(kernel.buffer(load.buf_idx).depth for load in weights.loads)
