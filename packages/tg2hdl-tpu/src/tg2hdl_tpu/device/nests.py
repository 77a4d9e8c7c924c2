"""Emits loops with affine addresses: tensors lie in VMEM as blocks, an operation is a vector over all iterations."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product as combinations
from math import gcd, prod

import numpy as np

from tg2hdl_ir.analysis.affine import Affine, AffineAnalysis
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
    IRVariable,
    KernelIR,
    LoopIR,
)
from tg2hdl_tpu.device.arithmetic import constant, operation
from tg2hdl_tpu.device.axes import Layout, dense, lay_out, spread
from tg2hdl_tpu.device.code import Line, Place, Rows
from tg2hdl_tpu.device.emitter import CROSSBAR, Emitter, Value
from tg2hdl_tpu.device.folds import Fold, Folding, Unfit, fold_of
from tg2hdl_tpu.device.lower import bounds_of
from tg2hdl_tpu.device.threads import parallel_nest
from tg2hdl_tpu.device.tiles import Tile, TileEmitter
from tg2hdl_tpu.isa import XLU

__all__ = ["emit_nest"]

#: Most rows in one DMA, rows of a tensor in VMEM, and lines of a program.
_MOVED, _RESIDENT, _LINES = 1023, 900, 8000
#: Rows that are stored while the next ones are computed.
_PART = 8
#: Orders of lanes in which a tensor is read.
_SHIFTS = 1024


@dataclass(frozen=True)
class _Resident:
    """External rows from `first` on in VMEM."""

    rows: Rows
    first: int


def emit_nest(
    emit: Emitter, kernel: KernelIR, variables: Mapping[str, int], rows: int, shared: Collection[int] = ()
) -> bool:
    """Emit a kernel with so many rows of a value at a time; False, and nothing, where it needs the general way.

    The last rows of the outputs in `shared` have elements of others.
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


