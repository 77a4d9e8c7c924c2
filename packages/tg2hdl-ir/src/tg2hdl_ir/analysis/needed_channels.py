"""Channels of buffers between kernels that the results of a program need: the others are constants, or unused."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tg2hdl_ir.analysis.accumulators import RunningReduction
from tg2hdl_ir.analysis.bounds import Array, Bounds, IterationBounds, trips
from tg2hdl_ir.analysis.channels import Axis, CallChannels
from tg2hdl_ir.nodes import IRBufLoad, IRBufStore, IRCounter
from tg2hdl_ir.program import ProgramIR
from tg2hdl_ir.tree import is_const

__all__ = ["Member", "NeededChannels", "Places"]

MOST = 1 << 22
"""Iterations whose bounds are known one by one; of kernels with more only the types are."""

_STEP = 8
"""As many channels stay as a multiple of this or a power of two below, if all are one, so that lanes divide them."""

Places: TypeAlias = npt.NDArray[np.intp]
Member: TypeAlias = int | tuple[int, IRCounter]
"""A buffer by number, or the counter of a call."""


class NeededChannels:
    """Which channels the sums of a program need.

    Bounds are carried from call to call, and needs back.

    Parameters
    ----------
    program : ProgramIR
    axes : dict of int to Axis
        Those of buffers by number.
    """

    def __init__(self, program: ProgramIR, axes: dict[int, Axis]) -> None:
        self.program, self.axes = program, axes
        self.constant = program.constant_buffers()
        self.calls = [CallChannels(program, n, axes) for n in range(len(program.calls))]
        self.known: dict[int, Bounds] = {}
        """Bounds of the values of each channel, by buffer."""
        self._group: dict[Member, Member] = {}
        for n in axes:
            self._group[n] = n
        for call in self.calls:
            for counter, buffers in call.counters.items():
                member = call.number, counter
                self._group[member] = member
                for n in buffers:
                    self._group[self.group(n)] = self.group(member)

    def group(self, member: Member) -> Member:
        """Representative of the buffers and counters with the same channels."""
        while self._group[member] != member:
            member = self._group[member]
        return member

    @cached_property
    def sizes(self) -> dict[Member, int]:
        """Channels of each group."""
        return {self.group(n): axis.size for n, axis in self.axes.items()}

    # Terms that vary

    def left(self) -> dict[Member, Places]:
        """Channels that stay, of groups that lose some."""
        sums = self._sums()
        kept = {group: np.ones(size, bool) for group, size in self.sizes.items()}
        while True:
            before = {group: int(each.sum()) for group, each in kept.items()}
            for group, members in sums.items():
                needed = np.zeros(self.sizes[group], bool)
                for member in members:
                    needed |= member.needed({c: kept[self.group((member.call, c))] for c in member.others})
                kept[group] &= needed | _filling(needed, kept[group])
            if before == {group: int(each.sum()) for group, each in kept.items()}:
                break
        return {group: np.flatnonzero(each) for group, each in kept.items() if not each.all()}

    def _sums(self) -> dict[Member, list[_ChannelSum]]:
        """For each group that may lose channels, the sums over them."""
        found: dict[Member, list[_ChannelSum]] = {group: [] for group in self.sizes}
        for call in self.calls:
            bounds = self.bounds(call)
            for counter in call.counters:
                group, sums = self.group((call.number, counter)), call.sums_over(counter)
                varying = [self._varying(call, counter, bounds, reduction) for reduction in sums or ()]
                may_go = call.is_only_address(counter, self.constant) and counter in bounds.counters
                if not may_go or None in varying or (sums is None and not call.is_parallel(counter)):
                    found.pop(group, None)
                elif group in found:
                    found[group] += [each for each in varying if each is not None]
            self._note_stores(call, bounds)
        return found

    def _varying(
        self, call: CallChannels, counter: IRCounter, bounds: IterationBounds, reduction: RunningReduction
    ) -> _ChannelSum | None:
        terms = bounds.of(reduction.term)
        if terms is None or counter not in bounds.counters:
            return None
        others = tuple(c for c in bounds.counters if c in call.counters and c is not counter)
        order = [bounds.counters.index(c) for c in (counter, *others)]
        varies = np.moveaxis(terms[0] != terms[1], order, range(len(order)))
        return _ChannelSum(call.number, counter, others, varies.any(tuple(range(len(order), varies.ndim))))

    def bounds(self, call: CallChannels) -> IterationBounds:
        """Bounds of the values of a call in each iteration of the loops that choose channels and weights."""
        used: dict[IRCounter, None] = dict.fromkeys(call.counters)
        for access, _ in call.accesses():
            if isinstance(access, IRBufLoad) and call.is_known(access, self.constant):
                used |= dict.fromkeys(s for s, _ in call.form(access).terms if isinstance(s, IRCounter))
        if math.prod([trips(c) for c in used]) > MOST:
            used = {}
        bounds: IterationBounds

        def loaded(load: IRBufLoad, address: Array | None) -> Bounds | None:
            n = call.slots[load.buf_idx]
            if n in self.constant and address is not None and call.is_known(load, self.constant):
                initial = np.asarray(self.program.buffers[n].initial).reshape(-1)
                values = initial[address].astype(np.int64)
                return values, values
            if n not in self.known:
                return None
            counter, (low, high) = call.place(load, self.axes[n]), self.known[n]
            if not call.is_inside(load):
                if load.alt is not None and not is_const(load.alt, 0):
                    return None
                low, high = np.minimum(low, 0), np.maximum(high, 0)
            if isinstance(counter, IRCounter) and counter in bounds.counters:
                return bounds.along(counter, low), bounds.along(counter, high)
            return bounds.same(int(low.min())), bounds.same(int(high.max()))

        bounds = IterationBounds(call.call.kernel, tuple(used), loaded)
        return bounds

    def _note_stores(self, call: CallChannels, bounds: IterationBounds) -> None:
        """Bounds of the channels that a call stores."""
        for access, n in call.accesses():
            if n not in self.axes or not isinstance(access, IRBufStore):
                continue
            found, counter, size = (
                bounds.of(access.value),
                call.place(access, self.axes[n]),
                self.axes[n].size,
            )
            if found is None:
                continue
            others = tuple(a for a, c in enumerate(bounds.counters) if c is not counter)
            self.known[n] = (
                np.broadcast_to(found[0].min(others), size),
                np.broadcast_to(found[1].max(others), size),
            )


def _filling(needed: npt.NDArray[np.bool_], kept: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """The first channels that stay though they are not needed, so that lanes divide them; one stays at least."""
    step, count = math.gcd(len(needed), _STEP), int((needed & kept).sum())
    while step > 1 and 2 * count <= step:
        step //= 2
    others = np.flatnonzero(kept & ~needed)[: max(-(-count // step), 1) * step - count]
    return np.isin(np.arange(len(needed)), others)


@dataclass(frozen=True, eq=False)
class _ChannelSum:
    """A sum over channels.

    Parameters
    ----------
    call : int
    counter : IRCounter
        Of its channels.
    others : tuple of IRCounter
        Of other channels in the call.
    varies : ndarray of bool
        Whether a term varies, by these counters.
    """

    call: int
    counter: IRCounter
    others: tuple[IRCounter, ...]
    varies: npt.NDArray[np.bool_]

    def needed(self, kept: Mapping[IRCounter, npt.NDArray[np.bool_]]) -> npt.NDArray[np.bool_]:
        """Channels with a term that varies in the kept channels of the other axes."""
        varies = self.varies
        for axis, other in enumerate(self.others, 1):
            if varies.shape[axis] > 1:
                varies = np.compress(kept[other], varies, axis)
        return np.broadcast_to(varies.any(tuple(range(1, varies.ndim))), trips(self.counter))
