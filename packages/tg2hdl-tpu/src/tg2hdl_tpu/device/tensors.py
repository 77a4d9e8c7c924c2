"""Tensors in VMEM: the operands of a nest, as blocks of rows, and its results."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from itertools import product as combinations
from math import gcd, prod
from typing import Any

import numpy as np

from tg2hdl_ir import (
    Affine,
    AffineAnalysis,
    DType,
    IRBufLoad,
    IRBufStore,
    IRCounter,
    IRValue,
    IRVariable,
    KernelIR,
)
from tg2hdl_tpu.device.arithmetic import from_bits, to_bits
from tg2hdl_tpu.device.axes import AxisLayout, dense, spread
from tg2hdl_tpu.device.code import Line, RowPlace, Rows
from tg2hdl_tpu.device.compact import compact
from tg2hdl_tpu.device.emitter import CROSSBAR, LaneConstant, Value
from tg2hdl_tpu.device.fold import Unfit
from tg2hdl_tpu.device.image import GUARD
from tg2hdl_tpu.device.memory import elements_of_word
from tg2hdl_tpu.device.tiles import Tile, TileEmitter
from tg2hdl_tpu.isa import REDUCE, XLU

__all__ = ["Tensors"]

#: Most rows in one DMA, and rows of tensors in VMEM.
_MOVED, _RESIDENT = 1023, 900
#: Rows that are stored while the next ones are computed.
_PART = 8
#: Orders of lanes in which a tensor is read.
_SHIFTS = 1024
#: External rows around a tensor that may be read; there are `GUARD` of them in memory.
_BEYOND = GUARD - 4


@dataclass(frozen=True)
class _Resident:
    """External rows from `first` on in VMEM."""

    rows: Rows
    first: int


class Tensors:
    """The tensors of a kernel, as the iterations of a layout read and write them.

    Parameters
    ----------
    kernel : KernelIR
    emit : TileEmitter
    bounds, variables : mapping
        Trip count of each loop by axis, and values of variables.
    rows : int
        Rows of a value.
    shared : collection of int
        Slots of outputs whose last row has elements of others.
    """

    def __init__(
        self,
        kernel: KernelIR,
        emit: TileEmitter,
        bounds: Mapping[int, int],
        variables: Mapping[str, int],
        rows: int,
        shared: Collection[int],
    ) -> None:
        self.kernel, self.emit, self.variables, self.shared = kernel, emit, variables, shared
        self.room = min(2 * rows, _RESIDENT)  # rows of tensors
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
        self.parallel: tuple[IRCounter, ...] = ()  # loops outside of reductions, innermost first
        self.layout: AxisLayout  # of the results
        self.outer: AxisLayout  # outside of reductions

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

    def is_small(self) -> bool:
        """Whether all that is read fits into VMEM."""
        return sum(high - low + 1 for low, high in self.ranges().values()) <= self.room

    def ranges(self) -> dict[int, tuple[int, int]]:
        """First and last row of elements that is read of each tensor."""
        found: dict[int, tuple[int, int]] = {}
        lanes = self.emit.config.lanes
        for statement in self.statements:
            if isinstance(statement, IRBufLoad):
                form = self.form(statement.addr)
                ends = [(0, k * (self.extents[s] - 1)) for s, k in form.terms if isinstance(s, IRCounter)]
                low = (form.const + sum(min(e) for e in ends)) // lanes
                # Lanes behind the last iteration of a loop that is cut read on.
                cuts = self.reduced if len(self.wide) < 2 else {*self.reduced, self.wide[0]}
                cut = any(k == 1 and s in cuts and self.extents[s] % lanes for s, k in form.terms)
                high = (form.const + sum(max(e) for e in ends) + cut * (lanes - 1)) // lanes
                before = found.get(statement.buf_idx, (low, high))
                found[statement.buf_idx] = min(low, before[0]), max(high, before[1])
        return found

    def fetch(self, slot: int, low: int, high: int) -> _Resident:
        """Load rows of elements.

        Parameters
        ----------
        slot : int
            Buffer.
        low, high : int
            First and last row, each of as many elements as the machine has lanes.

        Raises
        ------
        Unfit
            For rows that are far outside of the buffer.
        """
        buffer = self.kernel.buffer(slot)
        lanes, narrow = self.emit.config.lanes, elements_of_word(buffer.dtype)
        if low < -_BEYOND * narrow or high >= buffer.depth // lanes + _BEYOND * narrow:
            raise Unfit  # elements that a gate leaves out may be outside of the memory
        if narrow > 1:
            self.resident[slot] = self._unpacked(slot, buffer.dtype, low // narrow, high // narrow)
            return self.resident[slot]
        rows = Rows(high - low + 1)
        self.resident[slot] = _Resident(rows, low)
        for at in range(0, rows.count, _MOVED):
            part = min(_MOVED, rows.count - at)
            self.emit.line("load", dst=RowPlace(rows, at), b=low + at, slot=slot, count=part)
        return self.resident[slot]

    def _unpacked(self, slot: int, dtype: DType, low: int, high: int) -> _Resident:
        """External rows whose words hold several elements, as a row for each of so many lanes."""
        emit, lanes, narrow = self.emit, self.emit.config.lanes, elements_of_word(dtype)
        lane, count = np.arange(lanes), high - low + 1
        packed, words = Rows(count), Rows(count * narrow)
        emit.line("load", dst=RowPlace(packed), b=low, slot=slot, count=count)
        for phase in range(narrow):
            emit.line(
                "copy",
                dst=RowPlace(words, phase, narrow if count > 1 else 0),
                a=RowPlace(packed, stride=int(count > 1)),
                b=RowPlace(emit.code.constant(phase * (lanes // narrow) + lane // narrow)),
                pre=CROSSBAR,
                xlu=XLU.index("permute"),
                count=count,
            )
        space, emit.space = emit.space, (words.count,)
        width = 32 // narrow
        bit, op = lane % narrow * width, "shr"
        if is_signed := dtype.kind == "int":
            bit, op = 32 - width - bit, "shl"
        places = Tile(emit.code.constant(bit), False, 0, (0,))
        value: Value = emit.operate(op, Tile(words, False, 0, (1,)), places)
        value = (
            emit.operate("sra", value, LaneConstant(32 - width))
            if is_signed
            else from_bits(emit, value, dtype)
        )
        emit.space = space
        assert isinstance(value, Tile)
        return _Resident(value.rows, low * narrow)

    def _block(self, slot: int, form: Affine) -> _Resident | None:
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

    def elements(self, node: IRBufLoad) -> Tile:
        """Elements of a resident tensor: its rows, or their lanes in another order."""
        form, layout, lanes = self.form(node.addr), self.layout, self.emit.config.lanes
        block = self._block(node.buf_idx, form)
        pattern, first, steps = layout.pattern(form), layout.first(form), layout.steps(form)
        used = lanes if layout.cut_row is not None else layout.last
        if (pattern == np.arange(lanes))[:used].all() and not any(v % lanes for v in (first, *steps)):
            strides = tuple(s // lanes for s in steps)
            if block is None:
                return self._apart(node.buf_idx, first // lanes, strides)
            return Tile(block.rows, False, 0, strides, first // lanes - block.first)
        if block is None:
            raise Unfit
        return self._permuted(block, pattern, used, first, steps)

    def _apart(self, slot: int, first: int, steps: tuple[int, ...]) -> Tile:
        """Rows of a tensor that lie far apart, side by side in VMEM."""
        if elements_of_word(self.kernel.buffer(slot).dtype) > 1:
            raise Unfit
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
                    dst=RowPlace(rows, to + n * runs[0]),
                    b=first + source + n * runs[1],
                    slot=slot,
                    count=count if together else 1,
                )
        return Tile(rows, False, 0, strides)

    def _permuted(
        self, block: _Resident, pattern: np.ndarray, used: int, first: int, steps: tuple[int, ...]
    ) -> Tile:
        """Lanes of one row each, in an order of their own; what is in those that are not used does not matter."""
        emit, lanes = self.emit, self.emit.config.lanes
        low = int(pattern[:used].min())
        shifted: list[tuple[int, int, int]] = []  # extent, step, stride of the result
        aligned: list[tuple[int, int, int]] = []
        strides = dense(self.layout.space, [s != 0 for s in steps])
        for extent, step, stride in zip(self.layout.space, steps, strides, strict=True):
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

        def source_of(base: int) -> tuple[int, np.ndarray]:
            row = (base + low) // lanes
            index = base + pattern - row * lanes
            index[used:] %= lanes
            return row - block.first, index

        if not shifted:
            row, index = source_of(first)
            turn = _turn(index)
            if turn is not None:
                return Tile(block.rows, False, 0, tuple(s // lanes for s in steps), row, turn)
        into = emit.fresh([s != 0 for s in steps])
        for place in combinations(*(range(e) for e, _, _ in shifted)):
            row, index = source_of(first + sum(p * s for p, (_, s, _) in zip(place, shifted, strict=True)))
            target = sum(p * t for p, (_, _, t) in zip(place, shifted, strict=True))
            for (to, source), count, (stride, step) in spread(
                [e for e, _, _ in aligned], [t for _, _, t in aligned], [s // lanes for _, s, _ in aligned]
            ):
                where = RowPlace(into.rows, target + to, stride)
                self._lanes_of(where, RowPlace(block.rows, row + source, step), index, count)
        return into

    def _lanes_of(self, into: RowPlace, source: RowPlace, index: np.ndarray, count: int) -> None:
        """Collect lanes, numbered by `index` from those of the first row on, of each row and the one behind it."""
        emit, lanes = self.emit, self.emit.config.lanes
        if index.max() >= 2 * lanes:
            raise Unfit

        def permute(to: RowPlace, row: int) -> None:
            from_, order = replace(source, row=source.row + row), (index % lanes).astype(np.int32)
            fields: dict[str, Any] = {"xlu": XLU.index("permute")}
            if (order == order[0]).all():
                fields = {"xlu": XLU.index("broadcast"), "k": int(order[0])}
            elif (turn := _turn(order)) is not None:
                fields = {"xlu": XLU.index("rotate"), "k": turn}
            else:
                fields["b"] = RowPlace(emit.code.constant(order))
            emit.line("copy", dst=to, a=from_, count=count, pre=CROSSBAR, **fields)

        if index.max() < lanes:
            permute(into, 0)
            return
        step = int(count > 1)
        parts = [RowPlace(Rows(count), stride=step) for _ in range(2)]
        for n, part in enumerate(parts):
            permute(part, n)
        emit.line("copy", dst=into, a=RowPlace(emit.code.constant(index < lanes)), count=count)
        emit.line("select", dst=into, a=parts[0], b=parts[1], count=count)

    def store(self, node: IRBufStore, value: Tile) -> None:
        """Write a value to external memory.

        Parameters
        ----------
        node : IRBufStore
        value : Tile
            A tile in the layout of the results.

        Raises
        ------
        Unfit
            For elements that are not neighbouring lanes of whole rows.
        """
        emit, lanes, layout = self.emit, self.emit.config.lanes, self.outer
        form = self.form(node.addr)
        pattern, first, steps = layout.pattern(form), layout.first(form), layout.steps(form)
        used = lanes if layout.rows else layout.last
        if (pattern != np.arange(lanes))[:used].any() or first % lanes:
            raise Unfit
        if not self.is_flat(form) if self.is_cut else any(v % lanes for v in steps):
            raise Unfit
        space, part = emit.space, layout.last
        whole = part == lanes or self._ends(node.buf_idx, form)
        own = dense(space, [e > 1 for e in space])
        varies = [s != 0 or e == 1 for s, e in zip(value.strides, space, strict=True)]
        if not all(varies) or value.rows.keeps or (value.strides != own and (self.is_cut or not whole)):
            copy = emit.fresh([e > 1 for e in space])
            emit.rows("copy", copy, value)
            value = copy
        if self.is_cut:
            total = prod(self.extents[c] for c in self.wide)
            value = compact(emit, value, self.extents[self.wide[0]], total)
            space, steps, part = (-(-total // lanes),), (lanes,), total % lanes or lanes
            whole = part == lanes or self._ends(node.buf_idx, form)
        if elements_of_word(node.dtype) > 1:
            self._store_narrow(node, value, space, first, steps, part)
            return
        last = sum((e - 1) * s for e, s in zip(space, value.strides, strict=True))
        end = first // lanes + sum((e - 1) * s // lanes for e, s in zip(space, steps, strict=True))
        outside = tuple(s // lanes for s in steps)
        for (source, target), count, strides in spread(space, value.strides, outside, narrow=0):
            together = count == 1 or strides == (1, 1)
            for n in range(1 if together else count):
                at, to = source + n * strides[0], target + n * strides[1]
                rows = count if together else 1
                if not whole and at + rows - 1 == last:
                    rows -= 1
                if rows:
                    self._move(node.buf_idx, value, at, first // lanes + to, rows)
        if not whole:
            self._store_part(node.buf_idx, RowPlace(value.rows, value.first + last), end, part)

    @property
    def wide(self) -> list[IRCounter]:
        """Loops outside of reductions with more than one iteration, innermost first."""
        return [c for c in self.parallel if self.extents[c] > 1]

    @property
    def is_cut(self) -> bool:
        """Whether lanes of some rows are not iterations, and memory has other rows."""
        return len(self.wide) > 1 and self.outer.cut is self.wide[0]

    def is_flat(self, form: Affine) -> bool:
        """Whether the iterations outside of reductions are neighbours in memory."""
        step = 1
        for counter in self.wide:
            if form.coefficient(counter) != step:
                return False
            step *= self.extents[counter]
        return True

    def _store_narrow(
        self,
        node: IRBufStore,
        value: Tile,
        space: tuple[int, ...],
        first: int,
        steps: tuple[int, ...],
        part: int,
    ) -> None:
        """Store rows of elements that share words; they must follow each other and fill external rows."""
        emit, lanes, dtype = self.emit, self.emit.config.lanes, node.dtype
        narrow = elements_of_word(dtype)
        runs = list(spread(space, value.strides, tuple(s // lanes for s in steps), narrow=0))
        count = runs[0][1]
        whole = count % narrow == 0 and part == lanes
        if len(runs) != 1 or first % (lanes * narrow) or (count > 1 and runs[0][2] != (1, 1)):
            raise Unfit
        if not whole and not self._ends(node.buf_idx, self.form(node.addr)):
            raise Unfit
        around, emit.space = emit.space, space
        bits = emit.tile(to_bits(emit, value, dtype))
        masked = emit.operate("and", bits, LaneConstant((1 << 32 // narrow) - 1))
        emit.space = around
        words = Rows(-(-count // narrow))
        emit.line(
            "shl",
            dst=RowPlace(words, stride=int(count > 1)),
            a=RowPlace(masked.rows, masked.first, int(count > 1)),
            b=RowPlace(emit.code.constant(np.arange(lanes) % narrow * (32 // narrow))),
            reduce=REDUCE.index("add"),
            levels=narrow - 1,
            pack=1,
            segment=narrow.bit_length() - 1,
            count=count,
        )
        emit.line(
            "store", a=RowPlace(words), b=first // (lanes * narrow), slot=node.buf_idx, count=words.count
        )

    def _ends(self, slot: int, form: Affine) -> bool:
        """Whether nothing lies behind the last element in its row."""
        last = form.const + sum(k * (self.extents[s] - 1) for s, k in form.terms if isinstance(s, IRCounter))
        return slot not in self.shared and last == self.kernel.buffer(slot).depth - 1

    def _move(self, slot: int, value: Tile, at: int, to: int, count: int) -> None:
        """Store neighbouring rows; while the last of them are computed, where an instruction has just done so."""
        emit = self.emit
        items = emit.scopes[-1].items
        made = items[-1] if items else None
        parts = [count]
        if (
            count >= 2 * _PART
            and isinstance(made, Line)
            and made.dst == RowPlace(value.rows, value.first + at, 1)
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
            place = RowPlace(value.rows, value.first + at + done)
            emit.line("store", a=place, b=to + done, slot=slot, count=part)
            done += part

    def _store_part(self, slot: int, source: RowPlace, row: int, used: int) -> None:
        """Write the first lanes of an external row, and keep the others."""
        emit, lanes = self.emit, self.emit.config.lanes
        old = Rows(1)
        emit.line("load", dst=RowPlace(old), b=row, slot=slot, count=1)
        at = 0
        while at < used:
            width = 1 << (used - at).bit_length() - 1
            while at % width:
                width //= 2
            segment = lanes.bit_length() - width.bit_length()
            emit.line("copy", dst=RowPlace(old, lane=at // width), a=source, count=1, segment=segment)
            at += width
        emit.line("store", a=RowPlace(old), b=row, slot=slot, count=1)


def _turn(index: np.ndarray) -> int | None:
    """How far lanes in this order are turned in a circle, or None."""
    turn = int(index[0])
    return turn if (index == (turn + np.arange(len(index))) % len(index)).all() else None
