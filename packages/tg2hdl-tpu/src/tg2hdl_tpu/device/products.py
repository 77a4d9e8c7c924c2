"""Sums of int8 products in a kernel: split off, as stages that the matrix unit and vectors execute in turn.

Only what tinygrad multiplies in int32 is taken: an int8 product, also with `dtype=int32`, wraps before it is added.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product as combinations
from math import prod

from tg2hdl_ir import verify
from tg2hdl_ir.analysis.affine import Affine, AffineAnalysis
from tg2hdl_ir.analysis.ranges import RangeAnalysis
from tg2hdl_ir.dtype import DType
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
    is_const,
    loads_used_by,
    operands,
)
from tg2hdl_ir.passes.rewrite import Rewriter
from tg2hdl_tpu.config import Config

__all__ = ["DEPTH", "Matrix", "Product", "split_products"]

#: Bytes of a row of the first matrix in VMEM; longer ones come in parts.
DEPTH = 256
#: Cycles for an element: of a sum on the vector unit at least, and of a copy, by the way in which it is read.
_ON_VECTORS, _FLAT, _ROWS, _GATHERED = 2.5, 0.7, 1.3, 5.0
#: Products of a sum: the program is longer for more of them.
_DEEPEST = 1 << 14
#: External rows behind a tensor that may be read: some lie between the last one and the end of memory.
_BEHIND = 16


@dataclass(frozen=True)
class Matrix:
    """Rows of bytes, or of words for a result, in external memory.

    Parameters
    ----------
    slot : int
        Buffer.
    first : int
        External row of the first element, counted from that of the buffer.
    stride : int
        Elements from one row to the next.
    batch : tuple of int
        External rows from one matrix to the next, for each loop of the batch.
    """

    slot: int
    first: int
    stride: int
    batch: tuple[int, ...]


@dataclass(frozen=True)
class Product:
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
class _Sum:
    """A reduction whose steps add a product."""

    reg: int
    factors: tuple[IRValue, IRValue]
    counters: tuple[IRCounter, ...]


@dataclass(frozen=True)
class _Plan:
    """One way to execute a sum, and the address of its result."""

    cost: float
    product: Product
    copies: tuple[KernelIR, ...]
    scratch: tuple[BufferMeta, ...]
    address: IRValue


def split_products(
    kernel: KernelIR, bounds: Mapping[int, int], config: Config
) -> tuple[list[KernelIR | Product], tuple[BufferMeta, ...]]:
    """Return the stages of a kernel, and the buffers between them.

    Parameters
    ----------
    kernel : KernelIR
    bounds : mapping of int to int
        Trip count of each loop by axis.
    config : Config
    """
    splitter = _Splitter(kernel, bounds, config)
    tree = splitter.loop(kernel.loop_tree, ())
    if not splitter.stages:
        return [kernel], ()
    scratch = tuple(splitter.scratch)
    rest = replace(kernel, loop_tree=tree, buffers=(*kernel.buffers, *scratch))
    if not kernel.variables:  # with them, the result has the size that their present values give it
        verify(rest)
    last = splitter.stages[-1]
    assert isinstance(last, Product)
    slot = _stored_as_it_is(rest, last, splitter.affine)
    if slot is not None:
        unused = last.result.slot
        last = replace(last, result=replace(last.result, slot=slot))
        return [*splitter.stages[:-1], last], tuple(m for m in scratch if m.idx != unused)
    return [*splitter.stages, rest], scratch


def _stored_as_it_is(rest: KernelIR, product: Product, affine: AffineAnalysis) -> int | None:
    """Slot of the output, where the rest of a kernel only copies the product there."""
    statements = list(rest.loop_tree.statements())
    loads = [s for s in statements if isinstance(s, IRBufLoad)]
    stores = [s for s in statements if isinstance(s, IRBufStore)]
    sets = [s for s in statements if isinstance(s, IRRegStore)]
    if len(loads) != 1 or len(stores) != 1 or loads[0].buf_idx != product.result.slot:
        return None
    (load,), (store,) = loads, stores
    if any(s.value is not load for s in sets[1:]) or sets[-1].value is not load:
        return None
    whole = rest.buffer(load.buf_idx).depth == rest.buffer(store.buf_idx).depth
    if store.gate is not None or not isinstance(store.value, IRRegLoad) or store.dtype != DType.INT32:
        return None
    if not whole or product.columns != product.result.stride or affine.of(load.addr) != affine.of(store.addr):
        return None
    return store.buf_idx


class _Splitter:
    def __init__(self, kernel: KernelIR, bounds: Mapping[int, int], config: Config) -> None:
        self.kernel, self.bounds, self.config = kernel, bounds, config
        self.affine, self.ranges = AffineAnalysis(), RangeAnalysis()
        self.stages: list[KernelIR | Product] = []
        self.scratch: list[BufferMeta] = []
        self.written = {s.buf_idx for s in kernel.loop_tree.statements() if isinstance(s, IRBufStore)}

    def loop(self, loop: LoopIR, above: tuple[IRCounter, ...]) -> LoopIR:
        """The loop without sums that became products."""
        if loop.counter is not None:
            above = (*above, loop.counter)
        items: list[IRItem] = []
        for item in loop.items:
            if not isinstance(item, LoopIR):
                items.append(item)
            elif item.axis_type == "loop":
                items.append(self.loop(item, above))
            else:
                items += self.reduction(item, above, items) or [item]
        return LoopIR.from_items(tuple(items), counter=loop.counter, axis_type=loop.axis_type)

    def reduction(
        self, loop: LoopIR, above: tuple[IRCounter, ...], before: list[IRItem]
    ) -> list[IRItem] | None:
        found = _sum(loop)
        if found is None or not all(self.is_int8(f) for f in found.factors):
            return None
        if not _starts_at_zero(found.reg, before):
            return None
        needs = [_needs(f) for f in found.factors]
        if any(n is None or n[1] & self.written for n in needs):
            return None
        counters = [n[0] for n in needs if n is not None]
        known = {*above, *found.counters}
        if any(self.bounds[c.axis] < 1 for c in known) or not counters[0] | counters[1] <= known:
            return None
        plans = [self.plan(found, above, counters, swapped) for swapped in (False, True)]
        plan = min((p for p in plans if p is not None), key=lambda p: p.cost, default=None)
        if plan is None or plan.cost > self.cost_on_vectors(found, above):
            return None
        self.stages += [*plan.copies, plan.product]
        self.scratch += plan.scratch
        load = IRBufLoad(plan.product.result.slot, plan.address, DType.INT32)
        return [load, IRRegStore(load, found.reg)]

    def cost_on_vectors(self, found: _Sum, above: tuple[IRCounter, ...]) -> float:
        total = prod(self.bounds[c.axis] for c in (*above, *found.counters))
        inner = next((c for c in reversed(above) if self.bounds[c.axis] > 1), None)
        forms = [
            self.affine.of(load.addr) for load in loads_used_by(found.factors) if isinstance(load, IRBufLoad)
        ]
        near = inner is None or all(f is not None and abs(f.coefficient(inner)) <= 4 for f in forms)
        return total * (_ON_VECTORS if near else _ON_VECTORS + _GATHERED)

    def is_int8(self, value: IRValue) -> bool:
        low, high = self.ranges.of(value)
        return value.dtype == DType.INT32 and low >= -128 and high <= 127

    # One way to execute a sum

    def plan(
        self, found: _Sum, above: tuple[IRCounter, ...], counters: list[set[IRCounter]], swapped: bool
    ) -> _Plan | None:
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
        copies = _Copies(self, bounds, batch)
        first = self.first(copies, a, rows, deep)
        if first is None:
            return None
        matrix_a, high, layout = first
        matrix_b, across = self.second(copies, b, layout, columns, exact=layout == deep)
        used = width if only else prod(columns.values()) if len(columns) == 1 else prod(across.values())
        words = _up(matrix_b.stride, lanes)
        each = list(batch.values())
        total = prod(high.values())
        steps = tuple(s * total * words // lanes for s in _strides(each))
        result = Matrix(copies.take(prod(each) * total * words, DType.INT32).idx, 0, words, steps)
        strides = [*_strides([*each, *high.values(), words])[:-1], *_strides(list(across.values()))]
        address = _address(t for t in zip((*batch, *high, *across), strides, strict=True) if t[0] is not only)
        depth = _up(prod(layout.values()), side)
        product = Product(tuple(each), total, depth, _up(used, width), matrix_a, matrix_b, result)
        inner = next((c for c in reversed(outer) if c in rows or c in columns), None)
        cost = copies.cost + prod(each) * product.columns // width * depth // side * (side + total)
        cost += prod(bounds[c] for c in outer) * (_FLAT if inner in columns else _GATHERED)
        return _Plan(cost, product, tuple(copies.kernels), tuple(copies.scratch), address)

    def first(
        self, copies: _Copies, value: IRValue, rows: dict[IRCounter, int], deep: dict[IRCounter, int]
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
            inner = {merged[-1]: _up(depth, row if long else lanes)}
        else:
            inner = deep = dict(
                zip(deep, _padded(list(deep.values()), side, row if long else side), strict=True)
            )
        stride = prod(inner.values())
        high = dict(rows)
        while copies.batch and prod(high.values()) * stride % row:
            if not rows:
                return None
            high[list(rows)[-1]] += 1
        return replace(copies.add(value, {**high, **inner}, merged), stride=stride), high, deep

    def second(
        self,
        copies: _Copies,
        value: IRValue,
        deep: dict[IRCounter, int],
        columns: dict[IRCounter, int],
        *,
        exact: bool,
    ) -> tuple[Matrix, dict[IRCounter, int]]:
        """The matrix with a row for each step of the depth; its loops with their extents."""
        lanes, row = self.config.lanes, 4 * self.config.lanes
        depth, count = prod(deep.values()), prod(columns.values())
        behind = _up(depth, self.config.rows) - depth
        fits = count % self.config.columns == 0 and (count <= row or count % row == 0)
        direct = self.direct(value, copies.batch, {**deep, **columns}) if exact and fits else None
        if direct is not None and behind * count <= _BEHIND * row:
            return replace(direct, stride=count), columns
        form = self.plain(value)
        aligned = not copies.batch or depth * count % row == 0
        if form is None or not (fits and aligned and self.is_flat(form, columns)):
            sizes = _padded(list(columns.values()), lanes, 1)
            if prod(sizes) > row or (copies.batch and prod(sizes) * depth % row):
                sizes = _padded(list(columns.values()), lanes, row)
            columns = dict(zip(columns, sizes, strict=True))
        stride = prod(columns.values())
        return replace(copies.add(value, {**deep, **columns}, behind=behind * stride), stride=stride), columns

    def plain(self, value: IRValue) -> Affine | None:
        """Address of a value that is a loaded byte."""
        load = value.srcs[0] if isinstance(value, IROp) and value.op == "cast" else value
        if not isinstance(load, IRBufLoad) or load.gate is not None or load.dtype != DType.INT8:
            return None
        return self.affine.of(load.addr)

    def is_flat(self, form: Affine, extents: Mapping[IRCounter, int]) -> bool:
        """Whether elements that are neighbours in the order of these loops are so in memory."""
        strides = _strides(list(extents.values()))
        return all(form.coefficient(c) == s for c, s in zip(extents, strides, strict=True) if extents[c] > 1)

    def direct(
        self, value: IRValue, batch: Collection[IRCounter], extents: Mapping[IRCounter, int]
    ) -> Matrix | None:
        """The matrix where a tensor holds it as the matrix unit wants it."""
        form = self.plain(value)
        row = 4 * self.config.lanes
        if form is None or form.const % row or not self.is_flat(form, extents):
            return None
        if any(s not in extents and s not in batch and not self.is_single(s) for s, _ in form.terms):
            return None
        steps = [form.coefficient(c) for c in batch]
        if any(s % row for s in steps):
            return None
        load = value.srcs[0] if isinstance(value, IROp) else value
        assert isinstance(load, IRBufLoad)
        return Matrix(load.buf_idx, form.const // row, 0, tuple(s // row for s in steps))

    def is_single(self, symbol: object) -> bool:
        return isinstance(symbol, IRCounter) and self.bounds[symbol.axis] == 1

    def copy_cost(self, value: IRValue, extents: Mapping[IRCounter, int]) -> float:
        """Cycles for an element of a copy."""
        load = value.srcs[0] if isinstance(value, IROp) and value.op == "cast" else value
        form = self.affine.of(load.addr) if isinstance(load, IRBufLoad) else None
        inner = next((c for c in reversed(list(extents)) if extents[c] > 1), None)
        if form is None or inner is None:
            return _GATHERED
        if self.is_flat(form, extents):
            return _FLAT
        near = abs(form.coefficient(inner)) <= 4
        return _ROWS if near and extents[inner] % self.config.lanes == 0 else _GATHERED


class _Copies:
    """Kernels that copy factors to buffers of their own, and these buffers."""

    def __init__(
        self, splitter: _Splitter, bounds: Mapping[IRCounter, int], batch: dict[IRCounter, int]
    ) -> None:
        self.splitter, self.bounds, self.batch = splitter, bounds, batch
        self.kernels: list[KernelIR] = []
        self.scratch: list[BufferMeta] = []
        self.cost = 0.0

    def take(self, size: int, dtype: DType) -> BufferMeta:
        """A buffer that no other one is."""
        kernel, before = self.splitter.kernel, self.splitter.scratch
        slot = max(m.idx for m in kernel.buffers) + 1 + len(before) + len(self.scratch)
        self.scratch.append(BufferMeta(slot, size, dtype, True, f"scratch{slot}"))
        return self.scratch[-1]

    def add(
        self,
        value: IRValue,
        extents: dict[IRCounter, int],
        merged: tuple[IRCounter, ...] = (),
        *,
        behind: int = 0,
    ) -> Matrix:
        """Compute a factor for all iterations, and zeros where loops were lengthened.

        Loops in `merged` are one, whose counter stands for the last of them; `behind` bytes follow that are read.
        """
        splitter, row = self.splitter, 4 * self.splitter.config.lanes
        size = prod(extents.values())
        steps = tuple(s * size // row for s in _strides(list(self.batch.values())))
        extents = self.batch | extents
        into = self.take(prod(extents.values()) + behind, DType.INT8)
        self.cost += prod(extents.values()) * splitter.copy_cost(value, extents)
        copy = _Copy()
        fresh = {c: IRCounter(n, depth, depth) for depth, (c, n) in enumerate(extents.items())}
        needs = _needs(value)
        assert needs is not None
        copy.memo.update({c: const_int(0, c.dtype) for c in needs[0] if c not in fresh})
        for counter, new in fresh.items():
            true = prod(self.bounds[c] for c in merged) if counter in merged else self.bounds[counter]
            copy.memo[counter] = new if counter.dtype == new.dtype else IROp("cast", counter.dtype, (new,))
            if extents[counter] > true:
                copy.limits.append(IROp("lt", DType.BOOL, (new, const_int(true))))
        found = copy.value(value)
        inside = copy.folder.all_of(*copy.limits)
        if inside is not None and splitter.plain(value) is None:
            found = IROp("where", DType.INT32, (inside, found, const_int(0)))
        source = found.srcs[0] if isinstance(found, IROp) and found.op == "cast" else found
        if source.dtype != DType.INT8:
            source = IROp("cast", DType.INT8, (found,))
        address = _address(zip(fresh.values(), _strides(list(extents.values())), strict=True))
        items: tuple[IRItem, ...] = (*copy.loads, IRBufStore(into.idx, address, source, DType.INT8))
        for counter in reversed(fresh.values()):
            items = (LoopIR.from_items(items, counter=counter, axis_type="loop"),)
        kernel = splitter.kernel
        buffers = (*(replace(m, is_output=False) for m in kernel.buffers), into)
        tree = LoopIR.from_items(items)
        self.kernels.append(verify(KernelIR(buffers, tree, (), kernel.variables, kernel.name, kernel.source)))
        return Matrix(into.idx, 0, 0, steps)


class _Copy(Rewriter):
    """Rebuilds a value with other counters; loads outside of their limits give 0."""

    def __init__(self) -> None:
        super().__init__()
        self.limits: list[IRValue] = []
        self.loads: list[IRBufLoad] = []

    def _rebuild(self, node: IRValue) -> IRValue:
        new = super()._rebuild(node)
        if isinstance(new, IRBufLoad):
            gate = self.folder.all_of(new.gate, *self.limits)
            if gate is not None:
                zero = False if new.dtype.is_bool else 0.0 if new.dtype.is_float else 0
                new = replace(new, gate=gate, alt=new.alt or IRConst(zero, new.dtype))
            self.loads.append(new)
        return new


def _sum(loop: LoopIR) -> _Sum | None:
    """The reduction that a nest of loops is, when it only adds products."""
    counters: list[IRCounter] = []
    statements: list[IRStatement] = []
    while True:
        inner = [i for i in loop.items if isinstance(i, LoopIR)]
        if loop.counter is None or loop.axis_type != "reduce" or len(inner) > 1:
            return None
        counters.append(loop.counter)
        here = [i for i in loop.items if not isinstance(i, LoopIR)]
        statements += here
        if not inner:
            break
        loop = inner[0]
    stores = [s for s in statements if isinstance(s, IRBufStore | IRRegStore)]
    reads = [s for s in statements if isinstance(s, IRRegLoad)]
    if len(stores) != 1 or len(reads) != 1 or stores[0] not in here or reads[0] not in here:
        return None
    (store,), (read,) = stores, reads
    if not isinstance(store, IRRegStore) or store.reg != read.reg or read.index is not None:
        return None
    value = store.value
    if store.gate is not None or store.index is not None or not isinstance(value, IROp):
        return None
    if value.dtype != DType.INT32:
        return None
    if value.op == "mulacc" and value.srcs[2] is read:
        return _Sum(read.reg, (value.srcs[0], value.srcs[1]), tuple(counters))
    if value.op != "add" or read not in value.srcs:
        return None
    other = value.srcs[1] if value.srcs[0] is read else value.srcs[0]
    if not isinstance(other, IROp) or other.op != "mul":
        return None
    return _Sum(read.reg, (other.srcs[0], other.srcs[1]), tuple(counters))


def _starts_at_zero(reg: int, before: list[IRItem]) -> bool:
    """Whether a register is 0 after these items."""
    for item in reversed(before):
        inside = item.statements() if isinstance(item, LoopIR) else (item,)
        for store in inside:
            if isinstance(store, IRRegStore) and store.reg == reg:
                return store is item and is_const(store.value, 0) and store.gate is None
    return False


def _needs(value: IRValue) -> tuple[set[IRCounter], set[int]] | None:
    """Counters and buffers that a value depends on; None when it depends on a register."""
    seen: set[IRValue] = set()
    stack = [value]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if isinstance(node, IRRegLoad):
            return None
        stack.extend(operands(node))
    counters = {n for n in seen if isinstance(n, IRCounter)}
    return counters, {n.buf_idx for n in seen if isinstance(n, IRBufLoad)}


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def _strides(extents: Sequence[int]) -> list[int]:
    return [prod(extents[n + 1 :]) for n in range(len(extents))]


def _padded(extents: list[int], inner: int, unit: int) -> list[int]:
    """Extents that are not smaller, the last a multiple of `inner`, with the smallest product that is one of `unit`."""
    last = _up(extents[-1], inner)
    before = extents[-2:-1]
    steps = combinations(*(range(b, b + unit) for b in before), range(last, last + inner * unit, inner))
    best = min((s for s in steps if prod((*extents[:-2], *s)) % unit == 0), key=prod)
    return [*extents[:-2], *best]


def _address(terms: Iterable[tuple[IRCounter, int]]) -> IRValue:
    total: IRValue = const_int(0)
    for counter, stride in terms:
        symbol: IRValue = counter
        if counter.dtype != DType.INT32:
            symbol = IROp("cast", DType.INT32, (counter,))
        term = IROp("mul", DType.INT32, (symbol, const_int(stride)))
        total = IROp("add", DType.INT32, (total, term))
    return total
