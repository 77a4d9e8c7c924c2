"""Emits loops with affine addresses: tensors lie in VMEM as blocks, an operation is a vector over all iterations."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product as combinations
from math import prod

import numpy as np

from tg2hdl_ir import (
    IRBufLoad,
    IRBufStore,
    IRConst,
    IRCounter,
    IRItem,
    IROp,
    IRRegLoad,
    IRRegStore,
    IRValue,
    IRVariable,
    KernelIR,
    LoopIR,
)
from tg2hdl_tpu.device.arithmetic import constant, operation
from tg2hdl_tpu.device.axes import AxisLayout, dense, lay_out
from tg2hdl_tpu.device.emitter import Emitter, LaneConstant, Value
from tg2hdl_tpu.device.fold import RegisterFold, Unfit, fold_of
from tg2hdl_tpu.device.folds import Folding
from tg2hdl_tpu.device.lower import bounds_of, computed
from tg2hdl_tpu.device.tensors import Tensors
from tg2hdl_tpu.device.threads import parallel_nest
from tg2hdl_tpu.device.tiles import Tile, TileEmitter

__all__ = ["emit_nest"]

#: Lines of a program.
_LINES = 8000


def emit_nest(
    emit: Emitter, kernel: KernelIR, variables: Mapping[str, int], rows: int, shared: Collection[int] = ()
) -> bool:
    """Emit a kernel, many rows of a value at a time; False, and nothing, where it needs the general way.

    Parameters
    ----------
    emit : Emitter
        Gets the code.
    kernel : KernelIR
    variables : mapping of str to int
        Values by name.
    rows : int
        Rows of a value.
    shared : collection of int
        Slots of outputs whose last rows have elements of others.
    """
    tiles = TileEmitter(emit)
    before = dict(emit.code.constants)
    tiles.open(is_loop=False)
    depth = emit.depth
    try:
        _Nest(kernel, tiles, variables, rows, shared).run()
    except Unfit:
        del emit.scopes[depth:]
        emit.code.constants = before
        return False
    tiles.close()
    return True


class _Nest(Tensors):
    def __init__(
        self,
        kernel: KernelIR,
        emit: TileEmitter,
        variables: Mapping[str, int],
        rows: int,
        shared: Collection[int],
    ) -> None:
        self.bounds, self.limit = bounds_of(kernel, variables), rows
        super().__init__(kernel, emit, self.bounds, variables, rows, shared)
        self.registers: dict[int, IRValue | Tile] = {}
        self.known: dict[IRRegLoad, IRValue | Tile] = {}
        self.memo: dict[IRValue, Value] = {}

    def run(self) -> None:
        self.check()
        items = self.kernel.loop_tree.items
        counters: tuple[IRCounter, ...] = ()
        if len(items) == 1 and isinstance(items[0], LoopIR) and items[0].axis_type == "loop":
            grid = parallel_nest(items[0], self.bounds, set(), self.affine)
            if grid is None:
                raise Unfit
            counters, items = grid.counters, grid.items
        elif not any(isinstance(i, IRBufStore) for i in items):
            raise Unfit
        self.parallel = tuple(reversed(counters))
        for start, count in self.blocks():
            if counters:
                self.starts, self.extents[self.parallel[-1]] = {self.parallel[-1]: start}, count
            self.run_block(items)

    def blocks(self) -> list[tuple[int, int]]:
        """First iteration and number of those of the outermost loop that are computed at a time."""
        if not self.parallel:
            return [(0, 1)]
        counter = self.parallel[-1]
        extent = whole = self.extents[counter]
        largest = 0  # extent for which the results fit, and perhaps all operands
        while True:
            self.extents[counter] = extent
            layout = self.parallel_layout()
            if prod(layout.space) <= self.limit:
                largest = largest or extent
                if self.is_small():
                    largest = extent
                    break
            first = layout.rows[0] if layout.rows else None
            if first is None or first.extent == 1 or first.counter is not counter:
                break
            extent = -(-first.extent // 2) * first.step
            if layout.cut is not None:
                lanes = self.emit.config.lanes
                extent = -(-extent // lanes) * lanes  # parts begin with whole rows of memory
                if extent >= self.extents[counter]:
                    break
        if not largest:
            raise Unfit
        return [(start, min(largest, whole - start)) for start in range(0, whole, largest)]

    def parallel_layout(self) -> AxisLayout:
        """The layout outside of reductions."""
        found = lay_out(self.parallel, self.extents, self.emit.config.lanes, (), self.parallel[:1])
        if found is None:
            raise Unfit
        return found

    def run_block(self, items: tuple[IRItem, ...]) -> None:
        """Emit some iterations of the outermost loop."""
        self.outer = outer = self.parallel_layout()
        self.resident, self.registers, self.known = {}, {}, {}
        self.enter(outer)
        if self.is_small():
            for slot, (low, high) in self.ranges().items():
                self.fetch(slot, low, high)
        for item in items:
            self.item(item)

    def check(self) -> None:
        """Refuse kernels that only the general way supports."""
        if any(self.kernel.register(r.idx).size > 1 for r in self.kernel.registers):
            raise Unfit
        if any(extent < 1 for extent in self.extents.values()):
            raise Unfit
        written: set[int] = set()
        for statement in self.statements:
            if isinstance(statement, IRBufLoad | IRBufStore):
                if isinstance(statement, IRBufStore):
                    if statement.gate is not None:
                        raise Unfit
                    written.add(statement.buf_idx)
                elif statement.buf_idx in written:
                    raise Unfit
            elif (isinstance(statement, IRRegLoad | IRRegStore) and statement.index is not None) or (
                isinstance(statement, IRRegStore) and statement.gate is not None
            ):
                raise Unfit

    def enter(self, layout: AxisLayout) -> None:
        """Begin to compute values of a layout."""
        self.layout, self.memo, self.emit.space = layout, {}, layout.space

    # Statements

    def item(self, item: IRItem) -> None:
        if isinstance(item, LoopIR):
            self.reduction(item)
        elif isinstance(item, IRBufStore):
            self.store(item, self.emit.tile(self.value(item.value)))
        elif isinstance(item, IRRegStore):
            self.registers[item.reg] = item.value
        elif isinstance(item, IRRegLoad):
            self.know(item)
        if len(self.emit.scopes[-1].items) > _LINES:
            raise Unfit

    def know(self, node: IRRegLoad) -> None:
        if node.reg not in self.registers:
            raise Unfit
        self.known[node] = self.registers[node.reg]

    def reduction(self, loop: LoopIR) -> None:
        counters: list[IRCounter] = []
        while True:
            if loop.axis_type != "reduce" or loop.counter is None:
                raise Unfit
            counters.append(loop.counter)
            inner = [i for i in loop.items if isinstance(i, LoopIR)]
            if not inner:
                break
            if len(inner) > 1 or not all(isinstance(i, IRBufLoad | LoopIR) for i in loop.items):
                raise Unfit
            loop = inner[0]
        stored = {i.reg for i in loop.items if isinstance(i, IRRegStore)}
        sets = [i for i in loop.items if isinstance(i, IRRegStore)]
        if any(isinstance(i, IRBufStore) for i in loop.items) or len(stored) < len(sets):
            raise Unfit
        for item in loop.items:
            if isinstance(item, IRRegLoad) and item.reg not in stored:
                self.know(item)
        folds: list[tuple[int, RegisterFold]] = []
        for item in sets:
            first = self.registers.get(item.reg)
            fold = fold_of(item, first) if isinstance(first, IRConst) else None
            if fold is None:
                raise Unfit
            folds.append((item.reg, fold))
        loads = [i for i in loop.items if isinstance(i, IRBufLoad)]
        for layout in self.layouts(counters, loads):
            for rows in (self.limit, self.limit // 4, self.limit // 16):
                results = self.attempt(layout, counters, [f for _, f in folds], rows)
                if results is not None:
                    for (reg, _), tile in zip(folds, results, strict=True):
                        self.registers[reg] = tile
                    return
        raise Unfit

    def layouts(self, counters: list[IRCounter], loads: list[IRBufLoad]) -> Iterator[AxisLayout]:
        """Ways to put the loops into lanes and rows: in the order of each tensor, and of the result."""
        every = (*reversed(counters), *self.parallel)
        orders = []
        for load in loads:
            form = self.form(load.addr)
            steps = {c: abs(form.coefficient(c)) for c in every}
            orders.append(tuple(sorted(every, key=lambda c: (steps[c] == 0, steps[c]))))
        orders.sort(key=lambda order: every.index(order[0]) >= len(counters))
        orders.append((*self.parallel, *reversed(counters)))
        for order in dict.fromkeys(orders):
            cuts = [*counters, *(self.wide[:1] if self.is_cut else ())]
            layout = lay_out(order, self.extents, self.emit.config.lanes, counters, cuts)
            if layout is not None:
                yield layout

    def attempt(
        self, layout: AxisLayout, counters: list[IRCounter], folds: list[RegisterFold], rows: int
    ) -> list[Tile] | None:
        """Reductions in a layout, of so many rows at a time, or None where they do not fit."""
        emit, before, memo = self.emit, dict(self.emit.code.constants), self.memo
        resident = dict(self.resident)
        emit.open(is_loop=False)
        depth = emit.depth
        try:
            results = [Folding(fold, emit, layout, self.outer, counters) for fold in folds]
            if self.is_cut and not all(r.is_same for r in results):
                raise Unfit
            for part in self.parts(layout, counters, rows):
                self.enter(part)
                for fold, result in zip(folds, results, strict=True):
                    result.add(part, self.value(fold.term))
            self.layout, self.memo, emit.space = self.outer, memo, self.outer.space
            tiles = [r.result() for r in results]
        except Unfit:
            del emit.scopes[depth:]
            emit.code.constants, self.resident = before, resident
            self.layout, self.memo, emit.space = self.outer, memo, self.outer.space
            return None
        emit.close()
        return tiles

    def parts(self, layout: AxisLayout, counters: list[IRCounter], rows: int) -> Iterator[AxisLayout]:
        """The layout, or parts of its outermost loops one after the other."""
        total = prod(layout.space)
        if total <= rows:
            yield layout
            return
        at = next(n for n, d in enumerate(layout.rows) if d.extent > 1)
        digit = layout.rows[at]
        if digit.counter not in counters:
            raise Unfit
        size = max(1, rows * digit.extent // total)
        for start in range(0, digit.extent, size):
            extent = min(size, digit.extent - start)
            part = replace(digit, extent=extent, start=digit.start + start * digit.step)
            ends = digit.counter is not layout.cut or start + extent == digit.extent
            last = layout.last if ends else layout.width
            found = replace(layout, rows=(*layout.rows[:at], part, *layout.rows[at + 1 :]), last=last)
            yield from self.parts(found, counters, rows)

    # Values

    def value(self, root: IRValue) -> Value:
        return computed(root, self.memo, self.needed, self.compute)

    def needed(self, node: IRValue) -> Sequence[IRValue]:
        """Values that are computed before another one."""
        match node:
            case IROp():
                return node.srcs
            case IRBufLoad():
                return [n for n in (node.gate, node.alt) if n is not None]
            case IRRegLoad():
                known = self.known.get(node)
                if known is None or (isinstance(known, Tile) and self.layout is not self.outer):
                    raise Unfit
                return () if isinstance(known, Tile) else (known,)
        return ()

    def compute(self, node: IRValue) -> Value:
        match node:
            case IRConst():
                return constant(node)
            case IRVariable():
                return constant(IRConst(self.variables[node.name], node.dtype))
            case IRCounter():
                return self.counter(node)
            case IRBufLoad():
                return self.load(node)
            case IRRegLoad():
                known = self.known[node]
                return known if isinstance(known, Tile) else self.memo[known]
            case IROp():
                return operation(self.emit, node, [self.memo[s] for s in node.srcs])
        raise Unfit

    def load(self, node: IRBufLoad) -> Value:
        """Elements of a tensor, or others where a gate is false."""
        if node.gate is None:
            return self.elements(node)
        gate = self.memo[node.gate]
        other = LaneConstant(0) if node.alt is None else self.memo[node.alt]
        return (
            other
            if isinstance(gate, LaneConstant) and not gate.bits
            else self.emit.select(gate, self.elements(node), other)
        )

    def counter(self, node: IRCounter) -> Value:
        """The number of an iteration, as constant rows."""
        form, layout = self.form(node), self.layout
        steps = layout.steps(form)
        varies = [n for n, s in enumerate(steps) if s]
        if prod(layout.space[n] for n in varies) > 64:
            raise Unfit
        lanes = layout.pattern(form) + layout.first(form)
        places = combinations(*(range(layout.space[n]) for n in varies))
        table = [lanes + sum(p * steps[n] for p, n in zip(place, varies, strict=True)) for place in places]
        strides = dense(layout.space, [s != 0 for s in steps])
        return Tile(self.emit.code.constant(np.array(table)), False, 0, strides)
