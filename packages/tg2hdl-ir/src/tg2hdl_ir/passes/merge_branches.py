"""Branches that a counter chooses between: their products become one product of chosen operands.

A stack or concatenation arrives as a choice between all parts in every iteration, such as the two results of a complex
product.  Each iteration needs the products of one part only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from tg2hdl_ir.analysis.affine import AffineAnalysis
from tg2hdl_ir.analysis.cases import Cases, cases_of, is_product
from tg2hdl_ir.nodes import IRBufLoad, IROp, IRRegLoad, IRValue, KernelIR
from tg2hdl_ir.passes.instrument import ir_pass
from tg2hdl_ir.passes.rewrite import Rewriter
from tg2hdl_ir.tree import operands, values_below

__all__ = ["merge_branches"]

MAX_ROUNDS = 8
"""Conditions that are merged, one after the other."""

_Pair = tuple[IROp, IROp]


@ir_pass("merge-branches", "products of two branches become one of chosen operands", term="branch fusion")
def merge_branches(kernel: KernelIR) -> KernelIR:
    """The kernel with products that are never needed in the same iteration merged; itself where there are none.

    Of two products one is needed only where a condition on counters holds, and the other one only where it does not.
    """
    for _ in range(MAX_ROUNDS):
        merged = _merged(kernel)
        if merged is kernel:
            break
        kernel = merged
    return kernel


def _merged(kernel: KernelIR) -> KernelIR:
    """Products of the branches of one condition merged; the kernel itself where no condition has two."""
    loads = [s for s in kernel.loop_tree.statements() if isinstance(s, IRBufLoad | IRRegLoad)]
    statements = [s for s in kernel.loop_tree.statements() if not isinstance(s, IRBufLoad | IRRegLoad)]
    loading = values_below(v for load in loads for v in operands(load))
    below = [values_below(operands(statement)) for statement in statements]
    users = Counter(value for values in below for value in values)
    affine = AffineAnalysis()
    for statement in statements:
        found = cases_of(operands(statement))
        # Those of other statements have other loads in scope.
        own = {
            value: cases
            for value, cases in found.items()
            if isinstance(value, IROp) and value.op == "mul" and is_product(value)
            if users[value] == 1 and value not in loading and affine.of(value) is None
        }
        for condition in _innermost_first(own):
            yes, no = (_only(own, condition, truth) for truth in (True, False))
            if pairs := _pairs(yes, no):
                return _with_pairs(kernel, condition, pairs)
    return kernel


def _innermost_first(products: dict[IROp, Cases]) -> list[IRValue]:
    """Conditions of the cases; those that are met only below others come first."""
    depths: dict[IRValue, int] = {}
    for cases in products.values():
        for case in cases:
            for condition, _ in case:
                depths[condition] = min(len(case), depths.get(condition, len(case)))
    return sorted(depths, key=lambda condition: -depths[condition])


def _only(products: dict[IROp, Cases], condition: IRValue, truth: bool) -> list[IROp]:
    """Products that are needed only where a condition has this truth."""
    return [p for p, cases in products.items() if all((condition, truth) in case for case in cases)]


def _pairs(yes: Sequence[IROp], no: Sequence[IROp]) -> list[_Pair]:
    """Products of equal types and equal depth, those with a common operand first; the lowest come first.

    A product then depends on merged ones of lower depth only.
    """
    depths = _depths([*yes, *no])
    left = list(no)
    pairs: list[_Pair] = []
    for shared in (True, False):
        for product in yes:
            if any(product is first for first, _ in pairs):
                continue
            fitting = (
                other
                for other in left
                if depths[other] == depths[product]
                and _types(other) == _types(product)
                and (not shared or not set(product.srcs).isdisjoint(other.srcs))
            )
            other = next(fitting, None)
            if other is not None:
                left.remove(other)
                pairs.append((product, other))
    return sorted(pairs, key=lambda pair: depths[pair[0]])


def _depths(products: Sequence[IROp]) -> dict[IROp, int]:
    """Most products on a path below each one."""
    known: dict[IROp, int] = {}
    for product in sorted(products, key=lambda p: len(values_below((p,)))):
        inner = [known[v] for v in values_below(product.srcs) if isinstance(v, IROp) and v in known]
        known[product] = 1 + max(inner, default=0)
    return known


def _types(product: IROp) -> tuple[object, ...]:
    return product.dtype, *(source.dtype for source in product.srcs)


def _with_pairs(kernel: KernelIR, condition: IRValue, pairs: Sequence[_Pair]) -> KernelIR:
    rewriter = Rewriter()
    folder, condition = rewriter.folder, rewriter.value(condition)
    for product, other in pairs:
        first, second = ([rewriter.value(s) for s in p.srcs] for p in (product, other))
        if first[0] is second[1] or first[1] is second[0]:
            second.reverse()
        chosen = (
            a if a is b else folder.op("where", a.dtype, condition, a, b)
            for a, b in zip(first, second, strict=True)
        )
        merged = folder.op("mul", product.dtype, *chosen)
        rewriter.memo[product] = rewriter.memo[other] = merged
    return replace(kernel, loop_tree=rewriter.loop(kernel.loop_tree))
