"""The interpreter: evaluates all iterations of an independent loop at once, other loops in order."""

from __future__ import annotations

import numpy as np

from tg2hdl_ir.golden.evaluation import Array, Evaluation
from tg2hdl_ir.golden.recurrence import Recurrence, find_recurrence
from tg2hdl_ir.nodes import IRItem, LoopIR

__all__ = ["Interpreter"]


class Interpreter(Evaluation):
    """One execution of a kernel on buffers, which it changes in place; parameters as of `Evaluation`."""

    def run(self) -> None:
        """Execute the kernel."""
        with np.errstate(all="ignore"):
            self.items(self.plan.kernel.loop_tree.items)

    def items(self, items: tuple[IRItem, ...]) -> None:
        """Execute statements and loops in order."""
        for item in items:
            if isinstance(item, LoopIR):
                self.loop(item)
            else:
                self.statement(item)

    def loop(self, loop: LoopIR) -> None:
        """Execute all iterations of a loop."""
        counts = self.counts(loop)
        if not len(counts):
            return
        if self.plan.dependence.parallel(loop):
            self._at_once(loop, counts)
            return
        if loop not in self.plan.recurrences:
            self.plan.recurrences[loop] = find_recurrence(self.plan, loop)
        recurrence: Recurrence | None = self.plan.recurrences[loop]
        if recurrence is not None:
            recurrence.run(self)
        else:
            self._in_order(loop, counts)

    def _at_once(self, loop: LoopIR, counts: Array) -> None:
        assert loop.counter is not None, "the root is not run as a loop"
        chunk = max(1, min(len(counts), self.room() // self.plan.width[loop]))
        for start in range(0, len(counts), chunk):
            some = counts[start : start + chunk]
            self.enter((loop,), len(some))
            self.frames[-1][loop.counter] = self.axis(some, loop.counter.dtype)
            self.items(loop.items)
            self.leave()

    def _in_order(self, loop: LoopIR, counts: Array) -> None:
        assert loop.counter is not None, "the root is not run as a loop"
        self.frames.append({})
        for count in counts.astype(loop.counter.dtype.numpy()):
            self.frames[-1] = {loop.counter: count}
            self.items(loop.items)
        self.frames.pop()
