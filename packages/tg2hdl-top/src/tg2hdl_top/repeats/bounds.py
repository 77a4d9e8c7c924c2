"""Kernels whose gates check one end of a window, planned as those that check both: they can then share a core.

A convolution with a stride never reaches past the end of a padded row, so that only the start is checked.  With a bound
that is never reached, its plan has the shape of the convolution that checks both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tg2hdl_ir import DType, IRBufLoad, IRConst, IROp, IRValue, IRVariable, KernelIR, RangeAnalysis
from tg2hdl_ir.passes.fold import Folder
from tg2hdl_ir.passes.leaves import leaf_paths
from tg2hdl_ir.passes.rewrite import Rewriter
from tg2hdl_lower import HardwarePlan
from tg2hdl_lower.plan.values import Constant, Variable

__all__ = ["with_both_bounds"]


def with_both_bounds(
    kernel: KernelIR, plan: Callable[[KernelIR], HardwarePlan], usual: HardwarePlan
) -> HardwarePlan | None:
    """The plan of a kernel whose loads check both ends of each window; None where it has no window of one end.

    Parameters
    ----------
    plan : callable
        Plans a kernel as it did for `usual`.
    """
    ranges = RangeAnalysis()
    loads = [s for s in kernel.loop_tree.statements() if isinstance(s, IRBufLoad) and s.gate is not None]
    open_ends = [end for load in loads for end in _open_ends(_conjuncts(load.gate))]
    if not open_ends or kernel.variables:
        return None
    largest, dtype = max(ranges.of(end)[1] for end in open_ends) + 1, open_ends[0].dtype
    if any(end.dtype != dtype for end in open_ends) or largest > dtype.max_value:
        return None
    found = plan(_widened(kernel, loads, set(open_ends), largest))
    while any(isinstance(n, Constant) and n.value == largest for n in found.nodes.values()):
        largest += 1  # Equal constants would be one operation.
        found = plan(_widened(kernel, loads, set(open_ends), largest))
    nodes = {
        number: Constant(number, node.leaf, node.dtype, (largest, largest), largest)
        if isinstance(node, Variable)
        else node
        for number, node in found.nodes.items()
    }
    reached = IRConst(largest, dtype)
    bound_now = Rewriter(_KeptBounds(reached))
    bound_now.memo |= dict.fromkeys(found.kernel.variables, reached)
    # The kernel that is planned, not the usual one, so that validation compares it with its source.
    planned = replace(found.kernel, loop_tree=bound_now.loop(found.kernel.loop_tree), variables=())
    paths = [path[1:] for path in leaf_paths(planned.loop_tree)]
    leaves = tuple(replace(leaf, path=path) for leaf, path in zip(found.leaves, paths, strict=True))
    return replace(found, kernel=planned, nodes=nodes, leaves=leaves, notes=usual.notes, source=None)


class _KeptBounds(Folder):
    """Keeps the comparisons with a bound: the plan has them."""

    def __init__(self, bound: IRConst) -> None:
        super().__init__()
        self.bound = bound

    def op(self, op: str, dtype: DType, *srcs: IRValue) -> IRValue:
        return IROp(op, dtype, srcs) if srcs[-1] is self.bound else super().op(op, dtype, *srcs)


def _widened(kernel: KernelIR, loads: list[IRBufLoad], open_ends: set[IRValue], largest: int) -> KernelIR:
    """The kernel whose loads check both ends; as a variable the bound may be reached, so that no pass folds it."""
    bound = IRVariable("bound", 0, largest, next(iter(open_ends)).dtype)
    rewriter = Rewriter()
    for load in loads:
        rewriter.memo[load] = replace(
            load,
            addr=rewriter.value(load.addr),
            gate=rewriter.optional(_closed(load.gate, open_ends, bound)),
            alt=rewriter.optional(load.alt),
        )
    return replace(kernel, loop_tree=rewriter.loop(kernel.loop_tree), variables=(bound,))


def _conjuncts(gate: IRValue | None) -> list[IRValue]:
    if isinstance(gate, IROp) and gate.op == "and":
        return [part for source in gate.srcs for part in _conjuncts(source)]
    return [] if gate is None else [gate]


def _open_ends(conjuncts: list[IRValue]) -> list[IRValue]:
    """Values that are only compared with a smallest number."""
    pairs = [c.srcs for c in conjuncts if isinstance(c, IROp) and c.op == "lt"]
    ended = {a for a, b in pairs if isinstance(b, IRConst)}
    return [b for a, b in pairs if isinstance(a, IRConst) and b not in ended and not b.dtype.is_float]


def _closed(gate: IRValue | None, open_ends: set[IRValue], bound: IRVariable) -> IRValue | None:
    if not isinstance(gate, IROp):
        return gate
    if gate.op == "and":
        sources = (_closed(source, open_ends, bound) for source in gate.srcs)
        return replace(gate, srcs=tuple(source for source in sources if source is not None))
    if gate.op == "lt" and gate.srcs[1] in open_ends:
        end = IROp("lt", gate.dtype, (gate.srcs[1], bound))
        return IROp("and", gate.dtype, (gate, end))
    return gate
