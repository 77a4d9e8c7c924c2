"""Partial sums: a long float sum becomes several interleaved sums, which are then added.

Regrouping changes rounding, so this needs ``float_order="relaxed"``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from tg2hdl_ir.nodes import (
    BufferMeta,
    IRBufLoad,
    IRBufStore,
    IRConst,
    IRCounter,
    IRItem,
    IROp,
    IRRegLoad,
    IRRegStore,
    IRStatement,
    IRValue,
    KernelIR,
    LoopIR,
    const_int,
    loads_used_by,
)
from tg2hdl_ir.passes.flat_address import flat_address
from tg2hdl_ir.passes.fold import Folder
from tg2hdl_ir.passes.instrument import ir_pass
from tg2hdl_ir.passes.rewrite import Rewriter
from tg2hdl_ir.passes.unroll import mask_statements

__all__ = ["LongSum", "find_sum", "split_sum"]


@dataclass(frozen=True)
class LongSum:
    """The only sum of a kernel.

    Parameters
    ----------
    outer : tuple of LoopIR
        Loops over the results, outermost first.
    home : LoopIR
        The level that sets the accumulator, adds and uses the sum.
    nest : tuple of LoopIR
        Loops of the sum, outermost first; the last one holds the addition.
    added : IRRegStore
        The addition.
    """

    outer: tuple[LoopIR, ...]
    home: LoopIR
    nest: tuple[LoopIR, ...]
    added: IRRegStore

    @property
    def results(self) -> int:
        """Number of sums."""
        return math.prod(loop.bound for loop in self.outer if isinstance(loop.bound, int))

    @property
    def terms(self) -> int:
        """Terms of the innermost loop."""
        bound = self.nest[-1].bound
        assert isinstance(bound, int), "checked by find_sum"
        return bound

    @property
    def repeats(self) -> int:
        """How often the innermost loop runs for one result."""
        return math.prod(loop.bound for loop in self.nest[:-1] if isinstance(loop.bound, int))


def find_sum(kernel: KernelIR) -> LongSum | None:
    """The sum of a kernel that computes one float sum per result and nothing else; None for other kernels."""
    if len(kernel.registers) != 1 or kernel.registers[0].size != 1 or not kernel.registers[0].dtype.is_float:
        return None
    if any(not isinstance(loop.bound, int) for loop in kernel.loop_tree.walk()):
        return None
    outer = kernel.loop_tree.perfect_nest
    level = outer[-1]
    if len(level.loops) != 1 or not _starts_at_zero(level):
        return None
    nest = level.loops[0].perfect_nest
    leaf = nest[-1]
    stores = [s for s in leaf.statements() if isinstance(s, IRRegStore | IRBufStore)]
    if leaf.loops or len(stores) != 1 or not isinstance(added := stores[0], IRRegStore):
        return None
    if added.gate is not None or not _is_addition(added.value, leaf) or _works_in_place(kernel, level):
        return None
    return LongSum(outer[1:], level, nest, added)


def _starts_at_zero(level: LoopIR) -> bool:
    stores = [s for s in level.prologue if isinstance(s, IRRegStore | IRBufStore)]
    if len(stores) != 1 or stores[0].gate is not None or not isinstance(stores[0].value, IRConst):
        return False
    after = any(isinstance(s, IRRegStore) for s in level.epilogue)
    return stores[0].value.dtype.const_to_bits(stores[0].value.value) == 0 and not after


def _is_addition(value: IRValue, leaf: LoopIR) -> bool:
    """Whether this is the accumulator read in the leaf, plus a value that does not depend on it."""
    if not isinstance(value, IROp) or value.op != "add":
        return False
    carried = [s for s in value.srcs if isinstance(s, IRRegLoad)]
    others = tuple(s for s in value.srcs if not isinstance(s, IRRegLoad))
    if len(carried) != 1 or not any(s is carried[0] for s in leaf.items):
        return False
    return not any(isinstance(load, IRRegLoad) for load in loads_used_by(others))


def _works_in_place(kernel: KernelIR, home: LoopIR) -> bool:
    """Whether a result may overwrite inputs of a later sum: the split runs all partial sums before the first result."""
    stored = {s.buf_idx for s in kernel.loop_tree.statements() if isinstance(s, IRBufStore)}
    before = (*home.prologue, *home.body)
    inner = (s for item in before for s in (item.statements() if isinstance(item, LoopIR) else (item,)))
    return any(isinstance(s, IRBufLoad) and s.buf_idx in stored for s in inner)


@ir_pass(
    "split-sum",
    "a long float sum becomes partial sums and a kernel that adds them",
    term="reassociation into partial sums",
)
def split_sum(kernel: KernelIR, found: LongSum, parts: int) -> tuple[KernelIR, KernelIR, BufferMeta]:
    """Kernels of the partial sums and of their sum, and the buffer between them.

    Parameters
    ----------
    kernel : KernelIR
    found : LongSum
        The sum.
    parts : int
        Partial sums for each result; term ``k`` goes to sum ``k % parts``.
    """
    register = kernel.registers[0]
    idx = 1 + max(b.idx for b in kernel.buffers)
    between = BufferMeta(idx, found.results * parts, register.dtype, True)
    axes = [loop.counter.axis for loop in kernel.loop_tree.walk() if loop.counter is not None]
    first, second = (
        _with_home(kernel, found, make(found, idx, parts, 1 + max(axes))) for make in (_parts, _total)
    )
    return (
        _kernel(kernel, first, between, f"{kernel.name}_parts"),
        _kernel(kernel, second, replace(between, is_output=False), f"{kernel.name}_total"),
        between,
    )


def _kernel(kernel: KernelIR, root: LoopIR, between: BufferMeta, name: str) -> KernelIR:
    used = {s.buf_idx for s in root.statements() if isinstance(s, IRBufLoad | IRBufStore)}
    stored = {s.buf_idx for s in root.statements() if isinstance(s, IRBufStore)}
    kept = (replace(b, is_output=b.idx in stored) for b in kernel.buffers if b.idx in used)
    return replace(kernel, buffers=(*kept, between), loop_tree=root, name=name)


def _with_home(kernel: KernelIR, found: LongSum, items: tuple[IRItem, ...]) -> LoopIR:
    for loop in reversed(found.outer):
        items = (LoopIR.from_items(items, counter=loop.counter, axis_type=loop.axis_type),)
    return LoopIR.from_items(items)


def _place(found: LongSum, part: IRCounter) -> IRValue:
    return flat_address([*(loop.counter for loop in found.outer if loop.counter is not None), part])


def _parts(found: LongSum, idx: int, parts: int, axis: int) -> tuple[IRItem, ...]:
    folder = Folder()
    rewriter = Rewriter(folder)
    depth = len(found.outer)
    part = IRCounter(parts, depth, axis)
    counters: list[IRCounter] = []
    for loop in found.nest:
        counter = loop.counter
        assert counter is not None, "only the root has no counter"
        assert isinstance(counter.bound, int), "checked by find_sum"
        bound = -(-counter.bound // parts) if loop is found.nest[-1] else counter.bound
        counters.append(IRCounter(bound, counter.depth + 1, counter.axis, counter.dtype))
        rewriter.memo[counter] = counters[-1]
    last = found.nest[-1].counter
    assert last is not None, "only the root has no counter"
    scaled = folder.op("mul", last.dtype, counters[-1], const_int(parts, last.dtype))
    place = folder.op("add", last.dtype, scaled, folder.op("cast", last.dtype, part))
    rewriter.memo[last] = place
    items = [rewriter.statement(s) for s in found.home.prologue if not isinstance(s, LoopIR)]
    body = [rewriter.statement(s) for s in found.nest[-1].statements()]
    if found.terms % parts:
        body = _masked(body, folder.below(place, found.terms), found.added.reg, folder)
    nest: tuple[IRItem, ...] = tuple(body)
    for loop, counter in zip(reversed(found.nest), reversed(counters), strict=True):
        nest = (LoopIR.from_items(nest, counter=counter, axis_type=loop.axis_type),)
    dtype = found.added.value.dtype
    result = IRRegLoad(dtype, found.added.reg)
    store = IRBufStore(idx, _place(found, part), result, dtype)
    return (LoopIR.from_items((*items, *nest, result, store), counter=part),)


def _masked(body: list[IRStatement], mask: IRValue, register: int, folder: Folder) -> list[IRStatement]:
    """Statements that add zero where the mask is false; loads there return arbitrary values."""
    result: list[IRStatement] = []
    for statement in mask_statements(body, mask, folder, (register,)):
        if isinstance(statement, IRRegStore):
            added = statement.value
            assert isinstance(added, IROp), "checked by find_sum"
            zero = IRConst(0.0, added.dtype)
            terms = (
                s if isinstance(s, IRRegLoad) else folder.op("where", s.dtype, mask, s, zero)
                for s in added.srcs
            )
            statement = replace(statement, value=IROp("add", added.dtype, tuple(terms)))
        result.append(statement)
    return result


def _total(found: LongSum, idx: int, parts: int, axis: int) -> tuple[IRItem, ...]:
    part = IRCounter(parts, len(found.outer), axis)
    dtype = found.added.value.dtype
    load = IRBufLoad(idx, _place(found, part), dtype)
    before = IRRegLoad(dtype, found.added.reg)
    added = IRRegStore(IROp("add", dtype, (before, load)), found.added.reg)
    loop = LoopIR.from_items((load, before, added), counter=part, axis_type="reduce")
    return (*found.home.prologue, loop, *found.home.epilogue)
