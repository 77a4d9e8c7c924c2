"""Ways to execute a sum of products on the matrix unit, and their costs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from tg2hdl_ir import BufferMeta, DType, IRCounter, IRValue, KernelIR
from tg2hdl_tpu.device.copies import FLAT, GATHERED, Copies, Factors, Matrix, address_of, padded, strides, up
from tg2hdl_tpu.device.shuffle import LARGEST, Shuffle
from tg2hdl_tpu.device.sums import SumOfProducts

__all__ = ["DEPTH", "BatchProduct", "SumPlan", "SumPlanner"]

#: Bytes of a row of the first matrix in VMEM; longer ones come in parts.
DEPTH = 256
#: Products of a sum: the program is longer for more of them.
_DEEPEST = 1 << 14
#: External rows behind a tensor that may be read: some lie between the last one and the end of memory.
_BEHIND = 16


@dataclass(frozen=True)
class BatchProduct:
    """``result = a @ b`` for each iteration of the batch: `rows` x `depth` times `depth` x `columns`.

    `depth` and `columns` are multiples of the sides of the matrix unit; `a` has zeros where it was rounded up.
    """

    batch: tuple[int, ...]
    rows: int
    depth: int
    columns: int
    a: Matrix
    b: Matrix
    result: Matrix


@dataclass(frozen=True)
class SumPlan:
    """One way to execute a sum, and the address of its result."""

    cost: float
    product: BatchProduct
    copies: tuple[KernelIR | Shuffle, ...]
    kept: tuple[KernelIR | Shuffle, ...]
    scratch: tuple[BufferMeta, ...]
    address: IRValue


class SumPlanner(Factors):
    """Plans the sums of a kernel."""

    def plan(
        self,
        found: SumOfProducts,
        above: tuple[IRCounter, ...],
        counters: list[set[IRCounter]],
        swapped: bool,
    ) -> SumPlan | None:
        """One way to execute a sum; `counters` are those of its factors.

        Parameters
        ----------
        found : SumOfProducts
            The sum.
        above : tuple of IRCounter
            Loops around it, outermost first.
        counters : list of set of IRCounter
            Loops of which each factor depends.
        swapped : bool
            Whether the second factor is the left matrix.
        """
        a, b = found.factors[::-1] if swapped else found.factors
        of_a, of_b = counters[::-1] if swapped else counters
        wide = [c for c in (*above, *found.counters) if self.bounds[c.axis] > 1]
        bounds = {c: self.bounds[c.axis] for c in wide}
        outer = [c for c in wide if c in above]
        batch = {c: bounds[c] for c in outer if c in of_a and c in of_b}
        rows = {c: bounds[c] for c in outer if c in of_a and c not in of_b}
        columns = {c: bounds[c] for c in outer if c in of_b and c not in of_a}
        deep = {c: bounds[c] for c in wide if c in found.counters}
        if not (rows or columns) or not 1 < prod(deep.values()) <= _DEEPEST:
            return None
        side, width, lanes = self.config.rows, self.config.columns, self.config.lanes
        only = None if columns else IRCounter(lanes, 0, -1)  # one column is copied into all lanes
        if only is not None:
            bounds[only] = columns[only] = lanes
        copies = Copies(self, bounds, batch)
        first = self._first(copies, a, rows, deep)
        if first is None:
            return None
        matrix_a, high, layout = first
        matrix_b, across = self._second(copies, b, layout, columns, exact=layout == deep)
        used = width if only else prod(columns.values()) if len(columns) == 1 else prod(across.values())
        each = list(batch.values())
        total = prod(high.values())
        depth = up(prod(layout.values()), side)
        words = up(matrix_b.stride, lanes)
        if not each and not only and matrix_b.stride == width and (depth == side or total * width <= lanes):
            words = width  # rows of the result side by side; sums of more steps are only added in one row
        steps = tuple(s * total * words // lanes for s in strides(each))
        result = Matrix(copies.take(prod(each) * total * words, DType.INT32).idx, 0, words, steps)
        places = [*strides([*each, *high.values(), words])[:-1], *strides(list(across.values()))]
        address = address_of(
            t for t in zip((*batch, *high, *across), places, strict=True) if t[0] is not only
        )
        product = BatchProduct(tuple(each), total, depth, up(used, width), matrix_a, matrix_b, result)
        rate = 1 if matrix_b.tiles else side
        inner = next((c for c in reversed(outer) if c in rows or c in columns), None)
        cost = copies.cost + prod(each) * product.columns // width * depth // side * (rate + total)
        cost += prod(bounds[c] for c in outer) * (FLAT if inner in columns else GATHERED)
        stages, kept = tuple(copies.stages), tuple(copies.kept)
        return SumPlan(cost, product, stages, kept, tuple(copies.scratch), address)

    def _first(
        self, copies: Copies, value: IRValue, rows: dict[IRCounter, int], deep: dict[IRCounter, int]
    ) -> tuple[Matrix, dict[IRCounter, int], dict[IRCounter, int]] | None:
        """The matrix whose rows lie along the depth; its loops with their extents, and those of the depth."""
        side, lanes, row = self.config.rows, self.config.lanes, 4 * self.config.lanes
        depth = prod(deep.values())
        long = depth > DEPTH
        direct = self.direct(value, copies.batch, {**rows, **deep})
        if direct is not None and depth % (row if long else side) == 0:
            return replace(direct, stride=depth), rows, deep
        form = self.plain(value)
        merged: tuple[IRCounter, ...] = ()
        inner = deep
        if form is not None and self.is_flat(form, deep):
            merged = tuple(deep)
            inner = {merged[-1]: up(depth, row if long else lanes)}
        else:
            inner = deep = dict(
                zip(deep, padded(list(deep.values()), side, row if long else side), strict=True)
            )
        stride = prod(inner.values())
        high = dict(rows)
        while copies.batch and prod(high.values()) * stride % row:
            if not rows:
                return None
            high[list(rows)[-1]] += 1
        return replace(copies.add(value, {**high, **inner}, merged), stride=stride), high, deep

    def _second(
        self,
        copies: Copies,
        value: IRValue,
        deep: dict[IRCounter, int],
        columns: dict[IRCounter, int],
        *,
        exact: bool,
    ) -> tuple[Matrix, dict[IRCounter, int]]:
        """The matrix with a row for each step of the depth; its loops with their extents."""
        lanes, row = self.config.lanes, 4 * self.config.lanes
        depth, count = prod(deep.values()), prod(columns.values())
        behind = up(depth, self.config.rows) - depth
        fits = count % self.config.columns == 0 and (count <= row or count % row == 0)
        direct = self.direct(value, copies.batch, {**deep, **columns}) if exact and fits else None
        kept = not copies.batch and depth * count <= LARGEST and copies.is_kept(value)
        if direct is not None and behind * count <= _BEHIND * row and not kept:
            return replace(direct, stride=count, tiles=count == self.config.columns), columns
        form = self.plain(value)
        aligned = not copies.batch or depth * count % row == 0
        known = form is not None and self.is_flat(form, columns)
        if not (fits and aligned and (known or self.copied(value) is not None)):
            sizes = padded(list(columns.values()), lanes, 1)
            if prod(sizes) > row or (copies.batch and prod(sizes) * depth % row):
                sizes = padded(list(columns.values()), lanes, row)
            columns = dict(zip(columns, sizes, strict=True))
        stride = prod(columns.values())
        tiles = stride if kept else 0
        found = copies.add(value, {**deep, **columns}, behind=behind * stride, tiles=tiles)
        return replace(found, stride=stride), columns
