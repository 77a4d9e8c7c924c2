"""A kernel in the order of another one: it reads the words that the other writes as they are completed."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from tg2hdl_ir.analysis.affine import AffineAnalysis
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
from tg2hdl_ir.passes.depths import number_depths
from tg2hdl_ir.passes.flatten import flatten
from tg2hdl_ir.passes.fold import Folder
from tg2hdl_ir.passes.instrument import ir_pass
from tg2hdl_ir.passes.rewrite import Rewriter
from tg2hdl_ir.passes.unroll import mask_statements

__all__ = ["Turn", "adds_in_order", "in_order", "turns_of", "with_idle_steps"]


@dataclass(frozen=True)
class Turn:
    """A loop of the kernel that writes: elements from one iteration to the next, iterations, and those at once.

    Parameters
    ----------
    stride : int
        Elements from one iteration to the next.
    bound : int
        Iterations.
    lanes : int
        Elements of an iteration.
    """

    stride: int
    bound: int
    lanes: int = 1

    @property
    def steps(self) -> int:
        """Steps of the loop."""
        return -(-self.bound // self.lanes)


def turns_of(kernel: KernelIR, buffer: int, lanes: dict[int, int]) -> list[Turn] | None:
    """The loops in which a kernel goes through a buffer, each element once, outermost first; None for others.

    Parameters
    ----------
    kernel : KernelIR
    buffer : int
        Its slot.
    lanes : dict of int to int
        By axis.
    """
    stores = [s for s in kernel.loop_tree.statements() if isinstance(s, IRBufStore) and s.buf_idx == buffer]
    if len(stores) != 1 or stores[0].gate is not None:
        return None
    strides = _strides(stores[0].addr)
    loops = [loop for loop in kernel.loop_tree.walk() if loop.counter in (strides or {})]
    if strides is None or len(loops) != len(strides):
        return None
    found = []
    for loop in loops:
        assert loop.counter is not None, "only the root has no counter"
        assert isinstance(loop.bound, int), "known by _strides"
        found.append(Turn(strides[loop.counter], loop.bound, lanes.get(loop.counter.axis, 1)))
    return found if _is_complete(found, kernel.buffer(buffer).depth) else None


@ir_pass(
    "follow",
    "a kernel goes through its input in the order in which another one writes it",
    term="loop interchange",
)
def in_order(kernel: KernelIR, buffers: Collection[int], turns: Sequence[Turn]) -> KernelIR | None:
    """The kernel with other loops: those of `turns`, then one for the lanes of each.

    Parameters
    ----------
    kernel : KernelIR
    buffers : collection of int
        Slots that the kernel reads, each element once and all at the same address.
    turns : sequence of Turn
        Outermost first.

    Returns
    -------
    KernelIR or None
        None for a kernel with registers or with sibling loops, and where its loops do not divide into those of
        `turns`.
    """
    if kernel.registers or kernel.variables:
        return None
    flat = flatten(kernel)
    nest = _nest(flat)
    strides = None if nest is None else _read_strides(nest[-1].statements(), buffers)
    if nest is None or strides is None:
        return None
    counters = [loop.counter for loop in nest if loop.counter is not None]
    read = [Turn(strides[c], c.bound) for c in counters if c in strides and isinstance(c.bound, int)]
    depth = kernel.buffer(next(iter(buffers))).depth
    if len(read) != len(counters) or not _is_complete(read, depth):
        return None
    if len({counter.dtype for counter in counters}) != 1:
        return None
    return _rebuilt(flat, nest[-1], strides, turns)


def adds_in_order(kernel: KernelIR, buffers: Collection[int], turns: Sequence[Turn]) -> list[int] | None:
    """Axes with several lanes of a kernel that adds up elements in the order of `turns`; at most one.

    With the outputs along this axis interleaved under the reduction, it reads word by word.

    Parameters
    ----------
    kernel : KernelIR
    buffers : collection of int
        Slots that it reads.
    turns : sequence of Turn
        Outermost first.

    Returns
    -------
    list of int or None
        None for other kernels.
    """
    nest = _nest(kernel)
    strides = _read_strides(kernel.loop_tree.statements(), buffers)
    if nest is None or strides is None or kernel.variables:
        return None
    counters = [loop.counter for loop in nest if loop.counter is not None]
    if not counters or [(strides.get(c), c.bound) for c in counters] != [(t.stride, t.bound) for t in turns]:
        return None
    wide = [counter.axis for counter, turn in zip(counters, turns, strict=True) if turn.lanes > 1]
    return wide if len(wide) < 2 and wide != [counters[-1].axis] else None


def _rebuilt(
    flat: KernelIR, leaf: LoopIR, strides: dict[IRCounter, int], turns: Sequence[Turn]
) -> KernelIR | None:
    folder, dtype = Folder(), next(iter(strides)).dtype
    outer = [IRCounter(turn.steps, 0, n, dtype) for n, turn in enumerate(turns)]
    inner = [IRCounter(turn.lanes, 0, len(turns) + n, dtype) for n, turn in enumerate(turns)]
    values: list[IRValue] = []
    for turn, group, lane in zip(turns, outer, inner, strict=True):
        scaled = folder.op("mul", dtype, _value(group), const_int(turn.lanes, dtype))
        values.append(folder.op("add", dtype, scaled, _value(lane)))
    rewriter = Rewriter(folder)
    used = 0
    for counter, stride in strides.items():
        value: IRValue = const_int(0, dtype)
        assert isinstance(counter.bound, int), "known by _strides"
        for turn, part in zip(turns, values, strict=True):
            if not stride <= turn.stride < stride * counter.bound:
                continue
            if turn.stride % stride or turn.stride * turn.bound > stride * counter.bound:
                return None
            scaled = folder.op("mul", dtype, part, const_int(turn.stride // stride, dtype))
            value = folder.op("add", dtype, value, scaled)
            used += 1
        rewriter.memo[counter] = value
    if used != len(turns):
        return None
    masks = [folder.below(value, turn.bound) for turn, value in zip(turns, values, strict=True)]
    mask = folder.all_of(*masks)
    statements = [rewriter.statement(s) for s in leaf.statements()]
    if mask is not None:
        statements = mask_statements(statements, mask, folder)
    items: tuple[IRItem, ...] = tuple(statements)
    for loop in reversed([c for c in (*outer, *inner) if c.bound != 1]):
        items = (LoopIR.from_items(items, counter=loop),)
    return replace(flat, loop_tree=number_depths(LoopIR.from_items(items)))


def _value(counter: IRCounter) -> IRValue:
    return const_int(0, counter.dtype) if counter.bound == 1 else counter


@ir_pass("idle-steps", "steps without effect let a kernel keep the pace of another one")
def with_idle_steps(kernel: KernelIR, level: int, steps: int) -> KernelIR:
    """Add a loop of idle steps before the loop at a level of nested loops; 0 is the outermost one.

    Parameters
    ----------
    kernel : KernelIR
    level : int
        Level of the loop; 0 is the outermost one.
    steps : int
        Idle steps before each run of the loop.
    """
    axis = 1 + max(loop.counter.axis for loop in kernel.loop_tree.walk() if loop.counter is not None)

    def rebuilt(loop: LoopIR, depth: int) -> LoopIR:
        items = loop.items
        if depth < level:
            items = tuple(rebuilt(item, depth + 1) if isinstance(item, LoopIR) else item for item in items)
        else:
            items = (LoopIR.from_items((), counter=IRCounter(steps, depth, axis)), *items)
        return LoopIR.from_items(items, counter=loop.counter, axis_type=loop.axis_type)

    return replace(kernel, loop_tree=rebuilt(kernel.loop_tree, 0))


def _nest(kernel: KernelIR) -> list[LoopIR] | None:
    """The loops of a kernel from the root to the innermost one; None where two are siblings."""
    found = [kernel.loop_tree]
    while found[-1].loops:
        if len(found[-1].loops) > 1:
            return None
        found.append(found[-1].loops[0])
    return found


def _read_strides(statements: Iterable[IRStatement], buffers: Collection[int]) -> dict[IRCounter, int] | None:
    """Strides at which buffers are read; None unless each has one load without a gate, all with the same ones."""
    loads = [s for s in statements if isinstance(s, IRBufLoad) and s.buf_idx in buffers]
    forms = [_strides(load.addr) for load in loads if load.gate is None]
    if not forms or not len(forms) == len(loads) == len(buffers) or any(form != forms[0] for form in forms):
        return None
    return forms[0]


def _strides(address: IRValue) -> dict[IRCounter, int] | None:
    """Elements that each counter of an address is worth; None where something else is in it."""
    form = AffineAnalysis().of(address)
    if form is None or form.const:
        return None
    found: dict[IRCounter, int] = {}
    for symbol, stride in form.terms:
        if not isinstance(symbol, IRCounter) or not isinstance(symbol.bound, int):
            return None
        found[symbol] = stride
    return found


def _is_complete(turns: Sequence[Turn], depth: int) -> bool:
    """Whether the loops reach each of so many elements once."""
    expected = 1
    for turn in sorted(turns, key=lambda turn: (turn.stride, turn.bound)):
        if turn.stride != expected:
            return False
        expected *= turn.bound
    return expected == depth == math.prod(turn.bound for turn in turns)
