"""Loop fission: a reduction and the rest of its kernel become two, with the reduced values in a buffer between them.

Each then runs at its own rate, with its own units.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tg2hdl_ir.nodes import (
    BufferMeta,
    IRBufLoad,
    IRBufStore,
    IRItem,
    IRRegLoad,
    IRRegStore,
    IRStatement,
    KernelIR,
    LoopIR,
)
from tg2hdl_ir.passes.dead_loads import kernel_of
from tg2hdl_ir.passes.flat_address import flat_address
from tg2hdl_ir.passes.instrument import ir_pass
from tg2hdl_ir.passes.rewrite import Rewriter
from tg2hdl_ir.tree import loads_used_by, operands

__all__ = ["CutPlace", "cut_kernel", "cut_places"]


@dataclass(frozen=True, eq=False)
class CutPlace:
    """A level whose inner loops compute registers that nothing outside of it reads.

    Parameters
    ----------
    path : tuple of LoopIR
        Levels from the root to this one.
    registers : tuple of int
        Registers that the loops compute and the statements after them read.
    """

    path: tuple[LoopIR, ...]
    registers: tuple[int, ...]


def cut_places(kernel: KernelIR) -> Iterator[CutPlace]:
    """Where a kernel can be cut, outermost levels first."""
    statements = list(kernel.loop_tree.statements())
    stored = {s.buf_idx for s in statements if isinstance(s, IRBufStore)}
    if any(isinstance(s, IRBufLoad) and s.buf_idx in stored for s in statements):
        return
    for path in _paths((kernel.loop_tree,)):
        registers = _cut_registers(kernel, path, statements)
        if registers:
            yield CutPlace(path, registers)


@ir_pass("cut-kernel", "a kernel becomes two, with a buffer between them", term="loop fission")
def cut_kernel(kernel: KernelIR, place: CutPlace) -> tuple[KernelIR, KernelIR, tuple[BufferMeta, ...]]:
    """The two kernels of a cut, and the buffers between them; the order of every sum is unchanged.

    Parameters
    ----------
    kernel : KernelIR
    place : CutPlace
        The level of the loops at which it is cut.

    Returns
    -------
    first, second : KernelIR
    between : tuple of BufferMeta
        One for each register: outputs of the first kernel, with the slots that both use.
    """
    counters = [loop.counter for loop in place.path if loop.counter is not None]
    address = flat_address(counters)
    depth = 1
    for counter in counters:
        assert isinstance(counter.bound, int), "checked by cut_places"
        depth *= counter.bound
    free = 1 + max(b.idx for b in kernel.buffers)
    between = tuple(
        BufferMeta(free + n, depth, kernel.register(reg).dtype, True) for n, reg in enumerate(place.registers)
    )
    home = place.path[-1]
    stores: list[IRItem] = []
    for reg, meta in zip(place.registers, between, strict=True):
        value = IRRegLoad(meta.dtype, reg)
        stores += [value, IRBufStore(meta.idx, address, value, meta.dtype)]
    first = _up(place.path, LoopIR.from_items(
        (*home.prologue, *home.body, *stores), counter=home.counter, axis_type=_independent(home)
    ))  # fmt: skip
    rewriter = Rewriter()
    slots = {reg: meta for reg, meta in zip(place.registers, between, strict=True)}
    items: list[IRItem] = []
    between_loops = tuple(item for item in home.body if isinstance(item, IRBufLoad))
    for item in (*home.prologue, *between_loops, *home.epilogue):
        assert not isinstance(item, LoopIR), "inner loops are in the body"
        if isinstance(item, IRRegStore) and item.reg in slots:
            continue
        if isinstance(item, IRRegLoad) and item.reg in slots:
            meta = slots[item.reg]
            rewriter.memo[item] = IRBufLoad(meta.idx, address, meta.dtype)
        items.append(rewriter.statement(item))
    after = LoopIR.from_items(tuple(items), counter=home.counter, axis_type=home.axis_type)
    second = _replaced(kernel.loop_tree, home, after, rewriter)
    return (
        kernel_of(kernel, first, f"{kernel.name}_sums", between),
        kernel_of(
            kernel, second, f"{kernel.name}_rest", tuple(replace(meta, is_output=False) for meta in between)
        ),
        between,
    )


def _paths(path: tuple[LoopIR, ...]) -> Iterator[tuple[LoopIR, ...]]:
    yield path
    for loop in path[-1].loops:
        yield from _paths((*path, loop))


def _cut_registers(
    kernel: KernelIR, path: tuple[LoopIR, ...], statements: list[IRStatement]
) -> tuple[int, ...]:
    """Registers at which a level can be cut; none where it cannot."""
    home = path[-1]
    if not home.loops or any(not isinstance(loop.bound, int) for loop in path):
        return ()
    inside = [s for item in home.body for s in (item.statements() if isinstance(item, LoopIR) else (item,))]
    here = set(home.statements())
    if any(isinstance(s, IRBufStore) for s in inside) or not home.epilogue:
        return ()
    changed = {s.reg for s in inside if isinstance(s, IRRegStore)}
    reset = {s.reg for s in home.prologue if isinstance(s, IRRegStore) and s.gate is None and s.index is None}
    # The first value of a second reduction is set between the loops.
    reset |= _set_first(inside) & {s.reg for s in home.body if isinstance(s, IRRegStore)}
    before = [s for s in home.prologue if isinstance(s, IRRegStore | IRRegLoad) and s.reg not in changed]
    after = [s for s in home.epilogue if isinstance(s, IRRegStore) and s.reg in changed]
    outside = [s for s in statements if s not in here and isinstance(s, IRRegLoad | IRRegStore)]
    read = {s.reg for s in inside if isinstance(s, IRRegLoad)}
    scalars = all(kernel.register(reg).size == 1 for reg in changed)
    used = {s.reg for s in home.epilogue if isinstance(s, IRRegLoad)} & changed
    inner = _set_first(inside) - used
    if not used or not ((changed | read) - inner) <= reset or not scalars or before or after:
        return ()
    if any(s.reg in changed for s in outside) or any(isinstance(s, LoopIR) for s in home.epilogue):
        return ()
    # The results of the first kernel must not depend on another register.
    known = [s for s in (*home.prologue, *inside) if not isinstance(s, LoopIR)]
    for load in loads_used_by(tuple(v for s in known for v in operands(s))):
        if isinstance(load, IRRegLoad) and load.reg not in changed:
            return ()
    return tuple(sorted(used)) if _does_more(home) else ()


def _set_first(statements: list[IRStatement]) -> set[int]:
    """Registers that are written before they are read."""
    first: dict[int, IRStatement] = {}
    for statement in statements:
        if isinstance(statement, IRRegLoad | IRRegStore):
            first.setdefault(statement.reg, statement)
    return {
        reg for reg, s in first.items() if isinstance(s, IRRegStore) and s.gate is None and s.index is None
    }


def _does_more(home: LoopIR) -> bool:
    """Whether the statements after the loops compute anything."""
    values = (s.value for s in home.epilogue if isinstance(s, IRBufStore | IRRegStore))
    return any(not isinstance(value, IRRegLoad) for value in values)


def _up(path: tuple[LoopIR, ...], tree: LoopIR) -> LoopIR:
    """The levels around a loop, with only the loads that precede it."""
    for level, inner in zip(reversed(path[:-1]), reversed(path), strict=False):
        before = level.items[: level.items.index(inner)]
        loads = tuple(item for item in before if isinstance(item, IRBufLoad))
        tree = LoopIR.from_items((*loads, tree), counter=level.counter, axis_type=_independent(level))
    return tree


def _independent(loop: LoopIR) -> str:
    """Type of a loop that gets a result for each iteration."""
    return "rows" if loop.axis_type == "rows" else "loop"


def _replaced(tree: LoopIR, old: LoopIR, new: LoopIR, rewriter: Rewriter) -> LoopIR:
    if tree is old:
        return new
    items = tuple(
        _replaced(item, old, new, rewriter) if isinstance(item, LoopIR) else rewriter.statement(item)
        for item in tree.items
    )
    return LoopIR.from_items(items, counter=tree.counter, axis_type=tree.axis_type)
