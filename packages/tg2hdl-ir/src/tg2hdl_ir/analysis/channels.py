"""Channels of the buffers between kernels: an axis that each access of a buffer follows with the counter of a loop."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple, TypeAlias

from tg2hdl_ir.analysis.accumulators import RunningReduction, reductions
from tg2hdl_ir.analysis.address_range import gated_interval
from tg2hdl_ir.analysis.affine import Affine, AffineAnalysis, LinearAnalysis
from tg2hdl_ir.analysis.ranges import RangeAnalysis
from tg2hdl_ir.nodes import (
    IRBufLoad,
    IRBufStore,
    IRCounter,
    IRRegLoad,
    IRRegStore,
    IRValue,
    LoopIR,
    operands,
)
from tg2hdl_ir.program import KernelCall, ProgramIR
from tg2hdl_ir.tree import values_below

__all__ = ["Access", "Axis", "CallChannels", "Split", "channel_axes"]

Access: TypeAlias = IRBufLoad | IRBufStore


class Axis(NamedTuple):
    """The channels of a buffer: element ``e`` is of channel ``e // stride % size``.

    They are innermost, with a stride of 1, or outermost, so that ``stride * size`` is the depth.
    """

    stride: int
    size: int


class Split(NamedTuple):
    """A loop, by its axis, whose counter is of channels and something else; `inner` iterations are an inner loop's."""

    call: int
    axis: int
    inner: int


