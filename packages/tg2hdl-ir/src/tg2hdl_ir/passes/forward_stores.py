"""Store-to-load forwarding: an element that a step before has changed comes from a register, not from its memory.

A pass that changes elements in place, as a histogram does, may then read the memory before the steps ahead of it have
written theirs: the registers hold their addresses and values.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from tg2hdl_ir.dtype import DType
from tg2hdl_ir.nodes import (
    IRBufLoad,
    IRBufStore,
    IRRegLoad,
    IRRegStore,
    IRStatement,
    IRValue,
    KernelIR,
    LoopIR,
    RegisterMeta,
    const_int,
)
from tg2hdl_ir.passes.fold import Folder
from tg2hdl_ir.passes.instrument import ir_pass
from tg2hdl_ir.passes.leaves import leaf_paths, replace_leaves
from tg2hdl_ir.passes.rewrite import Rewriter

__all__ = ["changed_in_place", "forward_stores"]

Change: TypeAlias = tuple[IRBufLoad, IRBufStore]
_Choice: TypeAlias = tuple[IRValue | None, IRValue]
"""A condition, None for always, and a value."""


def changed_in_place(kernel: KernelIR) -> list[Change]:
    """Loads and stores of buffers in which each step reads an element and then writes the same one.

    Only of a flattened kernel with one leaf whose loops are not rows, and where nothing else uses the buffer.
    """
    (path, *others) = leaf_paths(kernel.loop_tree)
    if others or any(loop.axis_type == "rows" for loop in path):
        return []
    accesses: dict[int, list[IRBufLoad | IRBufStore]] = {}
    for statement in path[-1].statements():
        if isinstance(statement, IRBufLoad | IRBufStore):
            accesses.setdefault(statement.buf_idx, []).append(statement)
    found: list[Change] = []
    for uses in accesses.values():
        match uses:
            case [IRBufLoad() as load, IRBufStore() as store] if load.addr is store.addr:
                found.append((load, store))
    return found


@ir_pass(
    "forward-stores",
    "elements that the steps before have changed come from registers, not from the memory",
    term="store-to-load forwarding",
)
def forward_stores(kernel: KernelIR, steps: int) -> KernelIR:
    """Forward the elements of buffers that are changed in place; the same kernel where there are none.

    Parameters
    ----------
    kernel : KernelIR
        Flattened.
    steps : int
        Number of previous steps whose elements are forwarded.
    """
    changes = changed_in_place(kernel)
    if not changes:
        return kernel
    (path,) = leaf_paths(kernel.loop_tree)
    made = _Forwarding(kernel, path, steps)
    leaf = made.leaf(path[-1], changes)
    tree = replace_leaves(kernel.loop_tree, {id(path[-1]): leaf})
    return replace(kernel, loop_tree=tree, registers=(*kernel.registers, *made.registers))


class _Forwarding:
    def __init__(self, kernel: KernelIR, path: tuple[LoopIR, ...], steps: int) -> None:
        self.kernel = kernel
        self.steps = steps
        self.folder = Folder()
        self.rewriter = Rewriter(self.folder)
        counters = [loop.counter for loop in path if loop.counter is not None]
        self.first = self.folder.all_of(*(self.folder.equals(counter, 0) for counter in counters))
        self.registers: list[RegisterMeta] = []

    def leaf(self, leaf: LoopIR, changes: list[Change]) -> LoopIR:
        """The leaf with registers for these changes."""
        items: list[IRStatement] = []
        last: list[IRStatement] = []
        by_load = dict(changes)
        for statement in leaf.statements():
            if isinstance(statement, IRBufLoad) and statement in by_load:
                self._forward(statement, by_load[statement], items, last)
            else:
                items.append(self.rewriter.statement(statement))
        return LoopIR.from_items((*items, *last), counter=leaf.counter, axis_type=leaf.axis_type)

    def _forward(
        self, load: IRBufLoad, store: IRBufStore, items: list[IRStatement], last: list[IRStatement]
    ) -> None:
        """Add the load, its registers, and at the end of the step the values that move on in them."""
        op, rewriter = self.folder.op, self.rewriter
        bits = 1 + max(1, (self.kernel.buffer(load.buf_idx).depth - 1).bit_length())
        key = DType.from_width(bits, is_signed=True)
        new = rewriter.statement(load)
        assert isinstance(new, IRBufLoad), "a load stays one"
        new = replace(new, forwarded=self.steps)
        place = op("cast", key, new.addr)
        places = [self._register(key) for _ in range(self.steps)]
        values = [self._register(load.dtype) for _ in range(self.steps)]
        none = const_int(-1, key)
        starts = [IRRegStore(none, register, gate=self.first) for register in places]
        before = [IRRegLoad(key, register) for register in places]
        changed = [IRRegLoad(load.dtype, register) for register in values]
        hits = [self.folder.all_of(new.gate, op("eq", DType.BOOL, place, at)) for at in before]
        # The next step waits for the first one, which is chosen last.
        (first, *others) = zip(hits, changed, strict=True)
        rewriter.memo[load] = self._chosen(first, self._first_of([*others, (None, new)]))[1]
        items += [*starts, *before, *changed, new]
        gate = rewriter.optional(store.gate)
        written = place if gate is None else op("where", key, gate, place, none)
        last += [
            IRRegStore(moved, register)
            for register, moved in (
                *zip(places, [written, *before], strict=False),
                *zip(values, [rewriter.value(store.value), *changed], strict=False),
            )
        ]

    def _first_of(self, choices: list[_Choice]) -> _Choice:
        """The first one that holds, as a tree."""
        if len(choices) == 1:
            return choices[0]
        half = -(-len(choices) // 2)
        return self._chosen(self._first_of(choices[:half]), self._first_of(choices[half:]))

    def _chosen(self, one: _Choice, other: _Choice) -> _Choice:
        """The first of two that holds; the last one of all always does."""
        (holds, value), (else_holds, alternative) = one, other
        assert holds is not None, "only the memory has no condition"
        either = None if else_holds is None else self.folder.op("or", DType.BOOL, holds, else_holds)
        return either, self.folder.op("where", value.dtype, holds, value, alternative)

    def _register(self, dtype: DType) -> int:
        number = len(self.registers) + max((r.idx + 1 for r in self.kernel.registers), default=0)
        self.registers.append(RegisterMeta(number, dtype))
        return number
