"""Sections: a kernel whose outputs choose between reductions by their position becomes one kernel for each choice.

Layers that are concatenated, or padded afterwards, arrive as one kernel that computes every layer for every output and
drops all but one.  Each section computes only the results that it stores.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

from tg2hdl_ir.analysis.axes import analyze_axes, axes_of
from tg2hdl_ir.nodes import (
    IRBufLoad,
    IRBufStore,
    IRConst,
    IRCounter,
    IRItem,
    IROp,
    IRRegLoad,
    IRRegStore,
    IRValue,
    KernelIR,
    LoopIR,
)
from tg2hdl_ir.passes.dead_loads import kernel_of
from tg2hdl_ir.passes.depths import number_depths
from tg2hdl_ir.passes.fold import FALSE, TRUE
from tg2hdl_ir.passes.instrument import ir_pass
from tg2hdl_ir.passes.rewrite import Rewriter
from tg2hdl_ir.tree import const_int, is_const, loads_used_by, operands, values_below

__all__ = ["section_forms"]

MAX_SECTIONS = 16
"""Kernels that one kernel may become."""
MAX_BOUND = 1024
"""Iterations of a loop whose conditions are evaluated."""
_COMPARISONS = ("lt", "ne", "eq")


@ir_pass(
    "sections",
    "a kernel that chooses between inputs becomes one for each of them",
    term="index set splitting",
)
def section_forms(kernel: KernelIR) -> list[tuple[KernelIR, ...]]:
    """Kernels that together store the results of `kernel`: for each loop that can be cut, then for all of them."""
    choices = _choices(kernel)
    forms = [_sections(kernel, counter, conditions) for counter, conditions in choices.items()]
    forms = [form for form in forms if 1 < len(form) <= MAX_SECTIONS]
    if len(forms) > 1 and len(parts := _everywhere(kernel)) <= MAX_SECTIONS:
        forms.append(parts)
    return forms


def _everywhere(kernel: KernelIR) -> tuple[KernelIR, ...]:
    """Sections of sections, until no output chooses."""
    for counter, conditions in _choices(kernel).items():
        parts = _sections(kernel, counter, conditions)
        if 1 < len(parts) <= MAX_SECTIONS:
            return tuple(made for part in parts for made in _everywhere(part))
    return (kernel,)


def _choices(kernel: KernelIR) -> dict[IRCounter, list[IROp]]:
    """Comparisons of one counter each that choose between reductions, by the counter of an independent loop."""
    if not kernel.registers:
        return {}
    independent = analyze_axes(kernel).independent
    counters = {
        loop.counter.axis: loop.counter
        for loop in kernel.loop_tree.walk()
        if loop.counter is not None and loop.counter.axis in independent and isinstance(loop.bound, int)
    }
    roots = (v for s in kernel.loop_tree.statements() for v in operands(s))
    found: dict[IRCounter, list[IROp]] = {}
    for node in values_below(roots):
        chosen = _chosen(node)
        for condition in values_below(() if chosen is None else (chosen,)):
            if (
                not isinstance(condition, IROp)
                or condition.op not in _COMPARISONS
                or loads_used_by((condition,))
            ):
                continue
            axes = axes_of(condition)
            counter = counters.get(min(axes)) if len(axes) == 1 else None
            if counter is not None and not condition.srcs[0].dtype.is_bool:
                found.setdefault(counter, []).append(condition)
    return {counter: list(dict.fromkeys(conditions)) for counter, conditions in found.items()}


def _chosen(node: IRValue) -> IRValue | None:
    """The condition of a value that reads one register or another, or a register or an element."""
    match node:
        case IROp(op="where", srcs=(condition, yes, no)) if _registers(yes) != _registers(no):
            return condition
        case IRBufLoad(gate=gate, alt=alt) if alt is not None and _registers(alt):
            return gate
    return None


def _registers(value: IRValue) -> frozenset[int]:
    return frozenset(load.reg for load in loads_used_by((value,)) if isinstance(load, IRRegLoad))


def _sections(kernel: KernelIR, counter: IRCounter, conditions: list[IROp]) -> tuple[KernelIR, ...]:
    """A kernel for each stretch of a loop in which all conditions stay the same."""
    assert isinstance(counter.bound, int), "loops of unknown length are left out"
    if counter.bound > MAX_BOUND:
        return (kernel,)
    truths = [tuple(_known(c, counter, n) for c in conditions) for n in range(counter.bound)]
    if any(None in truth for truth in truths):
        return (kernel,)
    parts, first = [], 0
    for truth, group in itertools.groupby(truths):
        count = len(list(group))
        parts.append(_section(kernel, counter, first, count, dict(zip(conditions, truth, strict=True))))
        first += count
    return tuple(parts) if len(parts) > 1 else (kernel,)


def _known(condition: IROp, counter: IRCounter, number: int) -> bool | None:
    """Truth of a condition in one iteration."""
    rewriter = Rewriter()
    rewriter.memo[counter] = const_int(number, counter.dtype)
    value = rewriter.value(condition)
    return True if is_const(value, True) else False if is_const(value, False) else None


def _section(
    kernel: KernelIR, counter: IRCounter, first: int, count: int, truth: dict[IROp, bool | None]
) -> KernelIR:
    """The iterations from `first` on, without the reductions that they do not store."""
    rewriter = Rewriter()
    folder, own = rewriter.folder, replace(counter, bound=count)
    place = folder.op("add", counter.dtype, own, const_int(first, counter.dtype)) if count > 1 else None
    rewriter.memo[counter] = place or const_int(first, counter.dtype)
    for condition, value in truth.items():
        rewriter.memo[condition] = TRUE if value else FALSE

    def rebuilt(loop: LoopIR) -> LoopIR:
        items: list[IRItem] = []
        for item in loop.items:
            if isinstance(item, LoopIR):
                items.append(rebuilt(item))
            elif isinstance(item, IRBufLoad) and is_const(rewriter.optional(item.gate), False):
                rewriter.memo[item] = rewriter.value(
                    item.alt or IRConst(item.dtype.bits_to_const(0), item.dtype)
                )
            else:
                items.append(rewriter.statement(item))
        here = own if loop.counter is counter else loop.counter
        return LoopIR.from_items(tuple(items), counter=here, axis_type=loop.axis_type)

    tree = number_depths(_without_dead_registers(rebuilt(kernel.loop_tree)))
    return kernel_of(kernel, tree, f"{kernel.name}_from{first}")


def _without_dead_registers(tree: LoopIR) -> LoopIR:
    """The loop tree without registers that reach no buffer, and without the loops that compute them."""
    pending: list[IRBufStore | IRRegStore] = [s for s in tree.statements() if isinstance(s, IRBufStore)]
    updates = [s for s in tree.statements() if isinstance(s, IRRegStore)]
    live: set[int] = set()
    while pending:
        statement = pending.pop()
        for load in loads_used_by(operands(statement)):
            if isinstance(load, IRRegLoad) and load.reg not in live:
                live.add(load.reg)
                pending += [u for u in updates if u.reg == load.reg]

    def kept(level: LoopIR) -> LoopIR:
        items: list[IRItem] = []
        for item in level.items:
            if isinstance(item, LoopIR):
                inner = kept(item)
                if any(isinstance(s, IRBufStore | IRRegStore) for s in inner.statements()):
                    items.append(inner)
            elif not isinstance(item, IRRegStore) or item.reg in live:
                items.append(item)
        return LoopIR.from_items(tuple(items), counter=level.counter, axis_type=level.axis_type)

    return kept(tree)