class _Nest:
    def __init__(
        self,
        kernel: KernelIR,
        emit: TileEmitter,
        variables: Mapping[str, int],
        rows: int,
        shared: Collection[int],
    ) -> None:
        self.shared = shared
        self.kernel, self.emit, self.variables, self.limit = kernel, emit, variables, rows
        self.room = min(2 * rows, _RESIDENT)  # rows of tensors
        self.bounds = bounds = bounds_of(kernel, variables)
        self.affine = AffineAnalysis()
        self.statements = list(kernel.loop_tree.statements())
        self.extents = {
            loop.counter: bounds[loop.counter.axis]
            for loop in kernel.loop_tree.walk()
            if loop.counter is not None
        }
        self.starts: dict[IRCounter, int] = {}
        self.reduced = {loop.counter for loop in kernel.loop_tree.walk() if loop.axis_type == "reduce"}
        self.resident: dict[int, _Resident] = {}
        self.registers: dict[int, IRValue | Tile] = {}
        self.known: dict[IRRegLoad, IRValue | Tile] = {}
        self.memo: dict[IRValue, Value] = {}
        self.layout: Layout
        self.outer: Layout  # of what is outside of reductions

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
        largest = 0  # of which the results fit, and perhaps all that is read
        while True:
            self.extents[counter] = extent
            layout = lay_out(self.parallel, self.extents, self.emit.config.lanes, ())
            if layout is None:
                raise Unfit
            if prod(layout.space) <= self.limit:
                largest = largest or extent
                if self.is_small():
                    largest = extent
                    break
            first = layout.rows[0] if layout.rows else None
            if first is None or first.extent == 1 or first.counter is not counter:
                break
            extent = -(-first.extent // 2) * first.step
        if not largest:
            raise Unfit
        return [(start, min(largest, whole - start)) for start in range(0, whole, largest)]

    def is_small(self) -> bool:
        """Whether all that is read fits into VMEM."""
        return sum(high - low + 1 for low, high in self.ranges().values()) <= self.room

    def run_block(self, items: tuple[IRItem, ...]) -> None:
        """Emit what some iterations of the outermost loop do."""
        outer = lay_out(self.parallel, self.extents, self.emit.config.lanes, ())
        if outer is None:
            raise Unfit
        self.outer = outer
        self.resident, self.registers, self.known = {}, {}, {}
        self.enter(outer)
        if self.is_small():
            for slot, (low, high) in self.ranges().items():
                self.fetch(slot, low, high)
        for item in items:
            self.item(item)

    def check(self) -> None:
        """Refuse what only the general way has."""
        if any(self.kernel.register(r.idx).size > 1 for r in self.kernel.registers):
            raise Unfit
        if any(extent < 1 for extent in self.extents.values()):
            raise Unfit
        written: set[int] = set()
        for statement in self.statements:
            if isinstance(statement, IRBufLoad | IRBufStore):
                dtype = self.kernel.buffer(statement.buf_idx).dtype
                if statement.gate is not None or dtype.numpy().itemsize != 4:
                    raise Unfit
                if isinstance(statement, IRBufStore):
                    written.add(statement.buf_idx)
                elif statement.buf_idx in written:
                    raise Unfit
            elif (isinstance(statement, IRRegLoad | IRRegStore) and statement.index is not None) or (
                isinstance(statement, IRRegStore) and statement.gate is not None
            ):
                raise Unfit

    def enter(self, layout: Layout) -> None:
        """Begin to compute values of a layout."""
        self.layout, self.memo, self.emit.space = layout, {}, layout.space

    def form(self, address: IRValue) -> Affine:
        """Affine form of an address, with the values of variables."""
        form = self.affine.of(address)
        if form is None:
            raise Unfit
        const = form.const
        for symbol, factor in form.terms:
            if isinstance(symbol, IRVariable):
                const += factor * self.variables[symbol.name]
            else:
                const += factor * self.starts.get(symbol, 0)
        return Affine(const, tuple((s, k) for s, k in form.terms if isinstance(s, IRCounter)))

    # Memory

    def ranges(self) -> dict[int, tuple[int, int]]:
        """First and last external row that is read of each tensor."""
        found: dict[int, tuple[int, int]] = {}
        lanes = self.emit.config.lanes
        for statement in self.statements:
            if isinstance(statement, IRBufLoad):
                form = self.form(statement.addr)
                ends = [(0, k * (self.extents[s] - 1)) for s, k in form.terms if isinstance(s, IRCounter)]
                low = (form.const + sum(min(e) for e in ends)) // lanes
                # Lanes behind the last iteration of a loop that is cut read on.
                cut = any(k == 1 and s in self.reduced and self.extents[s] % lanes for s, k in form.terms)
                high = (form.const + sum(max(e) for e in ends) + cut * (lanes - 1)) // lanes
                before = found.get(statement.buf_idx, (low, high))
                found[statement.buf_idx] = min(low, before[0]), max(high, before[1])
        return found

    def fetch(self, slot: int, low: int, high: int) -> _Resident:
        """Load external rows."""
        rows = Rows(high - low + 1)
        self.resident[slot] = _Resident(rows, low)
        for at in range(0, rows.count, _MOVED):
            part = min(_MOVED, rows.count - at)
            self.emit.line("load", dst=Place(rows, at), b=low + at, slot=slot, count=part)
        return self.resident[slot]

    def block(self, slot: int, form: Affine) -> _Resident | None:
        """The rows of a tensor that the iterations at hand read; None where there are too many between them."""
        lanes = self.emit.config.lanes
        low = high = self.layout.first(form)
        for d in (*self.layout.lanes, *self.layout.rows):
            reach = form.coefficient(d.counter) * d.step * (d.extent - 1)
            low, high = low + min(reach, 0), high + max(reach, 0)
        low, high = low // lanes, high // lanes
        found = self.resident.get(slot)
        if found is None or low < found.first or high >= found.first + found.rows.count:
            if high - low >= self.room:
                return None
            found = self.fetch(slot, low, high)
        return found

    def load(self, node: IRBufLoad) -> Tile:
        """Elements of a resident tensor: its rows, or their lanes in another order."""
        form, layout, lanes = self.form(node.addr), self.layout, self.emit.config.lanes
        block = self.block(node.buf_idx, form)
        pattern, first, steps = layout.pattern(form), layout.first(form), layout.steps(form)
        used = lanes if layout.rows else layout.last
        if (pattern == np.arange(lanes))[:used].all() and not any(v % lanes for v in (first, *steps)):
            strides = tuple(s // lanes for s in steps)
            if block is None:
                return self.apart(node.buf_idx, first // lanes, strides)
            return Tile(block.rows, False, 0, strides, first // lanes - block.first)
        if block is None:
            raise Unfit
        return self.permuted(block, pattern, first, steps)

    def apart(self, slot: int, first: int, steps: tuple[int, ...]) -> Tile:
        """Rows of a tensor that lie far apart, side by side in VMEM."""
        space = self.layout.space
        order = sorted(range(len(space)), key=lambda n: -abs(steps[n]))
        found = dense([space[n] for n in order], [steps[n] != 0 for n in order])
        strides = tuple(found[order.index(n)] for n in range(len(space)))
        rows = Rows(prod(e for e, s in zip(space, steps, strict=True) if s))
        whole = tuple(e if s else 1 for e, s in zip(space, steps, strict=True))
        for (to, source), count, runs in spread(
            [whole[n] for n in order], found, [steps[n] for n in order], narrow=0
        ):
            together = count == 1 or runs == (1, 1)
            for n in range(1 if together else count):
                self.emit.line(
                    "load",
                    dst=Place(rows, to + n * runs[0]),
                    b=first + source + n * runs[1],
                    slot=slot,
                    count=count if together else 1,
                )
        return Tile(rows, False, 0, strides)

    def permuted(self, block: _Resident, pattern: np.ndarray, first: int, steps: tuple[int, ...]) -> Tile:
        """Lanes of one row each, in an order of their own."""
        emit, lanes = self.emit, self.emit.config.lanes
        low = int(pattern.min())
        into = emit.fresh([s != 0 for s in steps])
        shifted: list[tuple[int, int, int]] = []  # extent, step, stride of the result
        aligned: list[tuple[int, int, int]] = []
        for extent, step, stride in zip(self.layout.space, steps, into.strides, strict=True):
            turns = lanes // gcd(step, lanes)  # after which lanes are the same
            if step and turns > 1 and extent % turns == 0:
                aligned.append((extent // turns, step * turns, stride * turns))
                shifted.append((turns, step, stride))
            elif step and turns > 1:
                shifted.append((extent, step, stride))
            elif step:
                aligned.append((extent, step, stride))
        if prod(e for e, _, _ in shifted) > _SHIFTS:
            raise Unfit
        for place in combinations(*(range(e) for e, _, _ in shifted)):
            base = first + sum(p * s for p, (_, s, _) in zip(place, shifted, strict=True))
            target = sum(p * t for p, (_, _, t) in zip(place, shifted, strict=True))
            row = (base + low) // lanes
            index = base + pattern - row * lanes
            for (to, source), count, (stride, step) in spread(
                [e for e, _, _ in aligned], [t for _, _, t in aligned], [s // lanes for _, s, _ in aligned]
            ):
                where = Place(into.rows, target + to, stride)
                self.lanes_of(where, Place(block.rows, row - block.first + source, step), index, count)
        return into

    def lanes_of(self, into: Place, source: Place, index: np.ndarray, count: int) -> None:
        """Collect lanes, numbered by `index` from those of the first row on, of each row and the one behind it."""
        emit, lanes = self.emit, self.emit.config.lanes
        if index.max() >= 2 * lanes:
            raise Unfit

        def permute(to: Place, row: int) -> None:
            from_, order = replace(source, row=source.row + row), (index % lanes).astype(np.int32)
            if (order == order[0]).all():
                emit.line(
                    "copy",
                    dst=to,
                    a=from_,
                    count=count,
                    pre=CROSSBAR,
                    xlu=XLU.index("broadcast"),
                    k=int(order[0]),
                )
            else:
                place = Place(emit.code.constant(order))
                emit.line(
                    "copy", dst=to, a=from_, b=place, count=count, pre=CROSSBAR, xlu=XLU.index("permute")
                )

        if index.max() < lanes:
            permute(into, 0)
            return
        step = int(count > 1)
        parts = [Place(Rows(count), stride=step) for _ in range(2)]
        for n, part in enumerate(parts):
            permute(part, n)
        emit.line("copy", dst=into, a=Place(emit.code.constant(index < lanes)), count=count)
        emit.line("select", dst=into, a=parts[0], b=parts[1], count=count)

    def store(self, node: IRBufStore) -> None:
        emit, lanes, layout = self.emit, self.emit.config.lanes, self.outer
        form = self.form(node.addr)
        pattern, first, steps = layout.pattern(form), layout.first(form), layout.steps(form)
        used = lanes if layout.rows else layout.last
        if (pattern != np.arange(lanes))[:used].any() or any(v % lanes for v in (first, *steps)):
            raise Unfit
        value = emit.tile(self.value(node.value))
        varies = [s != 0 or e == 1 for s, e in zip(value.strides, emit.space, strict=True)]
        if not all(varies) or value.rows.keeps:
            copy = emit.fresh([e > 1 for e in emit.space])
            emit.rows("copy", copy, value)
            value = copy
        last = sum((e - 1) * s for e, s in zip(emit.space, value.strides, strict=True))
        end = first // lanes + sum((e - 1) * s // lanes for e, s in zip(emit.space, steps, strict=True))
        whole = layout.last == lanes or self.ends(node.buf_idx, form)
        outside = tuple(s // lanes for s in steps)
        for (source, target), count, strides in spread(emit.space, value.strides, outside, narrow=0):
            together = count == 1 or strides == (1, 1)
            for n in range(1 if together else count):
                at, to = source + n * strides[0], target + n * strides[1]
                rows = count if together else 1
                if not whole and at + rows - 1 == last:
                    rows -= 1
                if rows:
                    self.move(node.buf_idx, value, at, first // lanes + to, rows)
        if not whole:
            self.store_part(node.buf_idx, Place(value.rows, value.first + last), end, layout.last)

    def ends(self, slot: int, form: Affine) -> bool:
        """Whether nothing lies behind the last element in its row."""
        last = form.const + sum(k * (self.extents[s] - 1) for s, k in form.terms if isinstance(s, IRCounter))
        return slot not in self.shared and last == self.kernel.buffer(slot).depth - 1

    def move(self, slot: int, value: Tile, at: int, to: int, count: int) -> None:
        """Store neighbouring rows; while the last of them are computed, where an instruction has just done so."""
        emit = self.emit
        items = emit.scopes[-1].items
        made = items[-1] if items else None
        parts = [count]
        if (
            count >= 2 * _PART
            and isinstance(made, Line)
            and made.dst == Place(value.rows, value.first + at, 1)
            and made.fields["count"] == count
            and not made.fields.get("accumulate")
            and "reduce" not in made.fields
        ):
            items.pop()
            number = min(count // _PART, 4)
            parts = [count * (n + 1) // number - count * n // number for n in range(number)]
        else:
            made = None
        done = 0
        for part in parts:
            if isinstance(made, Line):
                items.append(made.part(done, part))
            place = Place(value.rows, value.first + at + done)
            emit.line("store", a=place, b=to + done, slot=slot, count=part)
            done += part

    def store_part(self, slot: int, source: Place, row: int, used: int) -> None:
        """Write the first lanes of an external row, and keep the others."""
        emit, lanes = self.emit, self.emit.config.lanes
        old = Rows(1)
        emit.line("load", dst=Place(old), b=row, slot=slot, count=1)
        at = 0
        while at < used:
            width = 1 << (used - at).bit_length() - 1
            while at % width:
                width //= 2
            segment = lanes.bit_length() - width.bit_length()
            emit.line("copy", dst=Place(old, lane=at // width), a=source, count=1, segment=segment)
            at += width
        emit.line("store", a=Place(old), b=row, slot=slot, count=1)

    # Statements

    def item(self, item: IRItem) -> None:
        if isinstance(item, LoopIR):
            self.reduction(item)
        elif isinstance(item, IRBufStore):
            self.store(item)
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
        folds: list[tuple[int, Fold]] = []
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

    def layouts(self, counters: list[IRCounter], loads: list[IRBufLoad]) -> Iterator[Layout]:
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
            layout = lay_out(order, self.extents, self.emit.config.lanes, counters)
            if layout is not None:
                yield layout

    def attempt(
        self, layout: Layout, counters: list[IRCounter], folds: list[Fold], rows: int
    ) -> list[Tile] | None:
        """Reductions in a layout, of so many rows at a time, or None where they do not fit."""
        emit, before, memo = self.emit, dict(self.emit.code.constants), self.memo
        resident = dict(self.resident)
        emit.open(is_loop=False)
        depth = emit.depth
        try:
            results = [Folding(fold, emit, layout, self.outer, counters) for fold in folds]
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

    def parts(self, layout: Layout, counters: list[IRCounter], rows: int) -> Iterator[Layout]:
        """The layout, or parts of its first loop one after the other."""
        number = -(-prod(layout.space) // rows)
        if number == 1:
            yield layout
            return
        outermost = layout.rows[0]
        if outermost.counter not in counters or number > outermost.extent:
            raise Unfit
        whole = outermost.extent
        size = whole // number
        for start in range(0, whole, size):
            extent = min(size, whole - start)
            digit = replace(outermost, extent=extent, start=outermost.start + start * outermost.step)
            ends = outermost.counter is not layout.cut or start + extent == whole
            last = layout.last if ends else layout.width
            yield replace(layout, rows=(digit, *layout.rows[1:]), last=last)

    # Values

    def value(self, root: IRValue) -> Value:
        stack = [root]
        while stack:
            node = stack[-1]
            if node in self.memo:
                stack.pop()
                continue
            needed: tuple[IRValue, ...] = ()
            if isinstance(node, IROp):
                needed = node.srcs
            elif isinstance(node, IRRegLoad):
                known = self.known.get(node)
                if known is None or (isinstance(known, Tile) and self.layout is not self.outer):
                    raise Unfit
                if not isinstance(known, Tile):
                    needed = (known,)
            missing = [n for n in needed if n not in self.memo]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            self.memo[node] = self.compute(node)
        return self.memo[root]

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
