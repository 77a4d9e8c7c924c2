"""Quotients and remainders of affine forms, and loops split so that these become affine.

A convolution in groups reads the channels of group ``i // n`` for output ``i``: as two loops, over the groups and the
outputs of each, its addresses are affine.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import gcd

from tg2hdl_ir.analysis.affine import AffineAnalysis
from tg2hdl_ir.nodes import IRBufLoad, IRBufStore, IRConst, IRCounter, IROp, IRValue, KernelIR, const_int
from tg2hdl_ir.passes.fold import Folder
from tg2hdl_ir.passes.instrument import ir_pass
from tg2hdl_ir.passes.rewrite import Rewriter
from tg2hdl_ir.passes.split import split_axis
from tg2hdl_ir.tree import values_below

__all__ = ["divided", "split_divided_loops"]


def divided(op: IROp, folder: Folder) -> IRValue | None:
    """Quotient or remainder of an affine form by a constant, where it is affine too; None otherwise.

    Parameters
    ----------
    op : IROp
        Integer ``div``, ``mod``, ``shr`` or ``and``; any other gives None.
    folder : Folder
        Has the affine forms and ranges of the kernel.
    """
    found = _divisor(op)
    if found is None:
        return None
    quotient, divisor = found
    value = op.srcs[0]
    form = folder.affine.of(value)
    if form is None or (op.op in ("div", "mod") and folder.ranges.of(value)[0] < 0):
        return None  # those round towards zero
    low = high = form.const
    for symbol, coefficient in form.terms:
        if coefficient % divisor:
            ends = [coefficient * end for end in folder.ranges.of(symbol)]
            low, high = low + min(ends), high + max(ends)
    whole = low // divisor
    if high // divisor != whole:
        return None
    result: IRValue = const_int(whole if quotient else form.const - whole * divisor, op.dtype)
    for symbol, coefficient in form.terms:
        if quotient != (coefficient % divisor == 0):
            continue
        factor = const_int(coefficient // divisor if quotient else coefficient, op.dtype)
        scaled = folder.op("mul", op.dtype, folder.op("cast", op.dtype, symbol), factor)
        result = folder.op("add", op.dtype, result, scaled)
    return result


@ir_pass("split-divided-loops", "loops whose counter an address divides become two", term="strip-mining")
def split_divided_loops(kernel: KernelIR) -> KernelIR:
    """The kernel with each loop split whose counter an address divides; the same one where there is none."""
    while (found := _divided_counter(kernel)) is not None:
        kernel = split_axis(kernel, *found)
        folder = Folder()
        rewriter = Rewriter(folder, replace=partial(divided, folder=folder))
        kernel = replace(kernel, loop_tree=rewriter.loop(kernel.loop_tree))
    return kernel


def _divided_counter(kernel: KernelIR) -> tuple[int, int] | None:
    """Axis of a counter that is divided, and the divisor, a part of its bound."""
    affine = AffineAnalysis()
    accesses = [s for s in kernel.loop_tree.statements() if isinstance(s, IRBufLoad | IRBufStore)]
    addresses = [s.addr for s in accesses if affine.of(s.addr) is None]
    for value in values_below(addresses):
        found = _divisor(value) if isinstance(value, IROp) else None
        form = affine.of(value.srcs[0]) if isinstance(value, IROp) and found is not None else None
        if found is None or form is None:
            continue
        odd = [(s, c) for s, c in form.terms if c % found[1]]
        match odd:
            case [(IRCounter(bound=int(bound)) as counter, coefficient)]:
                inner = found[1] // gcd(coefficient, found[1])
                if inner < bound and bound % inner == 0:
                    return counter.axis, inner
            case _:
                pass
    return None


def _divisor(op: IROp) -> tuple[bool, int] | None:
    """Whether an op is a quotient, or else a remainder, and of which divisor; None for other ops."""
    if op.op not in ("and", "shr", "div", "mod") or not op.dtype.is_int:
        return None
    if not isinstance(op.srcs[1], IRConst):
        return None
    number = int(op.srcs[1].value)
    if number < 0 or (op.op == "and" and number & (number + 1)) or (op.op == "shr" and number > 31):
        return None
    divisor = number + 1 if op.op == "and" else 1 << number if op.op == "shr" else number
    return (op.op in ("shr", "div"), divisor) if divisor > 1 else None
