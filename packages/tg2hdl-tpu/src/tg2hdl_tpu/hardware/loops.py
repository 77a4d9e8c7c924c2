"""The loops that the sequencer is in."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Mux, Signal

from tg2hdl_tpu.config import ADDRESS_BITS, LOOP_DEPTH
from tg2hdl_tpu.hardware.records import PC_BITS

__all__ = ["LoopStack"]


class LoopStack:
    """Starts and counts, those of the innermost loop first.

    Parameters
    ----------
    begins, ends : Value
        The instruction `loop` has been executed, `end` is; not `ends` while `waits`.
    count, start : Value
        With `begins`, which is the cycle after that of `loop`.  A count below 1 may be pushed by a program that stops.
    executes, soon : Value, optional
        A loop begins in two cycles; in the next one.  With these, `end` takes effect a cycle later.

    Attributes
    ----------
    waits : Value
        `end` follows its `loop` at once, or, with `soon`, within two cycles or after the `end` of an inner loop.
    repeats : Value
        The loop is not at its end; it goes on at `start`.
    may_repeat : Value
        An `end` in this cycle repeats; it does not wait.
    overflows, underflows : Value
        The stack is full where a loop begins, or empty where one ends.
    """

    def __init__(
        self,
        m: Module,
        begins: Any,
        ends: Any,
        *,
        count: Any,
        start: Any,
        reset: Any,
        executes: Any,
        soon: Any,
    ) -> None:
        starts, counts, lasts = (
            [Signal(bits, name=f"{name}{n}") for n in range(LOOP_DEPTH)]
            for name, bits in (("start", PC_BITS), ("left", ADDRESS_BITS), ("last", 1))
        )
        depth = Signal(range(LOOP_DEPTH + 2))
        popped, repeated = Signal(), Signal()
        self.waits = ends & begins if soon is None else ends & (soon | begins | popped)
        leaves = ends & ~self.waits
        last = lasts[0]
        self.start, self.repeats = starts[0], leaves & ~last
        self.overflows = begins & (depth == LOOP_DEPTH)
        self.underflows = leaves & (depth == 0)
        pops, repeats = leaves & last, self.repeats
        free = Signal(init=1)
        self.may_repeat = free & ~last
        if soon is not None:
            m.d.sync += [popped.eq(pops), repeated.eq(repeats), free.eq(~(executes | soon | pops))]
            pops, repeats = popped, repeated
        ones = [left == 1 for left in counts]
        with m.If(begins | pops):
            m.d.sync += depth.eq(Mux(begins, depth + 1, depth - 1))
        with m.If(repeats):
            m.d.sync += counts[0].eq(counts[0] - 1)
        for n in range(LOOP_DEPTH):
            inner = (start, count, count == 1) if n == 0 else (starts[n - 1], counts[n - 1], ones[n - 1])
            above = min(n + 1, LOOP_DEPTH - 1)
            outer = (starts[above], counts[above], ones[above])
            mine = Mux(repeats, counts[0] == 2, ones[0]) if n == 0 and soon is not None else ones[n]
            m.d.sync += lasts[n].eq(Mux(begins, inner[2], Mux(pops, outer[2], mine)))
            with m.If(begins | pops):
                m.d.sync += [
                    starts[n].eq(Mux(begins, inner[0], outer[0])),
                    counts[n].eq(Mux(begins, inner[1], outer[1])),
                ]
        with m.If(reset):
            m.d.sync += depth.eq(0)
