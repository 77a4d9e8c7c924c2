"""Kernels that run row by row: each iteration of the outermost loop is a run of its own."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from tg2hdl_ir.analysis.affine import Affine, AffineAnalysis
from tg2hdl_ir.analysis.axes import analyze_axes
from tg2hdl_ir.analysis.constraints import Constraints
from tg2hdl_ir.analysis.ranges import Interval
from tg2hdl_ir.analysis.rows import row_loop
from tg2hdl_ir.errors import UnsupportedError
from tg2hdl_ir.nodes import (
    IRBufLoad,
    IRBufStore,
    IRItem,
    IRStatement,
    IRValue,
    KernelIR,
    LoopIR,
)
from tg2hdl_ir.passes.fold import Folder
from tg2hdl_ir.passes.gated_addresses import value_of_form, with_addresses
from tg2hdl_ir.passes.instrument import ir_pass
from tg2hdl_ir.passes.rewrite import Rewriter

__all__ = ["with_row_loop_first", "with_rows", "with_stored_order"]

Reordered = Callable[[Affine, Callable[[Affine], Interval]], Affine | None]
"""The address of an element in another order of a buffer, from its address and the interval of a form there."""


@ir_pass("rows", "each iteration of the outermost loop is a run")
def with_rows(kernel: KernelIR) -> KernelIR:
    """Make each iteration of the outermost loop a run.

    Raises
    ------
    UnsupportedError
        When an iteration depends on those before it, or there is no such loop.
    """
    loop = row_loop(kernel)
    if loop is None:
        raise UnsupportedError(
            "a kernel whose outermost loop is not over rows cannot run row by row",
            where=kernel.where,
            hint='choose another schedule, such as schedule="dataflow"',
        )
    assert loop.counter is not None, "only the root has no counter"
    if loop.counter.axis not in analyze_axes(kernel).independent:
        raise UnsupportedError(
            "a kernel in which a row depends on the rows before it cannot run row by row",
            where=kernel.where,
            hint='choose another schedule, such as schedule="dataflow"',
        )
    made = LoopIR.from_items(loop.items, counter=loop.counter, axis_type="rows")
    return replace(kernel, loop_tree=LoopIR.from_items((made,)))


@ir_pass("rows-first", "the loop over rows is the outermost one", term="loop interchange")
def with_row_loop_first(kernel: KernelIR, streamed: Collection[int]) -> KernelIR:
    """Move the independent loop outwards whose counter goes by the most elements in the buffers that are read.

    Parameters
    ----------
    streamed : collection of int
        Slots of the buffers that come row by row.
    """
    nest, affine = kernel.loop_tree.perfect_nest[1:], AffineAnalysis()
    independent = analyze_axes(kernel).independent
    loads = [s for s in kernel.loop_tree.statements() if isinstance(s, IRBufLoad) and s.buf_idx in streamed]
    forms = [form for load in loads if (form := affine.of(load.addr)) is not None]

    def elements(loop: LoopIR) -> int:
        counter = loop.counter
        assert counter is not None, "only the root has no counter"
        known = counter.axis in independent and isinstance(loop.bound, int)
        return max((abs(form.coefficient(counter)) for form in forms), default=0) if known else 0

    chosen = max(nest, key=elements, default=None)
    if chosen is None or chosen is nest[0] or not elements(chosen):
        return kernel
    order = [chosen, *(loop for loop in nest if loop is not chosen)]
    rewriter = Rewriter(Folder())
    counters = []
    for depth, loop in enumerate(order):
        counter = loop.counter
        assert counter is not None, "only the root has no counter"
        rewriter.memo[counter] = made = replace(counter, depth=depth)
        counters.append(made)
    inside = [rewriter.loop(i) if isinstance(i, LoopIR) else rewriter.statement(i) for i in nest[-1].items]
    items: tuple[IRItem, ...] = tuple(inside)
    for loop, counter in zip(reversed(order), reversed(counters), strict=True):
        items = (LoopIR.from_items(items, counter=counter, axis_type=loop.axis_type),)
    return replace(kernel, loop_tree=LoopIR.from_items(items))


@ir_pass("rows-order", "buffers hold their elements in another order", term="data layout transformation")
def with_stored_order(kernel: KernelIR, slots: Collection[int], reordered: Reordered) -> KernelIR:
    """Access buffers whose elements are in another order.

    Parameters
    ----------
    slots : collection of int
        The buffers.
    reordered : callable
        None for an address that it cannot give.

    Raises
    ------
    UnsupportedError
        When it gives None.
    """
    folder = Folder()
    found: dict[IRStatement, IRValue] = {}
    for access in kernel.loop_tree.statements():
        if isinstance(access, IRBufLoad | IRBufStore) and access.buf_idx in slots:
            known = Constraints(access.gate, folder.ranges, folder.affine, partly=True)
            form = folder.affine.of(access.addr)
            made = None if form is None else reordered(form, known.interval)
            if made is None:
                raise UnsupportedError(
                    "a kernel reads the rows of another one in an order that is not known",
                    where=kernel.where,
                    hint='choose another schedule, such as schedule="dataflow"',
                )
            found[access] = value_of_form(made, access.addr.dtype, folder)
    return with_addresses(kernel, found, folder)
