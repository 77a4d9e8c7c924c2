"""Reductions over iterations in lanes and rows: in any order where that gives the same bits, else one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product as combinations
from math import prod
from typing import Any

import numpy as np

from tg2hdl_ir import IRCounter
from tg2hdl_tpu.device.arithmetic import constant, wrapped
from tg2hdl_tpu.device.axes import AxisLayout, dense, spread
from tg2hdl_tpu.device.code import RowPlace, Rows
from tg2hdl_tpu.device.emitter import CROSSBAR, ROW, LaneConstant, Value
from tg2hdl_tpu.device.fold import NEUTRAL, RegisterFold, Unfit
from tg2hdl_tpu.device.tiles import Tile, TileEmitter
from tg2hdl_tpu.isa import REDUCE, XLU

__all__ = ["Folding"]

#: Largest number of vectors, of one sum each, for which `acc` is used.
_SUMS = 256
#: Longest chain (instructions) that is unrolled.
_UNROLLED = 512


class Folding:
    """A reduction under way: terms come in parts, the result is in the layout `outer`."""

    def __init__(
        self,
        fold: RegisterFold,
        emit: TileEmitter,
        layout: AxisLayout,
        outer: AxisLayout,
        counters: Sequence[IRCounter],
    ) -> None:
        self.fold, self.emit, self.layout, self.outer = fold, emit, layout, outer
        self.counters = list(counters)
        self.inner = [n for n, d in enumerate(layout.rows) if d.counter in self.counters]
        self.kept = [n for n, d in enumerate(layout.rows) if d.counter not in self.counters]
        self.lanes = [d for d in layout.lanes if d.counter in self.counters]
        self.space = tuple(layout.rows[n].extent for n in self.kept)
        self.total: Tile | None = None
        self.is_placed = False  # whether `total` is in the layout `outer`
        own = [d for d in layout.lanes if d.counter not in self.counters]
        same = own == list(outer.lanes) and [layout.rows[n] for n in self.kept] == list(outer.rows)
        self.size = self.group() if self.lanes else 1
        if not same:
            lowest = self.lanes and max(d.place for d in self.lanes) < min(
                (d.place for d in own), default=layout.width
            )
            if not lowest or not self.in_order(own):
                raise Unfit
        self.is_same = same
        if fold.way != "reduce" and self.lanes and (own or self.size < layout.width):
            raise Unfit

    def group(self) -> int:
        """Lanes that are combined: a power of two."""
        size = 1
        for d in self.lanes:
            whole = d.extent & (d.extent - 1) == 0
            size *= d.extent if whole and self.fold.way == "reduce" else 1
            if not whole or self.fold.way != "reduce":
                return self.layout.width // min(d.place for d in self.lanes)
        return size

    def in_order(self, own: list[Any]) -> bool:
        """Whether results follow each other as in the layout outside."""

        def order(lanes: Sequence[Any], rows: Sequence[Any]) -> list[IRCounter]:
            return list(dict.fromkeys(d.counter for d in (*lanes, *reversed(rows))))

        return order(own, [self.layout.rows[n] for n in self.kept]) == order(
            self.outer.lanes, self.outer.rows
        )

    # Terms

    def add(self, part: AxisLayout, value: Value) -> None:
        """Take the terms of the layout, or of a part of it.

        Parameters
        ----------
        part : AxisLayout
            The layout, or a part of it.
        value : Value
            Of each term.

        Raises
        ------
        Unfit
            Where the order of the terms is not that of the loops.
        """
        tile = self.emit.tile(value)
        space = list(part.space)
        if self.fold.way == "chain":
            self._chain(part, tile)
            return
        tail: Callable[[], Tile] | None = None
        if part.last < part.width and self.lanes:
            tile, tail = self._masked(part, tile)
            if tail is not None:
                space[0] -= 1
        if self.fold.way == "reduce" and part is self.layout and prod(self.space) <= _SUMS:
            self._reduce(tile, space, tail)
            return
        total = self._summed(tile, space) if self.fold.way == "reduce" else self._tree(tile, space)
        for other in (None if tail is None else tail(), self.total):
            if other is not None:
                self.emit.rows(self.fold.op, total, total, other, space=self.space)  # no NaN is in `total`
        self.total = total

    def _masked(self, part: AxisLayout, tile: Tile) -> tuple[Tile, Callable[[], Tile] | None]:
        """Replace lanes behind the last iteration; the last of several rows then is a tile of its own, made later."""
        emit, way, single = self.emit, self.fold.way, (0,) * len(part.rows)
        inside = np.arange(part.width) < part.last
        mask = Tile(emit.code.constant(inside), False, 0, single)
        neutral = constant(self.fold.first)
        if self.fold.op in NEUTRAL:
            neutral = LaneConstant(NEUTRAL[self.fold.op])
        if not part.rows:
            if (
                way == "reduce"
                and all(d.extent & (d.extent - 1) == 0 for d in self.lanes)
                and part.cut is None
            ):
                return tile, None
            found = emit.select(mask, tile, neutral)
            assert isinstance(found, Tile)
            return found, None
        if part.cut not in self.counters:
            return tile, None
        at = part.cut_row
        if at == 0 and len(part.rows) == 1:

            def tail() -> Tile:
                space, emit.space = emit.space, ()
                found = emit.select(Tile(mask.rows, False, 0), tile.at(0, part.rows[0].extent - 1), neutral)
                emit.space = space
                assert isinstance(found, Tile)
                return found

            return tile, tail
        into, space = _fresh(part.space, None), list(part.space)
        keep = Tile(emit.code.constant(np.where(inside, -1, 0)), False, 0, single)
        last = 0
        if at is not None:
            last, space[at] = space[at] - 1, space[at] - 1
            if last:
                emit.rows("copy", into, tile, space=space)
            space[at] = 1
        target = into if at is None else into.part(at, last)
        emit.rows("and", target, tile if at is None else tile.part(at, last), keep, space=space)
        if neutral.bits:
            rest = Tile(emit.code.constant(np.where(inside, 0, neutral.bits)), False, 0, single)
            emit.rows("or", target, target, rest, space=space)
        return into, None

    def _reduce(self, tile: Tile, space: Sequence[int], tail: Callable[[], Tile] | None) -> None:
        """Combine rows with `acc`, lanes with `reduce`."""
        emit, fold = self.emit, self.fold
        runs = _merged([(space[n], tile.strides[n]) for n in self.inner])
        while len(runs) > 1:
            tile, space = self._halved(
                tile, list(space), min(self.inner, key=lambda n: space[n] if space[n] > 1 else 1 << 30)
            )
            runs = _merged([(space[n], tile.strides[n]) for n in self.inner])
        count, step = runs[0] if runs else (1, 0)
        how = REDUCE.index(fold.op)
        levels = self.size - 1
        if self.lanes:
            levels *= min(d.place for d in self.lanes)
        fields: dict[str, Any] = {"reduce": how, "levels": levels} if levels else {}
        strides = tuple(tile.strides[n] for n in self.kept)
        if tail is not None:
            first = Rows(1)
            for start, part in _counts(count):
                target = RowPlace(first) if start == 0 else RowPlace(Rows(1))
                emit.line(
                    "copy",
                    dst=target,
                    a=RowPlace(tile.rows, tile.first + start * step, step),
                    count=part,
                    accumulate=1,
                    reduce=how,
                )
                if start:
                    emit.line(fold.op, dst=RowPlace(first), a=RowPlace(first), b=target, count=1)
            into, last = self.target(), tail()
            emit.line(
                fold.op,
                dst=into(0),
                a=RowPlace(first),
                b=RowPlace(last.rows, last.first),
                count=1,
                **fields,
                **self.modes(),
            )
            return
        into = self.target()
        modes = self.modes()
        if count == 1:
            if not levels and not modes:
                self.total = Tile(tile.rows, False, 0, strides, tile.first)
                return
            width = dense(self.space, [e > 1 for e in self.space])
            for (to, source), number, steps in spread(self.space, width, strides):
                place = into(to)
                emit.line(
                    "copy",
                    dst=RowPlace(place.rows, place.row, steps[0], 0, place.lane),
                    a=RowPlace(tile.rows, tile.first + source, steps[1]),
                    count=number,
                    **fields,
                    **modes,
                )
            return
        if count > 1023 or abs(step) > 127:
            raise Unfit
        for n, place in enumerate(combinations(*(range(e) for e in self.space))):
            at = tile.first + sum(p * s for p, s in zip(place, strides, strict=True))
            emit.line(
                "copy",
                dst=into(n),
                a=RowPlace(tile.rows, at, step),
                count=count,
                accumulate=1,
                **{"reduce": how, **fields},
                **modes,
            )

    def _summed(self, tile: Tile, space: list[int]) -> Tile:
        """Combine rows with `acc` where they are many for each result."""
        runs = _merged([(space[n], tile.strides[n]) for n in self.inner])
        if prod(self.space) > _SUMS or len(runs) != 1 or runs[0][0] > 1023 or abs(runs[0][1]) > 127:
            return self._tree(tile, space)
        total = _fresh(self.space, None)
        count, step = runs[0]
        for n, place in enumerate(combinations(*(range(e) for e in self.space))):
            at = tile.first + sum(p * tile.strides[k] for p, k in zip(place, self.kept, strict=True))
            self.emit.line(
                "copy",
                dst=RowPlace(total.rows, n),
                a=RowPlace(tile.rows, at, step),
                count=count,
                accumulate=1,
                reduce=REDUCE.index(self.fold.op),
            )
        return total

    def modes(self) -> dict[str, int]:
        """Modes that put the results of a row into neighbouring lanes."""
        if self.is_same or (not self.outer.lanes and not self.outer.rows):
            return {}
        return {
            "segment": self.size.bit_length() - 1,
            **({"pack": 1} if self.size < self.layout.width else {}),
        }

    def target(self) -> Any:
        """Rows of the result; where the n-th one goes."""
        space = self.outer.space
        self.total = Tile(Rows(prod(space)), False, 0, dense(space, [e > 1 for e in space]))
        self.is_placed = True
        rows, scattered = self.total.rows, bool(self.modes())

        def place(n: int) -> RowPlace:
            return RowPlace(rows, lane=n) if scattered else RowPlace(rows, n)

        return place

    def _tree(self, tile: Tile, space: list[int]) -> Tile:
        """Combine rows in halves."""
        emit, fold = self.emit, self.fold
        if fold.op in ("fmax", "fmin"):
            # The first operand stays where the second is a NaN.
            into = _fresh(space, tile)
            first = emit.single(constant(fold.first).bits)
            whole = Tile(first.rows, True, 0, (0,) * len(space))
            emit.rows(fold.op, into, whole, tile, space=space)
            tile = into
        for n in self.inner:
            tile, space = self._halved(tile, space, n)
        return Tile(tile.rows, False, 0, tuple(tile.strides[n] for n in self.kept), tile.first)

    def _halved(self, tile: Tile, space: list[int], n: int) -> tuple[Tile, list[int]]:
        """Combine all of a dimension."""
        emit = self.emit
        space = list(space)
        owned = False
        while space[n] > 1:
            high = space[n] // 2
            low = space[n] - high
            space[n] = low
            into = tile if owned else _fresh(space, tile, n)
            half = [*space[:n], high, *space[n + 1 :]]
            emit.rows(self.fold.op, into, tile, tile.part(n, low), space=half)
            if low > high and not owned:
                rest = [*space[:n], 1, *space[n + 1 :]]
                emit.rows("copy", into.part(n, high), tile.part(n, high), space=rest)
            tile, owned = into, True
        return tile, space

    def _chain(self, part: AxisLayout, tile: Tile) -> None:
        """Combine one after the other, as the loops do."""
        emit = self.emit
        digits = [(n, part.rows[n]) for n in self.inner]
        digits.sort(key=lambda d: (self.counters.index(d[1].counter), -d[1].step))
        lanes = sorted(self.lanes, key=lambda d: -d.place)
        sequence = [(self.counters.index(d.counter), -d.step) for d in (*(d for _, d in digits), *lanes)]
        if sequence != sorted(sequence) or (part is not self.layout and [n for n, _ in digits] != self.inner):
            raise Unfit
        runs = _merged([(d.extent, tile.strides[n]) for n, d in digits])
        places = range(part.width if lanes else 1)
        cut = next((k for k, (n, _) in enumerate(digits) if n == part.cut_row), None)
        terms = []  # row, and how many of its lanes are terms
        for place in combinations(*(range(d.extent) for _, d in digits)):
            at = sum(p * tile.strides[n] for p, (n, _) in zip(place, digits, strict=True))
            ends = cut is None or place[cut] == digits[cut][1].extent - 1
            terms.append((at, part.last if lanes and ends else part.width))
        whole = all(last == part.width for _, last in terms[:-1])
        if len(runs) != 1 or not whole or len(terms) * len(places) <= _UNROLLED:
            for at, last in terms:
                self._step(tile, at, places[:last])
            return
        step = runs[0][1]
        self._step(tile, 0, places)
        emit.line("set", dst_reg=ROW, b=0)
        emit.open(is_loop=True)
        emit.line("loop", b=len(terms) - 2)
        self._step(tile, step, places, ROW)
        emit.line("set", dst_reg=ROW, a_reg=ROW, b=step)
        emit.line("end")
        emit.close()
        self._step(tile, terms[-1][0], places[: terms[-1][1]])

    def _step(self, tile: Tile, at: int, places: range, register: int = 0) -> None:
        """Combine the terms of a row, lane by lane, or of all lanes at a time."""
        emit, fold = self.emit, self.fold
        term = Tile(tile.rows, False, 0, tuple(tile.strides[n] for n in self.kept), tile.first + at)
        for k in places:
            modes = {"pre": CROSSBAR, "xlu": XLU.index("broadcast"), "k": k} if self.lanes else {}
            first = self.total is None
            if self.total is None:
                self.total = _fresh(self.space, None)
            value = constant(fold.first) if first else self.total
            emit.rows(fold.op, self.total, term, value, space=self.space, register=register, **modes)

    # Result

    def result(self) -> Tile:
        """The result, outside."""
        emit, fold = self.emit, self.fold
        total = self.total
        assert total is not None
        if not self.is_placed:
            total = self.combined(total)
        if fold.op in NEUTRAL and constant(fold.first).bits != NEUTRAL[fold.op] and not self.is_least(fold):
            total = emit.operate(fold.op, total, constant(fold.first))
        if fold.op == "add":
            found = wrapped(emit, total, fold.dtype)
            assert isinstance(found, Tile)
            total = found
        return total

    @staticmethod
    def is_least(fold: RegisterFold) -> bool:
        """Whether the first value of a bool or short integer is its least, or greatest, one."""
        value = int(fold.first.value)
        if fold.dtype.is_bool:
            return value == {"max": 0, "min": 1}.get(fold.op)
        return value == {"max": fold.dtype.min_value, "min": fold.dtype.max_value}.get(fold.op)

    def combined(self, total: Tile) -> Tile:
        """Combine lanes, and put results of rows into lanes."""
        emit, fold = self.emit, self.fold
        if fold.way == "reduce":
            self.kept_only(total)
            assert self.total is not None
            return self.total
        if self.lanes and fold.way == "tree":
            step = self.layout.width // 2
            while step:
                into = _fresh(self.space, None)
                emit.rows(
                    fold.op,
                    into,
                    total,
                    total,
                    space=self.space,
                    pre=CROSSBAR,
                    xlu=XLU.index("rotate"),
                    k=step,
                )
                total, step = into, step // 2
        if self.is_same or (not self.outer.lanes and not self.outer.rows):
            return total
        strides = dense(self.space, [e > 1 for e in self.space])
        place = self.target()
        for (to, source), count, steps in spread(self.space, strides, total.strides):
            at = place(to)
            emit.line(
                "copy",
                dst=RowPlace(at.rows, at.row, steps[0], 0, at.lane),
                a=RowPlace(total.rows, total.first + source, steps[1]),
                count=count,
                segment=self.layout.width.bit_length() - 1,
            )
        assert self.total is not None
        return self.total

    def kept_only(self, total: Tile) -> None:
        """The reduction of lanes, of rows that are combined."""
        inner, self.inner = self.inner, []
        kept, self.kept = self.kept, list(range(len(self.space)))
        self._reduce(total, self.space, None)
        self.inner, self.kept = inner, kept


def _counts(count: int) -> list[tuple[int, int]]:
    return [(start, min(1023, count - start)) for start in range(0, count, 1023)]


def _merged(runs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Dimensions as few runs of rows."""
    found: list[tuple[int, int]] = []
    for extent, stride in runs:
        if extent == 1:
            continue
        if found and found[-1][1] == extent * stride:
            found[-1] = found[-1][0] * extent, stride
        else:
            found.append((extent, stride))
    return found


def _fresh(space: Sequence[int], like: Tile | None, *more: int) -> Tile:
    """Rows of their own for all places of a space."""
    del like, more
    strides = dense(space, [e > 1 for e in space])
    return Tile(Rows(prod(space)), False, 0, strides)
