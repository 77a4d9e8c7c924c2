"""Lead-in: loops run warm-up iterations whose results are discarded.

They fill the delay lines with words of earlier iterations before the first result is stored.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from tg2hdl_ir.analysis.affine import Affine, AffineAnalysis
from tg2hdl_ir.analysis.constraints import Constraints
from tg2hdl_ir.analysis.ranges import RangeAnalysis
from tg2hdl_ir.dtype import DType
from tg2hdl_ir.nodes import (
    IRBufLoad,
    IRBufStore,
    IRCounter,
    IRItem,
    IRStatement,
    IRValue,
    KernelIR,
    LoopIR,
    const_int,
)
from tg2hdl_ir.passes.fold import Folder
from tg2hdl_ir.passes.instrument import ir_pass
from tg2hdl_ir.passes.rewrite import Rewriter

__all__ = ["lead_in"]


@ir_pass("lead-in", "loops start with warm-up iterations that fill line buffers", term="loop peeling")
def lead_in(kernel: KernelIR, early: Mapping[int, int], reading: Collection[IRBufLoad]) -> KernelIR:
    """Add warm-up iterations to loops.

    Parameters
    ----------
    kernel : KernelIR
        Flattened.
    early : mapping of int to int
        Warm-up iterations by axis.  The axes are independent: no register is carried from one iteration to the next.
    reading : collection of IRBufLoad
        Loads that also read in the warm-up iterations, if their addresses stay inside the buffer; all other loads are
        gated off there.
    """
    return replace(kernel, loop_tree=_LeadIn(kernel, early, reading).loop(kernel.loop_tree, {}))


class _LeadIn:
    def __init__(self, kernel: KernelIR, early: Mapping[int, int], reading: Collection[IRBufLoad]) -> None:
        self.early = early
        self.reading = reading
        self.depths = {b.idx: b.depth for b in kernel.buffers}
        self.folder = Folder()
        self.rewriter = Rewriter(self.folder)
        self.ranges = RangeAnalysis()
        self.affine = AffineAnalysis(self.ranges)

    def loop(self, loop: LoopIR, masks: Mapping[IRCounter, IRValue]) -> LoopIR:
        """The loop with warm-up; `masks` are the gates of the real iterations, by counter of a loop with warm-up."""
        counter = loop.counter
        if counter is not None and (early := self.early.get(counter.axis, 0)):
            assert isinstance(counter.bound, int), "only a loop with a fixed bound begins early"
            longer = IRCounter(counter.bound + early, counter.depth, counter.axis, counter.dtype)
            position = self.folder.op("add", counter.dtype, longer, const_int(-early, counter.dtype))
            self.rewriter.memo[counter] = position
            counts = self.folder.op("lt", DType.BOOL, const_int(early - 1, counter.dtype), longer)
            masks = {**masks, longer: counts}
            counter = longer
        items: list[IRItem] = [
            self.loop(item, masks) if isinstance(item, LoopIR) else self._statement(item, masks)
            for item in loop.items
        ]
        return LoopIR.from_items(tuple(items), counter=counter, axis_type=loop.axis_type)

    def _statement(self, statement: IRStatement, masks: Mapping[IRCounter, IRValue]) -> IRStatement:
        new = self.rewriter.statement(statement)
        if isinstance(new, IRBufStore):
            return replace(new, gate=self.folder.all_of(*masks.values(), new.gate))
        if isinstance(new, IRBufLoad) and isinstance(statement, IRBufLoad):
            form = self.affine.of(new.addr)
            if form is None or statement not in self.reading or not self._inside(new, form):
                used = masks if form is None else [c for c in masks if form.coefficient(c)]
                new = replace(new, gate=self.folder.all_of(*(masks[c] for c in used), new.gate))
                self.rewriter.memo[statement] = new
        return new

    def _inside(self, load: IRBufLoad, address: Affine) -> bool:
        low, high = Constraints(load.gate, self.ranges, self.affine).interval(address)
        return low >= 0 and high < self.depths[load.buf_idx]
