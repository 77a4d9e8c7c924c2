"""Splitting a loop into two nested ones: ``i`` becomes ``inner * outer_counter + inner_counter``."""

from __future__ import annotations

from dataclasses import replace

from tg2hdl_ir.errors import InputError
from tg2hdl_ir.nodes import IRCounter, IRItem, KernelIR, LoopIR, const_int
from tg2hdl_ir.passes.fold import Folder
from tg2hdl_ir.passes.instrument import ir_pass
from tg2hdl_ir.passes.rewrite import Rewriter

__all__ = ["split_axis"]


@ir_pass("split-axis", "a loop becomes two nested loops", term="strip-mining")
def split_axis(kernel: KernelIR, axis: int, inner: int) -> KernelIR:
    """Split an axis; the order of the iterations stays.

    Parameters
    ----------
    kernel : KernelIR
    axis : int
        Its trip count is a constant.
    inner : int
        Trip count of the inner loop; must divide the bound.

    Raises
    ------
    InputError
        When it does not divide the bound, or the axis does not exist.
    """
    loops = [loop for loop in kernel.loop_tree.walk() if loop.counter is not None]
    target = next((loop for loop in loops if loop.counter is not None and loop.counter.axis == axis), None)
    if target is None or not isinstance(target.bound, int) or target.bound % inner:
        raise InputError(
            f"axis {axis} cannot be split by {inner}",
            where=f"kernel {kernel.name}",
            hint="give an axis with a constant trip count, and a divisor of it",
        )
    counter = target.counter
    assert counter is not None, "only the root has no counter"
    free = 1 + max(loop.counter.axis for loop in loops if loop.counter is not None)
    outer_counter = IRCounter(target.bound // inner, counter.depth, axis, counter.dtype)
    inner_counter = IRCounter(inner, counter.depth + 1, free, counter.dtype)
    folder = Folder()
    rewriter = Rewriter(folder)
    scaled = folder.op("mul", counter.dtype, outer_counter, const_int(inner, counter.dtype))
    rewriter.memo[counter] = folder.op("add", counter.dtype, scaled, inner_counter)

    def rebuild(loop: LoopIR, below: bool) -> LoopIR:
        new = loop.counter
        if below and new is not None:
            deeper = IRCounter(new.bound, new.depth + 1, new.axis, new.dtype)
            rewriter.memo[new] = deeper
            new = deeper
        items: list[IRItem] = []
        for item in loop.items:
            if not isinstance(item, LoopIR):
                items.append(rewriter.statement(item))
            elif item is target:
                inside = rebuild(replace(item, counter=None), below=True).items
                nested = LoopIR.from_items(inside, counter=inner_counter, axis_type=item.axis_type)
                items.append(LoopIR.from_items((nested,), counter=outer_counter, axis_type=item.axis_type))
            else:
                items.append(rebuild(item, below))
        return LoopIR.from_items(tuple(items), counter=new, axis_type=loop.axis_type)

    return replace(kernel, loop_tree=rebuild(kernel.loop_tree, below=False))
