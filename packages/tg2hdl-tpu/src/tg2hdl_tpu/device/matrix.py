"""Products on the matrix unit: blocks of the result, whose sums stay in VMEM until they are whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from tg2hdl_tpu.device.code import RowPlace, Rows
from tg2hdl_tpu.device.copies import Matrix
from tg2hdl_tpu.device.emitter import (
    EXTERNAL,
    GATE,
    ROW,
    SEGMENT,
    WORD,
    Emitter,
    LaneConstant,
    Value,
)
from tg2hdl_tpu.device.plans import DEPTH, BatchProduct
from tg2hdl_tpu.isa import PRE

__all__ = ["emit_product"]

_BYTES = PRE.index("mxu8")
#: Rows of VMEM for a block of the first matrix, and of the result; at most as many hold the weights.
_BLOCK = 256
#: Rows of a block whose tiles are written one by one, and their number.
_FEW, _UNROLLED = 6, 512
#: Address registers of the innermost loops: a segment of the first matrix, one of the weights.
_FACTOR, _TILE = 6, GATE

#: A sum of values times factors.
Terms: TypeAlias = list[tuple[Value, int]]


def emit_product(emit: Emitter, product: BatchProduct) -> None:
    """Emit a product for all iterations of its batch.

    Parameters
    ----------
    emit : Emitter
        Gets the code.
    product : BatchProduct
    """

    def batch(level: int, at: Terms) -> None:
        if level == len(product.batch):
            _ColumnBlocks(emit, product, at).run()
            return
        emit.loop(product.batch[level], lambda index: batch(level + 1, [*at, (index, level)]))

    batch(0, [])


class _ColumnBlocks:
    """Blocks of a result that are `width` columns wide."""

    def __init__(self, emit: Emitter, product: BatchProduct, batch: Terms) -> None:
        self.emit, self.product, self.batch = emit, product, batch
        config = emit.config
        self.row = 4 * config.lanes
        self.a_bytes = min(product.a.stride, DEPTH)  # of a row in VMEM
        self.b_bytes = min(product.b.stride, self.row)
        self.words = min(product.result.stride, self.row)
        self.high = min(_BLOCK * self.row // self.a_bytes, _BLOCK * config.lanes // self.words, 512)

    def run(self) -> None:
        full, rest = divmod(self.product.columns, self.b_bytes)
        self.parts(full, 0, lambda j: self.column(j, self.b_bytes))
        self.parts(int(rest > 0), full, lambda j: self.column(j, rest))

    def column(self, j: Terms, width: int) -> None:
        full, rest = divmod(self.product.rows, self.high)
        self.parts(full, 0, lambda i: self.block(i, j, self.high, width))
        self.parts(int(rest > 0), full, lambda i: self.block(i, j, rest, width))

    def parts(self, count: int, first: int, body: Callable[[Terms], None]) -> None:
        """Run `body` with the number of the part: a counter, and the first of them."""
        self.emit.loop(count, lambda n: body([(n, 1), (LaneConstant(first), 1)]))

    def block(self, i: Terms, j: Terms, high: int, width: int) -> None:
        p, row, lanes = self.product, self.row, self.emit.config.lanes
        result = Rows(-(-high * self.words // lanes))
        for start in range(0, p.depth, DEPTH):
            depth = min(DEPTH, p.depth - start)
            a = Rows(-(-high * self.a_bytes // row))
            at = self.place(p.a, start // row, (i, self.high * p.a.stride // row))
            if p.a.stride > DEPTH:
                self.move_rows("load", p.a.slot, at, a, high, p.a.stride // row, -(-depth // row))
            else:
                self.move("load", p.a.slot, at, a)
            b = Rows(-(-depth * self.b_bytes // row))
            first = start * p.b.stride // row
            if p.b.tiles:
                first, step = start * self.b_bytes // row, p.depth * self.b_bytes // row
                self.move("load", p.b.slot, self.place(p.b, first, (j, step)), b)
            elif p.b.stride > row:
                self.move_rows(
                    "load", p.b.slot, self.place(p.b, first, (j, 1)), b, depth, p.b.stride // row, 1
                )
            else:
                self.move("load", p.b.slot, self.place(p.b, first), b)
            self.tiles(a, b, result, high, width, depth, starts=start == 0)
        part, step = self.words // lanes, p.result.stride // lanes
        at = self.place(p.result, 0, (i, self.high * p.result.stride // lanes), (j, part))
        if step > part:
            self.move_rows("store", p.result.slot, at, result, high, step, part)
        else:
            self.move("store", p.result.slot, at, result)

    def place(self, matrix: Matrix, first: int, *parts: tuple[Terms, int]) -> Value:
        """External row, counted from that of the buffer."""
        terms = [(index, matrix.batch[level]) for index, level in self.batch]
        terms += [(number, factor * step) for numbers, step in parts for number, factor in numbers]
        return self.emit.linear(matrix.first + first, terms)

    def move(self, op: str, slot: int, at: Value, rows: Rows) -> None:
        """DMA of neighbouring rows."""
        if isinstance(at, LaneConstant):
            side: dict[str, Any] = {"dst": RowPlace(rows)} if op == "load" else {"a": RowPlace(rows)}
            self.emit.line(op, b=at.bits, slot=slot, count=rows.count, **side)
            return
        self.register(at)
        self.line(op, slot, RowPlace(rows), rows.count)

    def move_rows(self, op: str, slot: int, at: Value, rows: Rows, count: int, step: int, part: int) -> None:
        """DMA of `part` rows `count` times, which are `step` apart in external memory."""
        emit = self.emit
        self.register(at)

        def body() -> None:
            self.line(op, slot, RowPlace(rows, register=SEGMENT), part)
            emit.line("set", dst_reg=EXTERNAL, a_reg=EXTERNAL, b=step)

        emit.each_row(count, rows.count // count, body)

    def register(self, at: Value) -> None:
        if isinstance(at, LaneConstant):
            self.emit.line("set", dst_reg=EXTERNAL, b=at.bits)
        else:
            self.emit.register(EXTERNAL, at)

    def line(self, op: str, slot: int, place: RowPlace, count: int) -> None:
        side: dict[str, Any] = {"dst": place} if op == "load" else {"a": place}
        self.emit.line(op, b=0, b_reg=EXTERNAL, slot=slot, count=count, **side)

    def tiles(
        self, a: Rows, b: Rows, result: Rows, high: int, width: int, depth: int, *, starts: bool
    ) -> None:
        """Multiply a block: all tiles of a column of weights, then those of the next column."""
        emit, config = self.emit, self.emit.config
        beside = config.lanes // config.columns
        if high <= _FEW and depth // config.rows * (width // config.columns) <= _UNROLLED:
            self.unrolled(a, b, result, high, width // config.columns, depth // config.rows, starts=starts)
            return
        groups, rest = divmod(width // config.columns, beside)
        for register in (WORD, ROW, SEGMENT):
            emit.line("set", dst_reg=register, b=0)
        if groups:
            emit.open(is_loop=True)
            emit.line("loop", b=groups)
            self.group(a, b, result, high, beside, depth, starts=starts)
            for register, step in ((WORD, 1), (ROW, beside), (SEGMENT, beside)):
                emit.line("set", dst_reg=register, a_reg=register, b=step)
            emit.line("end")
            emit.close()
        if rest:
            self.group(a, b, result, high, rest, depth, starts=starts)

    def group(
        self, a: Rows, b: Rows, result: Rows, high: int, tiles: int, depth: int, *, starts: bool
    ) -> None:
        """Tiles whose results lie in one row: WORD is that row, ROW its first segment, SEGMENT that of the weights."""
        emit, config = self.emit, self.emit.config
        beside = config.lanes // config.columns

        def step(op: str, tile: int) -> None:
            self.weights(b, tile, _TILE)
            fields: dict[str, Any] = {"pre": _BYTES, "segment": beside.bit_length() - 1, "count": high}
            if op == "add":
                fields["b"] = RowPlace(result, stride=self.words // config.lanes, register=WORD)
            emit.line(
                op,
                dst=RowPlace(result, lane=tile, stride=self.words // config.columns, register=ROW),
                a=RowPlace(a, stride=self.a_bytes // config.rows, register=_FACTOR),
                **fields,
            )

        for tile in range(tiles):
            steps = depth // config.rows
            emit.line("set", dst_reg=_TILE, a_reg=SEGMENT, b=0)
            emit.line("set", dst_reg=_FACTOR, b=0)
            if starts:
                step("copy", tile)
                self.advance()
                steps -= 1
            if steps:
                emit.open(is_loop=True)
                emit.line("loop", b=steps)
                step("add", tile)
                self.advance()
                emit.line("end")
                emit.close()

    def unrolled(
        self, a: Rows, b: Rows, result: Rows, high: int, beside: int, below: int, *, starts: bool
    ) -> None:
        """All tiles by themselves, row by row: sums of few rows do not wait for their last step."""
        emit, config = self.emit, self.emit.config
        segments = config.lanes // config.columns
        for down in range(below):
            for tile in range(beside):
                self.weights(b, down * self.below + tile)
                fields: dict[str, Any] = {"pre": _BYTES, "segment": segments.bit_length() - 1, "count": high}
                if down or not starts:
                    fields["b"] = RowPlace(result, row=tile // segments, stride=self.words // config.lanes)
                emit.line(
                    "add" if down or not starts else "copy",
                    dst=RowPlace(result, lane=tile, stride=self.words // config.columns),
                    a=RowPlace(a, lane=down, stride=self.a_bytes // config.rows),
                    **fields,
                )

    @property
    def below(self) -> int:
        """Segments from a tile to the one below it."""
        config = self.emit.config
        return self.b_bytes // config.columns * (1 if self.product.b.tiles else config.rows)

    def weights(self, b: Rows, tile: int, register: int = 0) -> None:
        """Take a tile."""
        emit, config = self.emit, self.emit.config
        if self.product.b.tiles:
            emit.line("tile", a=RowPlace(b, lane=tile, register=register), pre=_BYTES)
            return
        place = RowPlace(b, lane=tile, stride=self.b_bytes // config.columns, register=register)
        emit.line("weights", a=place, pre=_BYTES, count=config.rows)

    def advance(self) -> None:
        self.emit.line("set", dst_reg=_TILE, a_reg=_TILE, b=self.below)
        self.emit.line("set", dst_reg=_FACTOR, a_reg=_FACTOR, b=1)
