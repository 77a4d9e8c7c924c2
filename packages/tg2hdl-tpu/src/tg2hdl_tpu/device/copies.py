"""Factors of sums as matrices of bytes: where tensors hold them, or as copies."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product as combinations
from math import prod

from tg2hdl_ir import (
    Affine,
    AffineAnalysis,
    BufferMeta,
    DType,
    IRBufLoad,
    IRBufStore,
    IRConst,
    IRCounter,
    IRItem,
    IROp,
    IRValue,
    KernelIR,
    LoopIR,
    const_int,
    is_const,
    verify,
)
from tg2hdl_ir.passes.rewrite import Rewriter
from tg2hdl_tpu.config import Config
from tg2hdl_tpu.device.shuffle import Shuffle, shuffle_of
from tg2hdl_tpu.device.sums import needs, uncast

__all__ = ["FLAT", "GATHERED", "Copies", "Factors", "Matrix", "address_of", "padded", "strides", "up"]

#: Cycles for an element of a copy, by the way in which it is read.
FLAT, _ROWS, GATHERED = 0.7, 1.3, 5.0


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
    tiles : bool
        Whether the elements of each tile of the matrix unit are neighbours: a row of tiles, then the rows below.
    """

    slot: int
    first: int
    stride: int
    batch: tuple[int, ...]
    tiles: bool = False


