"""Which loop of a leaf's path advances after a step: one-hot flags that need no chain through all loops.

Between two wraps of the innermost loop the outer counters are constant.  Where the plan says so, their combined flags
are therefore registered, a cycle late.
"""

from __future__ import annotations

from collections.abc import Mapping

from amaranth import Const, Module, Signal
from amaranth.hdl import Value

from tg2hdl_ir.nodes import LoopIR
from tg2hdl_lower.plan.graph import LeafPlan

__all__ = ["Advance"]


class Advance:
    """Flags at stage 0 of one leaf.

    Parameters
    ----------
    last : mapping of int to Signal
        By axis: the counter has its last value.
    registered : bool
        Whether the flags of the outer loops come from registers.
    """

    def __init__(self, m: Module, leaf: LeafPlan, last: Mapping[int, Signal], *, registered: bool) -> None:
        self._last = [last[_axis(loop)] for loop in leaf.path]
        advance: list[Value] = []
        wrap: list[Value] = []
        outer_last: Value = Const(1, 1)
        for signal in self._last[-2::-1]:
            advance.append(outer_last & ~signal)
            outer_last = outer_last & signal
            wrap.append(outer_last)
        self._advance = [
            _kept(m, v, f"leaf{leaf.number}_advance{n}", registered) for n, v in enumerate(advance)
        ]
        self._wrap = [_kept(m, v, f"leaf{leaf.number}_wrap{n}", registered) for n, v in enumerate(wrap)]

    def at(self, level: int) -> Value:
        """The loop at `level` counts on, and all inner ones start again."""
        outward = len(self._last) - 1 - level
        return self._last[-1] & self._advance[outward - 1] if outward else ~self._last[-1]

    def wraps(self, level: int) -> Value:
        """The loop at `level` and all inner ones have their last values."""
        if not self._last:
            return Const(1, 1)
        outward = len(self._last) - 1 - level
        return self._last[-1] & self._wrap[outward - 1] if outward else self._last[-1]


def _kept(m: Module, value: Value, name: str, registered: bool) -> Value:
    if not registered:
        return value
    register = Signal(name=name, reset_less=True)
    m.d.sync += register.eq(value)
    return register


def _axis(loop: LoopIR) -> int:
    assert loop.counter is not None, "only the root has no counter"
    return loop.counter.axis
