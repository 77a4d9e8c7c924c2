"""When the contents of a buffer are needed in a run of a design."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from tg2hdl_ir import AffineAnalysis, IRBufStore, IRConst, IRCounter, KernelIR
from tg2hdl_top.design import Design

__all__ = ["ALWAYS", "Span", "lifetimes", "run_times"]

MOST_ELEMENTS = 1 << 22
"""Elements of a buffer up to which its stores are enumerated."""


class Span(NamedTuple):
    """First cycle in which something is needed, and the first one after the last; of a serial design, runs."""

    first: int
    end: int

    def meets(self, other: Span) -> bool:
        """Whether there is a time in both."""
        return self.first < other.end and other.first < self.end


_END = 1 << 60
ALWAYS = (Span(-1, _END),)


def run_times(design: Design) -> list[Span]:
    """When each call runs: its place in the order of calls, which a follower shares, or cycles if starts are fixed."""
    starts, beside = design.sequencer.starts, dict(design.sequencer.followers)
    if not starts:
        places = [n - 1 if n in beside else n for n in range(len(design.kernels))]
        return [Span(n, n + 1) for n in places]
    return [Span(start, start + plan.cycles()) for start, plan in zip(starts, design.kernels, strict=True)]


def lifetimes(design: Design) -> dict[str, tuple[Span, ...]]:
    """Times in which the contents of each memory of a buffer are needed, by its name.

    A kernel that writes every element and reads none begins new contents; before that, nothing is needed.  Contents at
    power on and those that the host writes are always needed, as a run may follow in which it does not write them
    again; results until the next run has new ones.
    """
    times, program = run_times(design), design.program
    accesses = [call.accesses() for call in program.calls]
    found: dict[str, tuple[Span, ...]] = {}
    for number, memory in design.memories.items():
        users = [k for k, call in enumerate(program.calls) if number in call.buffers]
        if memory.role.host_writes or memory.contents is not None or memory.role.streamed:
            found[memory.name] = ALWAYS
            continue
        spans: list[Span] = []
        for k in users:
            reads, writes = accesses[k]
            call = program.calls[k]
            slots = [slot for slot, n in call.slots.items() if n == number]
            if number in writes - reads and _writes_all(call.kernel, slots, program.buffers[number].depth):
                spans.append(times[k])
            elif not spans:
                break
            else:
                spans[-1] = Span(min(spans[-1].first, times[k].first), max(spans[-1].end, times[k].end))
        if spans and memory.role.host_reads:
            spans[-1] = Span(spans[-1].first, _END)
        found[memory.name] = tuple(spans) or ALWAYS
    return found


def _writes_all(kernel: KernelIR, slots: Collection[int], elements: int) -> bool:
    """Whether a kernel surely writes every element of a buffer, which it has in some slots."""
    loops = list(kernel.loop_tree.walk())
    if elements > MOST_ELEMENTS or any(not isinstance(loop.bound, int) for loop in loops):
        return False
    bounds = {loop.counter: int(loop.bound) for loop in loops if loop.counter is not None}  # type: ignore[arg-type]
    written, affine = np.zeros(elements, dtype=bool), AffineAnalysis()
    for store in kernel.loop_tree.statements():
        if not isinstance(store, IRBufStore) or store.buf_idx not in slots:
            continue
        form = affine.of(store.addr)
        always = store.gate is None or (isinstance(store.gate, IRConst) and bool(store.gate.value))
        if form is None or not always:
            continue
        addresses = _addresses(form.const, form.terms, bounds, elements)
        if addresses is not None:
            written[addresses[(addresses >= 0) & (addresses < elements)]] = True
    return bool(written.all())


def _addresses(
    base: int, terms: Sequence[tuple[object, int]], bounds: dict[IRCounter, int], elements: int
) -> np.ndarray | None:
    """All addresses of a store; None where a counter is not of a loop, or there are many more than elements."""
    found = np.array([base], np.int64)
    for symbol, coefficient in terms:
        if not isinstance(symbol, IRCounter) or symbol not in bounds:
            return None
        if len(found) * bounds[symbol] > 2 * elements:
            return None
        found = (found[:, None] + np.arange(bounds[symbol], dtype=np.int64) * coefficient).reshape(-1)
    return found
