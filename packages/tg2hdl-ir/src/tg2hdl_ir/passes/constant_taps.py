"""Constant taps: sums of products by few small weights, as in image filters, without loops and without multipliers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy.typing as npt

from tg2hdl_ir.analysis.fixed_values import FixedValues
from tg2hdl_ir.nodes import (
    IRBufLoad,
    IRBufStore,
    IRConst,
    IRCounter,
    IRItem,
    IROp,
    IRRegLoad,
    IRRegStore,
    IRValue,
    KernelIR,
    LoopIR,
    const_int,
)
from tg2hdl_ir.passes.dead_loads import without_dead_loads
from tg2hdl_ir.passes.depths import number_depths
from tg2hdl_ir.passes.instrument import ir_pass
from tg2hdl_ir.passes.rewrite import Rewriter
from tg2hdl_ir.tree import operands
from tg2hdl_ir.verifier import verify

__all__ = ["with_constant_taps"]

MAX_TAPS = 64
"""Largest number of iterations that become one."""

MAX_DIGITS = 32
"""Largest number of additions and subtractions for all weights together."""

MAX_WEIGHT_DIGITS = 2
"""The same for one weight: a product is at most one addition."""

Array = npt.NDArray[Any]


@ir_pass(
    "constant-taps",
    "loops over constant weights of few digits become sums",
    term="constant multiplication in canonical signed digits",
)
def with_constant_taps(kernel: KernelIR, contents: Mapping[int, Array]) -> KernelIR:
    """The kernel with the loops over its taps unrolled and their weights as literals; the same kernel without taps.

    Parameters
    ----------
    kernel : KernelIR
    contents : mapping of int to ndarray
        Elements of the slots that never change.
    """
    registers = [s for s in kernel.loop_tree.statements() if isinstance(s, IRRegLoad | IRRegStore)]
    if any(s.index is not None or (isinstance(s, IRRegStore) and s.gate is not None) for s in registers):
        return kernel
    fixed = FixedValues(contents)
    taps = _tap_counters(kernel, contents, fixed)
    loops = [loop for loop in kernel.loop_tree.walk() if loop.counter in taps]
    inner = [item for loop in loops for item in loop.items]
    if not loops or math.prod(c.bound for c in taps if isinstance(c.bound, int)) > MAX_TAPS:
        return kernel
    if any(isinstance(i, IRBufStore) or (isinstance(i, LoopIR) and i.counter not in taps) for i in inner):
        return kernel
    tree = without_dead_loads(number_depths(_Taps(kernel, taps, contents).level(kernel.loop_tree, {})))
    used = {s.buf_idx for s in tree.statements() if isinstance(s, IRBufLoad | IRBufStore)}
    written = {s.reg for s in tree.statements() if isinstance(s, IRRegLoad | IRRegStore)}
    return verify(
        replace(
            kernel,
            loop_tree=tree,
            buffers=tuple(b for b in kernel.buffers if b.idx in used),
            registers=tuple(r for r in kernel.registers if r.idx in written),
        )
    )


def _tap_counters(kernel: KernelIR, contents: Mapping[int, Array], fixed: FixedValues) -> set[IRCounter]:
    """Counters of the reductions that index small integer weights, which are factors and nothing else."""
    reductions = {loop.counter for loop in kernel.loop_tree.walk() if loop.axis_type == "reduce"}
    taps: set[IRCounter] = set()
    digits = 0
    for load in _factors(kernel):
        found = fixed.of(load)
        if found is None or load.gate is not None or not found.counters or not found.counters <= reductions:
            continue
        values = contents[load.buf_idx].reshape(-1).tolist()
        # A value v has a signed digit wherever v and 3 v differ.
        each = [(abs(value) ^ (3 * abs(value))).bit_count() for value in values]
        digits += sum(each)
        if max(each) > MAX_WEIGHT_DIGITS or digits > MAX_DIGITS:
            return set()
        taps |= found.counters
    return taps


def _factors(kernel: KernelIR) -> list[IRBufLoad]:
    """Loads that are factors of integer products, in order."""
    found: dict[IRBufLoad, None] = {}
    seen: set[IRValue] = set()
    stack = [v for s in kernel.loop_tree.statements() for v in operands(s)]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        stack.extend(operands(node))
        if isinstance(node, IROp) and node.op == "mul" and node.dtype.is_int:
            for factor in node.srcs:
                while isinstance(factor, IROp) and factor.op == "cast":
                    factor = factor.srcs[0]
                if isinstance(factor, IRBufLoad) and factor.dtype.is_int:
                    found[factor] = None
    return list(found)


class _Taps:
    """Unrolls the loops of some counters; inside of them registers are values."""

    def __init__(self, kernel: KernelIR, taps: set[IRCounter], contents: Mapping[int, Array]) -> None:
        self.taps = taps
        self.contents = contents
        outside = itertools.chain.from_iterable(
            level.items for level in kernel.loop_tree.walk() if level.counter not in taps
        )
        self.read = {item.reg for item in outside if isinstance(item, IRRegLoad)}

    def level(self, loop: LoopIR, memo: dict[IRValue, IRValue]) -> LoopIR:
        """A level outside of the taps."""
        rewriter = Rewriter()
        rewriter.memo.update(memo)
        items: list[IRItem] = []
        for item in loop.items:
            if not isinstance(item, LoopIR):
                items.append(rewriter.statement(item))
            elif item.counter not in self.taps:
                items.append(self.level(item, rewriter.memo))
            else:
                held: dict[int, IRValue] = {}
                items.extend(self._iterations(item, rewriter.memo, held))
                items.extend(IRRegStore(value, reg) for reg, value in held.items() if reg in self.read)
        return LoopIR.from_items(tuple(items), counter=loop.counter, axis_type=loop.axis_type)

    def _iterations(
        self, loop: LoopIR, memo: dict[IRValue, IRValue], held: dict[int, IRValue]
    ) -> list[IRItem]:
        """Statements of all iterations of a loop of taps; `held` are the registers' values."""
        counter = loop.counter
        assert counter is not None, "only the root has no counter"
        assert isinstance(counter.bound, int), "fixed values have no other counters"
        items: list[IRItem] = []
        for number in range(counter.bound):
            rewriter = Rewriter()
            rewriter.memo.update(memo)
            rewriter.memo[counter] = const_int(number, counter.dtype)
            for item in loop.items:
                if isinstance(item, LoopIR):
                    items.extend(self._iterations(item, rewriter.memo, held))
                elif isinstance(item, IRRegStore):
                    held[item.reg] = rewriter.value(item.value)
                elif isinstance(item, IRRegLoad) and item.reg in held:
                    rewriter.memo[item] = held[item.reg]
                elif isinstance(item, IRBufLoad) and (value := self._literal(item, rewriter)) is not None:
                    rewriter.memo[item] = value
                else:
                    items.append(rewriter.statement(item))
        return items

    def _literal(self, load: IRBufLoad, rewriter: Rewriter) -> IRConst | None:
        """Contents of an element that is known by now."""
        address = rewriter.value(load.addr)
        if load.buf_idx not in self.contents or load.gate is not None or not isinstance(address, IRConst):
            return None
        return IRConst(self.contents[load.buf_idx].reshape(-1)[int(address.value)].item(), load.dtype)