class Factors:
    """How a kernel reads the factors of its sums."""

    def __init__(
        self, kernel: KernelIR, bounds: Mapping[int, int], config: Config, steady: Collection[int]
    ) -> None:
        self.kernel, self.bounds, self.config, self.steady = kernel, bounds, config, steady
        self.affine = AffineAnalysis()
        self.scratch: list[BufferMeta] = []

    def plain(self, value: IRValue) -> Affine | None:
        """Address of a value that is a loaded byte."""
        load = self.copied(value)
        return None if load is None or load.gate is not None else self.affine.of(load.addr)

    def copied(self, value: IRValue) -> IRBufLoad | None:
        """The load of a value that is a loaded byte, or 0 where its gate is false."""
        load = uncast(value)
        if not isinstance(load, IRBufLoad) or load.dtype != DType.INT8:
            return None
        return load if load.gate is None or is_const(load.alt, 0) else None

    def is_flat(self, form: Affine, extents: Mapping[IRCounter, int]) -> bool:
        """Whether elements that are neighbours in the order of these loops are so in memory.

        Parameters
        ----------
        form : Affine
            Address of an element.
        extents : mapping of IRCounter to int
            Trip counts, outermost loop first.
        """
        steps = strides(list(extents.values()))
        return all(form.coefficient(c) == s for c, s in zip(extents, steps, strict=True) if extents[c] > 1)

    def direct(
        self, value: IRValue, batch: Collection[IRCounter], extents: Mapping[IRCounter, int]
    ) -> Matrix | None:
        """The matrix where a tensor holds it as the matrix unit wants it.

        Parameters
        ----------
        value : IRValue
            A factor of a sum.
        batch : collection of IRCounter
            Loops of the batch.
        extents : mapping of IRCounter to int
            Trip counts of the other loops of the matrix, outermost first.
        """
        form = self.plain(value)
        row = 4 * self.config.lanes
        if form is None or form.const % row or not self.is_flat(form, extents):
            return None
        if any(s not in extents and s not in batch and not self._is_single(s) for s, _ in form.terms):
            return None
        steps = [form.coefficient(c) for c in batch]
        if any(s % row for s in steps):
            return None
        load = uncast(value)
        assert isinstance(load, IRBufLoad)
        return Matrix(load.buf_idx, form.const // row, 0, tuple(s // row for s in steps))

    def _is_single(self, symbol: object) -> bool:
        return isinstance(symbol, IRCounter) and self.bounds[symbol.axis] == 1

    def _copy_cost(self, value: IRValue, extents: Mapping[IRCounter, int]) -> float:
        """Cycles for an element of a copy."""
        load = uncast(value)
        form = self.affine.of(load.addr) if isinstance(load, IRBufLoad) else None
        inner = next((c for c in reversed(list(extents)) if extents[c] > 1), None)
        if form is None or inner is None:
            return GATHERED
        if self.is_flat(form, extents):
            return FLAT
        near = abs(form.coefficient(inner)) <= 4
        return _ROWS if near and extents[inner] % self.config.lanes == 0 else GATHERED


class Copies:
    """Kernels that copy factors to buffers of their own, and these buffers."""

    def __init__(
        self, factors: Factors, bounds: Mapping[IRCounter, int], batch: dict[IRCounter, int]
    ) -> None:
        self.factors, self.bounds, self.batch = factors, bounds, batch
        self.stages: list[KernelIR | Shuffle] = []
        self.kept: list[KernelIR | Shuffle] = []
        self.scratch: list[BufferMeta] = []
        self.cost = 0.0

    def is_kept(self, value: IRValue) -> bool:
        """Whether a value depends on nothing but tensors that do not change."""
        read = needs(value)
        return read is not None and bool(read[1]) and read[1] <= set(self.factors.steady)

    def take(self, size: int, dtype: DType) -> BufferMeta:
        """A buffer that no other one is.

        Parameters
        ----------
        size : int
            Elements.
        dtype : DType
        """
        kernel, before = self.factors.kernel, self.factors.scratch
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
        tiles: int = 0,
    ) -> Matrix:
        """Compute a factor for all iterations, and zeros where loops were lengthened.

        Parameters
        ----------
        value : IRValue
            A factor of a sum.
        extents : mapping of IRCounter to int
            Trip counts of the copy, outermost first; a greater one than that of the loop adds zeros.
        merged : tuple of IRCounter
            Loops that are one in the copy, whose counter stands for the last of them.
        behind : int
            Bytes after the copy that are read.
        tiles : int
            Bytes of a row, for a copy of tiles where it can be one; 0 for a copy of rows.
        """
        factors, row = self.factors, 4 * self.factors.config.lanes
        size = prod(extents.values())
        steps = tuple(s * size // row for s in strides(list(self.batch.values())))
        extents = self.batch | extents
        into = self.take(prod(extents.values()) + behind, DType.INT8)
        copy = _Copy()
        fresh = {c: IRCounter(n, depth, depth) for depth, (c, n) in enumerate(extents.items())}
        read = needs(value)
        assert read is not None
        copy.memo.update({c: const_int(0, c.dtype) for c in read[0] if c not in fresh})
        for counter, new in fresh.items():
            true = prod(self.bounds[c] for c in merged) if counter in merged else self.bounds[counter]
            copy.memo[counter] = new if counter.dtype == new.dtype else IROp("cast", counter.dtype, (new,))
            if extents[counter] > true:
                copy.limits.append(IROp("lt", DType.BOOL, (new, const_int(true))))
        found = copy.value(value)
        inside = copy.folder.all_of(*copy.limits)
        if inside is not None and factors.copied(value) is None:
            found = IROp("where", DType.INT32, (inside, found, const_int(0)))
        source = uncast(found)
        if source.dtype != DType.INT8:
            source = IROp("cast", DType.INT8, (found,))
        address = address_of(zip(fresh.values(), strides(list(extents.values())), strict=True))
        items: tuple[IRItem, ...] = (*copy.loads, IRBufStore(into.idx, address, source, DType.INT8))
        for counter in reversed(fresh.values()):
            items = (LoopIR.from_items(items, counter=counter, axis_type="loop"),)
        kernel = factors.kernel
        buffers = (*(replace(m, is_output=False) for m in kernel.buffers), into)
        tree = LoopIR.from_items(items)
        stage = verify(KernelIR(buffers, tree, (), kernel.variables, kernel.name, kernel.source))
        shuffle = shuffle_of(stage, factors.config)
        if shuffle is not None and tiles:
            shuffle = shuffle.tiled(factors.config, into.depth // tiles, tiles)
        general = prod(extents.values()) * factors._copy_cost(value, extents)
        shuffles = shuffle is not None and (tiles > 0 or shuffle.cost < general)
        if self.is_kept(value):
            self.kept.append(shuffle if shuffle is not None and shuffles else stage)
        elif shuffle is not None and shuffles:
            self.stages.append(shuffle)
            self.cost += shuffle.cost
        else:
            self.stages.append(stage)
            self.cost += general
        return Matrix(into.idx, 0, 0, steps, tiles > 0 and shuffles)


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


def up(value: int, unit: int) -> int:
    """The next multiple of a unit.

    Parameters
    ----------
    value : int
    unit : int
        Positive.
    """
    return -(-value // unit) * unit


def strides(extents: Sequence[int]) -> list[int]:
    """Elements from one iteration of each loop to the next."""
    return [prod(extents[n + 1 :]) for n in range(len(extents))]


def padded(extents: list[int], inner: int, unit: int) -> list[int]:
    """Extents that are not smaller, the last a multiple of `inner`, with the smallest product that is one of `unit`.

    Parameters
    ----------
    extents : list of int
        Outermost first.
    inner : int
        Unit of the last extent.
    unit : int
        Unit of the product.
    """
    last = up(extents[-1], inner)
    before = extents[-2:-1]
    steps = combinations(*(range(b, b + unit) for b in before), range(last, last + inner * unit, inner))
    best = min((s for s in steps if prod((*extents[:-2], *s)) % unit == 0), key=prod)
    return [*extents[:-2], *best]


def address_of(terms: Iterable[tuple[IRCounter, int]]) -> IRValue:
    """The sum of counters times strides."""
    total: IRValue = const_int(0)
    for counter, stride in terms:
        symbol: IRValue = counter
        if counter.dtype != DType.INT32:
            symbol = IROp("cast", DType.INT32, (counter,))
        term = IROp("mul", DType.INT32, (symbol, const_int(stride)))
        total = IROp("add", DType.INT32, (total, term))
    return total
