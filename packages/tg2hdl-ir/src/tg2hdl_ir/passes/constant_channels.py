"""Constant channels: channels that hold the same constants in each run, which move into the biases of sums.

Bounds of values are carried from kernel to kernel.  A channel whose values a sum multiplies by weights is left out of
the sum where all of its terms are constants: they are added to the bias.  A channel that no kernel reads is not made.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir.analysis.accumulators import RunningReduction
from tg2hdl_ir.analysis.affine import Affine
from tg2hdl_ir.analysis.bounds import IterationBounds, trips
from tg2hdl_ir.analysis.channels import CallChannels, channel_axes
from tg2hdl_ir.analysis.needed_channels import Member, NeededChannels, Places
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
    IRStatement,
    IRValue,
    KernelIR,
    LoopIR,
)
from tg2hdl_ir.passes.instrument import ir_pass
from tg2hdl_ir.passes.rewrite import Rewriter
from tg2hdl_ir.passes.split import split_axis
from tg2hdl_ir.program import KernelCall, ProgramBuffer, ProgramIR
from tg2hdl_ir.tree import const_int, values_below
from tg2hdl_ir.verifier import verify

__all__ = ["drop_constant_channels"]

_ROUNDS = 4
"""How often loops are split until each access of a buffer has a counter of channels."""


@ir_pass(
    "constant-channels",
    "channels that are the same in all runs become part of the biases",
    term="interprocedural constant propagation",
)
def drop_constant_channels(program: ProgramIR) -> tuple[ProgramIR, int, int]:
    """Leave out the channels of buffers between kernels that are constants, or that nothing needs.

    All results keep their bits.  The contents of weights decide, so that they must not be loadable.

    Returns
    -------
    program : ProgramIR
        The same where all channels are needed.
    gone, channels : int
        Those that were left out, and all, of the buffers that have channels.
    """
    if not any(r.dtype.is_int for call in program.calls for r in call.kernel.registers):
        return program, 0, 0
    divided, (axes, splits) = program, channel_axes(program)
    for _ in range(_ROUNDS):
        calls = list(divided.calls)
        for call, loops in groupby(sorted(splits), lambda split: split.call):
            _, axis, inner = next(loops)
            calls[call] = replace(calls[call], kernel=split_axis(calls[call].kernel, axis, inner))
        if not splits:
            break
        divided = replace(divided, calls=tuple(calls))
        axes, splits = channel_axes(divided)
    channels = NeededChannels(divided, axes)
    left = channels.left()
    gone = sum(
        axis.size - len(left[group]) for n, axis in axes.items() if (group := channels.group(n)) in left
    )
    made = _Rewritten(channels, left).program(program) if left else program
    return made, gone, sum(axis.size for axis in axes.values())


class _Rewritten:
    """The program in which groups have only the channels at some places."""

    def __init__(self, channels: NeededChannels, left: Mapping[Member, Places]) -> None:
        self.channels, self.left = channels, left
        program, axes = channels.program, channels.axes
        self.buffers = list(program.buffers)
        self.axes = {n: axis for n, axis in axes.items() if channels.group(n) in left}
        for n, axis in self.axes.items():
            depth = program.buffers[n].depth // axis.size * len(left[channels.group(n)])
            self.buffers[n] = replace(program.buffers[n], shape=(depth,))
        self._tables: dict[Any, int] = {}

    def program(self, original: ProgramIR) -> ProgramIR:
        """The program."""
        calls = []
        for call in self.channels.calls:
            groups = {c: self.channels.group((call.number, c)) for c in call.counters}
            kept = {c: self.left[group] for c, group in groups.items() if group in self.left}
            calls.append(_Kernel(self, call, kept).call() if kept else original.calls[call.number])
        return replace(original, buffers=tuple(self.buffers), calls=tuple(calls))

    def table(self, name: str, key: Any, dtype: DType, values: npt.NDArray[Any]) -> int:
        """Number of a weight with these values; equal keys have one."""
        if key not in self._tables:
            taken, number = {b.name for b in self.buffers}, 1
            fresh = name
            while fresh in taken:
                fresh, number = f"{name}_{number}", number + 1
            self._tables[key] = len(self.buffers)
            made = np.ascontiguousarray(values.reshape(-1)).astype(dtype.numpy())
            self.buffers.append(ProgramBuffer(fresh, dtype, (made.size,), "weight", made))
        return self._tables[key]


class _Kernel:
    """One call with fewer iterations."""

    def __init__(self, whole: _Rewritten, call: CallChannels, kept: Mapping[IRCounter, Places]) -> None:
        self.whole, self.of, self.kept = whole, call, kept
        self.kernel: KernelIR = call.call.kernel
        self.rewriter = Rewriter(replace=self._with_bias, change=self._changed)
        for counter, places in kept.items():
            self.rewriter.memo[counter] = replace(counter, bound=len(places))
        self.slots = call.slots
        self.before: dict[IRStatement, IRBufLoad] = {}
        self.added: dict[IRRegLoad, IRValue] = {}
        self.sums: dict[IRValue, tuple[IRValue, IRValue]] = {}

    def call(self) -> KernelCall:
        """The call."""
        bounds = self.whole.channels.bounds(self.of)
        over = {c: self.of.sums_over(c) or () for c in self.kept}
        for reduction in dict.fromkeys(each for sums in over.values() for each in sums):
            self._add(reduction, bounds)
        tree = self._rebuilt(self.kernel.loop_tree)
        metas = {meta.idx: meta for meta in self.kernel.buffers}
        used = {s.buf_idx for s in tree.statements() if isinstance(s, IRBufLoad | IRBufStore)}
        found = []
        for slot in sorted(used):
            buffer = self.whole.buffers[self.slots[slot]]
            meta = metas.get(slot) or BufferMeta(slot, buffer.depth, buffer.dtype, False, buffer.name)
            found.append(replace(meta, depth=buffer.depth))
        kernel = verify(replace(self.kernel, buffers=tuple(found), loop_tree=tree))
        return replace(self.of.call, kernel=kernel, buffers=tuple(self.slots[meta.idx] for meta in found))

    def _rebuilt(self, loop: LoopIR) -> LoopIR:
        items: list[IRItem] = []
        for item in loop.items:
            if isinstance(item, LoopIR):
                items.append(self._rebuilt(item))
                continue
            if item in self.before:
                items.append(self.before[item])
            items.append(self.rewriter.changed(item))
        counter = None if loop.counter is None else self.rewriter.value(loop.counter)
        assert counter is None or isinstance(counter, IRCounter), "a counter stays one"
        return LoopIR.from_items(tuple(items), counter=counter, axis_type=loop.axis_type)

    def _changed(self, statement: IRStatement, rebuilt: IRStatement) -> IRStatement:
        if isinstance(statement, IRRegLoad) and statement in self.added:
            dtype, part = statement.dtype, self.added[statement]
            assert isinstance(rebuilt, IRRegLoad), "a load stays one"
            total = self.rewriter.folder.op("add", dtype, rebuilt, part)
            self.sums[total] = rebuilt, part
            self.rewriter.memo[statement] = total
            return rebuilt
        if not isinstance(statement, IRBufLoad | IRBufStore):
            return rebuilt
        assert isinstance(rebuilt, IRBufLoad | IRBufStore), "a load stays one"
        n, form = self.slots[statement.buf_idx], self.of.form(statement)
        if n in self.whole.axes and self.whole.axes[n].stride == 1:
            size, channel = self.whole.axes[n].size, self.of.place(statement, self.whole.axes[n])
            assert isinstance(channel, IRCounter), "as each access of a buffer with channels"
            count = len(self.kept[channel])
            terms = [(s, 1 if s is channel else k // size * count) for s, k in form.terms]
            return replace(rebuilt, addr=self._address(terms, form.const // size * count, rebuilt.addr))
        chooses = n in self.whole.channels.constant and any(s in self.kept for s, _ in form.terms)
        return self._gathered(n, form) if chooses else rebuilt

    def _gathered(self, n: int, form: Affine) -> IRBufLoad:
        """Load of a weight whose channels are chosen."""
        buffer = self.whole.buffers[n]
        terms = sorted(form.terms, key=lambda term: -abs(term[1]))
        chosen = [self._places(counter) for counter, _ in terms]
        address = np.full([1] * len(terms), form.const)
        for axis, ((_, factor), places) in enumerate(zip(terms, chosen, strict=True)):
            address = address + factor * places.reshape([-1 if a == axis else 1 for a in range(len(terms))])
        key = n, form.const, tuple((k, tuple(places)) for (_, k), places in zip(terms, chosen, strict=True))
        values = np.asarray(buffer.initial).reshape(-1)[address]
        number = self.whole.table(f"{buffer.name}_kept", key, buffer.dtype, values)
        return self._load(number, [counter for counter, _ in terms])

    def _places(self, counter: IRValue) -> Places:
        assert isinstance(counter, IRCounter), "the address of a constant"
        return self.kept[counter] if counter in self.kept else np.arange(trips(counter))

    def _load(self, number: int, counters: Sequence[IRValue]) -> IRBufLoad:
        """Load of a table with an element for each iteration of some loops, in their order."""
        slot = next((slot for slot, n in self.slots.items() if n == number), None)
        if slot is None:
            slot = 1 + max(self.slots)
            self.slots = {**self.slots, slot: number}
        sizes = [len(self._places(c)) for c in counters]
        strides = [math.prod(sizes[n + 1 :]) for n in range(len(sizes))]
        address = self._address(list(zip(counters, strides, strict=True)), 0, counters[0])
        return IRBufLoad(slot, address, self.whole.buffers[number].dtype)

    def _address(self, terms: Sequence[tuple[IRValue, int]], const: int, like: IRValue) -> IRValue:
        folder, total = self.rewriter.folder, const_int(const, like.dtype)
        result: IRValue = total
        for symbol, factor in terms:
            value = folder.op("cast", like.dtype, self.rewriter.value(symbol))
            product = folder.op("mul", like.dtype, value, const_int(factor, like.dtype))
            result = folder.op("add", like.dtype, product, result)
        return result

    # Terms that are constants

    def _add(self, reduction: RunningReduction, bounds: IterationBounds) -> None:
        """Add the terms that are left out to each result of a sum."""
        counters, loops = bounds.counters, {loop.counter: loop for loop in reduction.loops}
        shape = [trips(c) for c in counters]
        low, high = (np.broadcast_to(end, shape) for end in bounds.of(reduction.term) or ())
        gone = np.zeros(shape, bool)
        for counter, places in self.kept.items():
            if counter in loops:
                out = np.ones(trips(counter), bool)
                out[places] = False
                gone |= bounds.along(counter, out) > 0
        for axis, counter in enumerate(counters):
            if counter in self.kept and counter not in loops:
                low, high, gone = (np.take(each, self.kept[counter], axis) for each in (low, high, gone))
        assert not (low[gone] != high[gone]).any(), "terms that vary are kept"
        summed = tuple(a for a, c in enumerate(counters) if c in loops)
        times = math.prod([trips(c) for c in loops if c is not None and c not in counters])
        total = np.where(gone, low, 0).sum(summed, keepdims=True) * times
        if not total.any():
            return
        axes = [a for a in range(total.ndim) if (total != np.take(total, [0], a)).any()]
        total = total[tuple(slice(None) if a in axes else 0 for a in range(total.ndim))]
        dtype = reduction.own.dtype
        bits = (total & ((1 << dtype.bit_width) - 1 if dtype.bit_width < 64 else -1)).astype(np.uint64)
        part: IRValue = IRConst(dtype.wrap(int(total.reshape(-1)[0])), dtype)
        for result in self.of.results_of(reduction):
            if axes:
                number = self.whole.table(
                    f"{self._name(reduction)}_sums",
                    (self.of.number, reduction.own.reg),
                    dtype,
                    dtype.bits_to_array(bits),
                )
                part = self.before[result] = self._load(number, [counters[a] for a in axes])
            self.added[result] = part

    def _name(self, reduction: RunningReduction) -> str:
        """Name of a weight in the terms of a sum, or of the kernel."""
        loads = [v for v in values_below((reduction.term,)) if isinstance(v, IRBufLoad)]
        constant = (
            self.of.slots[v.buf_idx] for v in loads if self.of.is_known(v, self.whole.channels.constant)
        )
        return next((self.whole.buffers[n].name for n in constant), self.kernel.name)

    def _with_bias(self, op: IROp) -> IRValue | None:
        """A sum, its constant terms, and a bias: the last two become one table."""
        if op.op != "add":
            return None
        for total, bias in (op.srcs, op.srcs[::-1]):
            is_table = isinstance(bias, IRBufLoad) and bias.gate is None
            if total in self.sums and is_table and self._is_constant(bias):
                result, part = self.sums[total]
                both = self.rewriter.folder.op("add", op.dtype, bias, part)
                return self.rewriter.folder.op("add", op.dtype, result, both)
        return None

    def _is_constant(self, load: IRValue) -> bool:
        assert isinstance(load, IRBufLoad), "a load"
        n = self.slots[load.buf_idx]
        return n in self.whole.channels.constant or n >= len(self.whole.channels.program.buffers)