class CallChannels:
    """The accesses of a call to buffers with channels.

    Parameters
    ----------
    program : ProgramIR
    number : int
        Of the call.
    axes : dict of int to Axis
        Those of buffers by number; more may be added later.
    """

    def __init__(self, program: ProgramIR, number: int, axes: dict[int, Axis]) -> None:
        self.program, self.number, self.axes = program, number, axes
        self.call: KernelCall = program.calls[number]
        self.slots = self.call.slots
        self.statements = list(self.call.kernel.loop_tree.statements())
        self._ranges = RangeAnalysis()
        self._linear, self._affine = LinearAnalysis(self._ranges), AffineAnalysis(self._ranges)

    def form(self, access: Access) -> Affine:
        """Address as a sum of multiples of values."""
        form = self._linear.of(access.addr)
        assert form is not None, "addresses are integers"
        return form

    def accesses(self) -> Iterator[tuple[Access, int]]:
        """Loads and stores, with numbers of buffers."""
        for statement in self.statements:
            if isinstance(statement, IRBufLoad | IRBufStore):
                yield statement, self.slots[statement.buf_idx]

    def place(self, access: Access, axis: Axis) -> IRCounter | Split | None:
        """Counter of the channel of an access, or the loop that must be split; None where no counter decides it.

        Parameters
        ----------
        access : Access
            Load or store of the call's kernel.
        axis : Axis
            Channel axis of the buffer, in elements.
        """
        form, size, stride = self.form(access), axis.size, axis.stride
        found: IRCounter | Split | None = None
        for symbol, factor in form.terms:
            if not isinstance(symbol, IRCounter) or not isinstance(symbol.bound, int):
                continue
            others = [(other, k) for other, k in form.terms if other is not symbol]
            if stride == 1 and (form.const % size or any(k % size for _, k in others)):
                continue
            mine: IRCounter | Split | None = None
            if (factor, symbol.bound) == (stride, size):
                mine = symbol
            elif stride == 1 and factor == 1 and symbol.bound % size == 0:
                mine = Split(self.number, symbol.axis, size)
            elif 0 < factor < stride and stride % factor == 0 and factor * symbol.bound == stride * size:
                mine = Split(self.number, symbol.axis, stride // factor)
            if mine is None:
                continue
            if found is not None or not self._decides(symbol, access, [other for other, _ in others], axis):
                return None
            found = mine
        return found

    def _decides(self, counter: IRCounter, access: Access, others: list[IRValue], axis: Axis) -> bool:
        """Whether the rest of an address is the same for all channels, and within one."""
        if counter in values_below(others if access.gate is None else [*others, access.gate]):
            return False
        # An access that is inside the buffer in the first and in the last channel is inside each channel.
        return axis.stride == 1 or self.is_inside(access)

    def is_inside(self, access: Access) -> bool:
        """Whether an access is proven to be inside its buffer; outside of it a load gives its alternative, or zero."""
        low, high = gated_interval(access.addr, access.gate, self._ranges, self._affine)
        return low >= 0 and high < self.call.kernel.buffer(access.buf_idx).depth

    @cached_property
    def counters(self) -> dict[IRCounter, set[int]]:
        """Counters of channels, with the buffers whose channels they are."""
        found: dict[IRCounter, set[int]] = {}
        for access, n in self.accesses():
            if n in self.axes:
                counter = self.place(access, self.axes[n])
                assert isinstance(counter, IRCounter), "as each access of a buffer with channels"
                found.setdefault(counter, set()).add(n)
        return found

    @cached_property
    def reductions(self) -> dict[int, RunningReduction]:
        """Registers that reduce."""
        return reductions(self.call.kernel)

    @cached_property
    def loops(self) -> dict[IRCounter, LoopIR]:
        """Loops by counter."""
        walked = self.call.kernel.loop_tree.walk()
        return {loop.counter: loop for loop in walked if loop.counter is not None}

    def is_known(self, load: IRBufLoad, constant: set[int]) -> bool:
        """Whether a load is of a constant, at an address that only counters of known bounds decide.

        Parameters
        ----------
        load : IRBufLoad
        constant : set of int
            Numbers of the program's buffers whose contents are known.
        """
        if self.slots[load.buf_idx] not in constant or load.gate is not None:
            return False
        low = high = (form := self.form(load)).const
        for symbol, factor in form.terms:
            if not isinstance(symbol, IRCounter) or not isinstance(symbol.bound, int):
                return False
            low, high = low + min(0, factor * (symbol.bound - 1)), high + max(0, factor * (symbol.bound - 1))
        return low >= 0 and high < self.program.buffers[self.slots[load.buf_idx]].depth

    def is_only_address(self, counter: IRCounter, constant: set[int]) -> bool:
        """Whether a counter is used for channels and in addresses of constants only.

        Parameters
        ----------
        counter : IRCounter
        constant : set of int
            Numbers of the program's buffers whose contents are known.
        """
        for statement in self.statements:
            roots = list(operands(statement))
            if isinstance(statement, IRBufLoad | IRBufStore):
                n = self.slots[statement.buf_idx]
                is_plain = n in self.axes and self.place(statement, self.axes[n]) is counter
                is_table = isinstance(statement, IRBufLoad) and self.is_known(statement, constant)
                if is_plain or is_table:
                    roots.remove(statement.addr)
            if counter in values_below(roots, self._loads):
                return False
        bounds = [loop.bound for loop in self.loops.values() if not isinstance(loop.bound, int)]
        return counter not in values_below(bounds)

    @cached_property
    def _loads(self) -> set[IRValue]:
        """Loads; the values that their addresses use are seen at the loads themselves."""
        return {s for s in self.statements if isinstance(s, IRBufLoad | IRRegLoad)}

    def stores_in(self, counter: IRCounter) -> list[IRBufStore]:
        """Stores to buffers in the loop of a counter."""
        return [s for s in self.loops[counter].statements() if isinstance(s, IRBufStore)]

    def is_parallel(self, counter: IRCounter) -> bool:
        """Whether each iteration writes a channel of its own, and registers that nothing outside of it uses."""
        inside = set(self.loops[counter].statements())
        registers = {s.reg for s in inside if isinstance(s, IRRegStore)}
        outside = [s for s in self.statements if s not in inside]
        if any(isinstance(s, IRRegLoad | IRRegStore) and s.reg in registers for s in outside):
            return False
        stores = self.stores_in(counter)
        return bool(stores) and all(
            (n := self.slots[s.buf_idx]) in self.axes and self.place(s, self.axes[n]) is counter
            for s in stores
        )

    def sums_over(self, counter: IRCounter) -> list[RunningReduction] | None:
        """The sums that the loop of a counter is for; None where it does something else."""
        found: dict[RunningReduction, None] = {}
        for statement in self.loops[counter].statements():
            if isinstance(statement, IRRegStore):
                reduction = self.reductions.get(statement.reg)
                if reduction is None or statement is not reduction.update or not self._adds_up(reduction):
                    return None
                if counter not in [loop.counter for loop in reduction.loops]:
                    return None
                found[reduction] = None
        return None if self.stores_in(counter) else list(found)

    def results_of(self, reduction: RunningReduction) -> list[IRRegLoad]:
        """Loads of a register after its updates."""
        reg, own = reduction.own.reg, reduction.own
        return [s for s in self.statements if isinstance(s, IRRegLoad) and s.reg == reg and s is not own]

    def _adds_up(self, reduction: RunningReduction) -> bool:
        """Whether integers are added that depend on no register, and only the whole sum is used."""
        uses = [s for s in self.statements if reduction.own in values_below(operands(s), self._loads)]
        below = values_below((reduction.term,), self._loads)
        results, order = self.results_of(reduction), self.statements.index
        level = next(loop for loop in self.call.kernel.loop_tree.walk() if reduction.start in loop.items)
        return (
            reduction.op == "add"
            and reduction.own.dtype.is_int
            and uses == [reduction.update]
            and not any(isinstance(v, IRRegLoad) for v in below)
            and all(isinstance(loop.bound, int) for loop in reduction.loops)
            and all(s in level.items and order(s) > order(reduction.update) for s in results)
        )


def channel_axes(program: ProgramIR) -> tuple[dict[int, Axis], set[Split]]:
    """Axes of the channels of temporaries, and loops that must be split first.

    An axis is that of the counter that a kernel chooses weights by, or the channels of another buffer.
    """
    axes: dict[int, Axis] = {}
    calls = [CallChannels(program, n, axes) for n in range(len(program.calls))]
    users: dict[int, list[tuple[CallChannels, Access]]] = {}
    for call in calls:
        for access, n in call.accesses():
            users.setdefault(n, []).append((call, access))
    constant, splits = program.constant_buffers(), set[Split]()
    for call in calls:
        for access, n in call.accesses():
            if not isinstance(access, IRBufStore) or not _is_between(program, n, users[n]):
                continue
            chosen = _choosing(call, constant)
            depth = program.buffers[n].depth
            for symbol, factor in call.form(access).terms:
                if not isinstance(symbol, IRCounter) or symbol not in chosen or symbol.bound == 1:
                    continue
                if not isinstance(symbol.bound, int) or (factor != 1 and factor * symbol.bound != depth):
                    continue
                axis = Axis(factor, symbol.bound)
                places = [user.place(each, axis) for user, each in users[n]]
                if None in places:
                    continue
                needed = {place for place in places if isinstance(place, Split)}
                splits |= needed
                if not needed:
                    axes[n] = axis
                break
    return axes, splits


def _is_between(program: ProgramIR, number: int, users: list[tuple[CallChannels, Access]]) -> bool:
    """Whether a buffer is between kernels, and one store writes each of its elements once."""
    buffer = program.buffers[number]
    stores = [(call, each) for call, each in users if isinstance(each, IRBufStore)]
    if (
        buffer.role != "temporary"
        or buffer.initial is not None
        or number in program.outputs
        or len(stores) > 1
    ):
        return False
    ((call, store),) = stores
    form, elements = call.form(store), 1
    for symbol, factor in sorted(form.terms, key=lambda term: term[1]):
        if factor != elements or not isinstance(symbol, IRCounter) or not isinstance(symbol.bound, int):
            return False
        elements *= symbol.bound
    return store.gate is None and form.const == 0 and elements == buffer.depth


def _choosing(call: CallChannels, constant: set[int]) -> set[IRValue]:
    """Counters that choose weights, or channels of a buffer."""
    found: set[IRValue] = set()
    for access, n in call.accesses():
        if n in constant:
            found |= values_below((access.addr,)).keys()
        elif n in call.axes and isinstance(access, IRBufLoad):
            place = call.place(access, call.axes[n])
            assert isinstance(place, IRCounter), "as each access of a buffer with channels"
            found.add(place)
    return found
