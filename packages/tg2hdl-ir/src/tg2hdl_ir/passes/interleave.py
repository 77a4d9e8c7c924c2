"""Interleaving: independent iterations alternate inside a reduction, which hides the latency of a slow unit."""

from __future__ import annotations

from dataclasses import replace

from tg2hdl_ir.analysis.axes import AxisInfo
from tg2hdl_ir.errors import InputError
from tg2hdl_ir.nodes import (
    IRCounter,
    IRItem,
    IRRegLoad,
    IRRegStore,
    IRStatement,
    IRValue,
    KernelIR,
    LoopIR,
    const_int,
)
from tg2hdl_ir.passes.depths import number_depths
from tg2hdl_ir.passes.fold import Folder
from tg2hdl_ir.passes.instrument import ir_pass
from tg2hdl_ir.passes.rewrite import Rewriter
from tg2hdl_ir.passes.unroll import mask_statements

__all__ = ["interleave"]


@ir_pass("interleave", "independent outputs are interleaved inside a reduction", term="C-slow interleaving")
def interleave(kernel: KernelIR, info: AxisInfo, axis: int, tile: int) -> KernelIR:
    """Make `tile` iterations of an independent axis the innermost loop of every leaf below it.

    Each output still adds its terms in the original order; only the order among outputs changes.  The registers
    that are private to the axis become arrays of `tile` elements.

    Parameters
    ----------
    kernel : KernelIR
        Flattened; the axis has not been unrolled to nothing.
    info : AxisInfo
        Of the kernel.
    axis : int
        An independent axis.
    tile : int
        Interleaved iterations; when the bound is not a multiple, the last tile has idle slots.

    Raises
    ------
    InputError
        When the axis is not independent or its bound is not a number.
    """
    loops = {loop.counter.axis: loop for loop in kernel.loop_tree.walk() if loop.counter is not None}
    loop = loops.get(axis)
    if loop is None or axis not in info.independent or not isinstance(loop.bound, int):
        raise InputError(
            f"axis {axis} cannot be interleaved",
            where=f"kernel {kernel.name}",
            hint=f"independent axes: {sorted(info.independent & loops.keys())}",
        )
    if tile >= loop.bound and not loop.loops:
        return kernel
    return _Interleaver(kernel, info, loop, tile, max(loops) + 1).run()


class _Interleaver:
    def __init__(self, kernel: KernelIR, info: AxisInfo, target: LoopIR, tile: int, axis: int) -> None:
        self.kernel = kernel
        self.target = target
        self.tile = tile
        self.next_axis = axis
        self.folder = Folder()
        counter = target.counter
        assert counter is not None, "checked by interleave"
        self.private = self._touched() & self._private(info, counter.axis)

    def _touched(self) -> set[int]:
        """Registers of the target that nothing else uses: flattening moves initializations of others into it."""
        own = set(self.target.statements())
        inside: set[int] = set()
        outside: set[int] = set()
        for statement in self.kernel.loop_tree.statements():
            if isinstance(statement, IRRegLoad | IRRegStore):
                (inside if statement in own else outside).add(statement.reg)
        return inside - outside

    def _private(self, info: AxisInfo, axis: int) -> set[int]:
        # Lanes made copies of private registers: every register of the nest that does not live outside it.
        outside = {r for other, regs in info.private.items() if other == axis for r in regs}
        known = {r for regs in info.private.values() for r in regs}
        return self._touched() - (known - outside)

    def run(self) -> KernelIR:
        counter = self.target.counter
        assert counter is not None, "checked by interleave"
        registers = tuple(
            replace(r, size=r.size * self.tile) if r.idx in self.private else r for r in self.kernel.registers
        )
        # When one tile holds all iterations, the loop disappears and its inner loops move up a level.
        root = number_depths(LoopIR.from_items(self._items(self.kernel.loop_tree, counter)))
        return replace(self.kernel, loop_tree=root, registers=registers)

    def _items(self, loop: LoopIR, counter: IRCounter) -> tuple[IRItem, ...]:
        items: list[IRItem] = []
        for item in loop.items:
            if not isinstance(item, LoopIR):
                items.append(item)
            elif item is self.target:
                items.extend(self._tiled(counter))
            else:
                inner = self._items(item, counter)
                items.append(LoopIR.from_items(inner, counter=item.counter, axis_type=item.axis_type))
        return tuple(items)

    def _tiled(self, counter: IRCounter) -> tuple[IRItem, ...]:
        assert isinstance(counter.bound, int), "checked by interleave"
        tiles = -(-counter.bound // self.tile)
        base: IRValue = const_int(0, counter.dtype)
        outer = IRCounter(tiles, counter.depth, counter.axis, counter.dtype)
        if tiles > 1:
            base = self.folder.op("mul", counter.dtype, outer, const_int(self.tile, counter.dtype))
        items = self._inside(self.target, counter, base)
        if tiles == 1:
            return items
        return (LoopIR.from_items(items, counter=outer, axis_type=self.target.axis_type),)

    def _inside(self, loop: LoopIR, counter: IRCounter, base: IRValue) -> tuple[IRItem, ...]:
        if not loop.loops:
            return (self._turns(loop, counter, base),)
        return tuple(
            LoopIR.from_items(
                self._inside(inner, counter, base), counter=inner.counter, axis_type=inner.axis_type
            )
            for inner in loop.loops
        )

    def _turns(self, leaf: LoopIR, counter: IRCounter, base: IRValue) -> LoopIR:
        depth = leaf.depth + 1
        turn = IRCounter(self.tile, depth, self.next_axis, counter.dtype)
        self.next_axis += 1
        rewriter = Rewriter(self.folder)
        position = self.folder.op("add", counter.dtype, base, turn)
        rewriter.memo[counter] = position
        assert isinstance(counter.bound, int), "checked by interleave"
        mask = self.folder.all_of(self.folder.below(position, counter.bound))
        items: list[IRStatement] = []
        for statement in leaf.statements():
            new = rewriter.statement(statement)
            if isinstance(new, IRRegLoad | IRRegStore) and new.reg in self.private:
                indexed = replace(new, index=self._index(new.index, turn))
                if isinstance(indexed, IRRegLoad) and isinstance(statement, IRRegLoad):
                    rewriter.memo[statement] = indexed
                new = indexed
            items.append(new)
        if mask is not None:
            # Nothing reads the elements of the idle slots.
            items = mask_statements(items, mask, self.folder, self.private)
        return LoopIR.from_items(tuple(items), counter=turn, axis_type="loop")

    def _index(self, index: IRValue | None, turn: IRCounter) -> IRValue:
        if index is None:
            return turn
        scaled = self.folder.op("mul", turn.dtype, index, const_int(self.tile, turn.dtype))
        return self.folder.op("add", turn.dtype, scaled, turn)
