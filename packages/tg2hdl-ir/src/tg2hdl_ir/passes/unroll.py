"""Spatial unrolling: lanes that execute several iterations of a loop in one step."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping
from dataclasses import replace

from tg2hdl_ir.analysis.axes import AxisInfo
from tg2hdl_ir.errors import InputError
from tg2hdl_ir.nodes import (
    IRBufLoad,
    IRBufStore,
    IRCounter,
    IRItem,
    IRRegStore,
    IRStatement,
    IRValue,
    KernelIR,
    LoopIR,
    const_int,
    is_const,
)
from tg2hdl_ir.passes.depths import number_depths
from tg2hdl_ir.passes.fold import Folder
from tg2hdl_ir.passes.instrument import ir_pass
from tg2hdl_ir.passes.rewrite import Rewriter

__all__ = ["mask_statements", "unroll"]


@ir_pass("unroll", "several iterations of a loop run in one step, as lanes", term="loop unrolling")
def unroll(kernel: KernelIR, info: AxisInfo, factors: Mapping[int, int]) -> KernelIR:
    """Give axes several lanes.

    Parameters
    ----------
    kernel : KernelIR
        Flattened.
    info : AxisInfo
        Of the canonical kernel.
    factors : mapping of int to int
        Axis to lanes; the bound need not be a multiple, the last step masks the lanes beyond it.

    Raises
    ------
    InputError
        When an axis does not exist, has a run-time bound, or its lanes would change the order of a computation.
    """
    counters = {
        loop.counter.axis: loop.counter for loop in kernel.loop_tree.walk() if loop.counter is not None
    }
    innermost = {
        leaf.counter.axis for leaf in kernel.loop_tree.walk() if not leaf.loops and leaf.counter is not None
    }
    wanted = {axis: lanes for axis, lanes in factors.items() if lanes > 1}
    for axis in wanted:
        counter = counters.get(axis)
        legal = axis in info.independent | info.reducible | info.scanned or axis in innermost
        if counter is None or not isinstance(counter.bound, int) or not legal:
            raise InputError(
                f"axis {axis} cannot have {wanted[axis]} lanes",
                where=f"kernel {kernel.name}",
                hint=f"axes that can: {sorted((info.independent | info.reducible) & counters.keys())}",
            )
    return _Unroller(kernel, info, wanted).run() if wanted else kernel


class _Unroller:
    def __init__(self, kernel: KernelIR, info: AxisInfo, factors: dict[int, int]) -> None:
        self.kernel = kernel
        self.info = info
        self.factors = factors
        self.folder = Folder()
        self.registers = {r.idx: r for r in kernel.registers}
        self.copies: dict[tuple[int, tuple[int, ...]], int] = {}

    def run(self) -> KernelIR:
        items = self._level(self.kernel.loop_tree, {}, ())
        # A loop whose iterations are all lanes is gone.
        tree = number_depths(LoopIR.from_items(items))
        return replace(self.kernel, loop_tree=tree, registers=tuple(self.registers.values()))

    def _level(
        self, loop: LoopIR, values: dict[IRCounter, IRValue], lanes: tuple[IRCounter, ...]
    ) -> tuple[IRItem, ...]:
        """Items that stand for the loop's items; `values` maps old counters to new bases."""
        if not loop.loops:
            return self._leaf(loop, values, lanes)
        items: list[IRItem] = []
        for inner in loop.loops:
            built = self._loop(inner, values, lanes)
            alone = len(loop.loops) == 1 or all(isinstance(item, LoopIR) for item in built)
            items.extend(built if alone else (_once(inner, built),))
        return tuple(items)

    def _loop(
        self, loop: LoopIR, values: dict[IRCounter, IRValue], lanes: tuple[IRCounter, ...]
    ) -> tuple[IRItem, ...]:
        counter = loop.counter
        assert counter is not None, "only the root has no counter"
        factor = self.factors.get(counter.axis, 1)
        if factor == 1:
            items = self._level(loop, values, lanes)
            return (LoopIR.from_items(items, counter=counter, axis_type=loop.axis_type),)
        assert isinstance(counter.bound, int), "checked by unroll"
        steps = -(-counter.bound // factor)
        base = IRCounter(steps, counter.depth, counter.axis, counter.dtype)
        scaled = self.folder.op("mul", base.dtype, base, const_int(factor, base.dtype))
        values = {**values, counter: const_int(0, base.dtype) if steps == 1 else scaled}
        items = self._level(loop, values, (*lanes, counter))
        if steps == 1:
            return items
        return (LoopIR.from_items(items, counter=base, axis_type=loop.axis_type),)

    def _leaf(
        self, leaf: LoopIR, values: dict[IRCounter, IRValue], lanes: tuple[IRCounter, ...]
    ) -> tuple[IRItem, ...]:
        items: list[IRItem] = []
        for lane in itertools.product(*(self._order(c) for c in lanes)):
            items.extend(self._lane(leaf, values, lanes, lane))
        return tuple(items)

    def _order(self, counter: IRCounter) -> list[int]:
        """Lanes in order; in a regroupable reduction the lane of the last iteration comes last.

        The epilogue then sees the sum of all lanes, not a partial sum.
        """
        factor = self.factors[counter.axis]
        order = list(range(factor))
        assert isinstance(counter.bound, int), "checked by unroll"
        last = (counter.bound - 1) % factor
        if counter.axis in self.info.reducible and last > 0:
            order.append(order.pop(last))
        return order

    def _lane(
        self,
        leaf: LoopIR,
        values: dict[IRCounter, IRValue],
        counters: tuple[IRCounter, ...],
        lane: tuple[int, ...],
    ) -> list[IRStatement]:
        def private_copy(reg: int) -> int:
            key = tuple(n for c, n in zip(counters, lane, strict=True) if reg in self.info.private[c.axis])
            return self._copy(reg, key) if any(key) else reg

        rewriter = Rewriter(self.folder, register=private_copy)
        masks: list[IRValue] = []
        for counter, number in zip(counters, lane, strict=True):
            assert isinstance(counter.bound, int), "checked by unroll"
            dtype = counter.dtype
            value = self.folder.op("add", dtype, values[counter], const_int(number, dtype))
            rewriter.memo[counter] = value
            masks.append(self.folder.below(value, counter.bound))
        mask = self.folder.all_of(*masks)
        loaded = [s for s in leaf.statements() if not self._known(s, rewriter)]
        statements = [s for s in map(rewriter.statement, loaded) if not _never(s)]
        return statements if mask is None else mask_statements(statements, mask, self.folder)

    def _known(self, statement: IRStatement, rewriter: Rewriter) -> bool:
        """Whether a load returns its alternative in every step, like that of a lane in the padding."""
        if not isinstance(statement, IRBufLoad) or statement.gate is None or statement.alt is None:
            return False
        if not is_const(rewriter.value(statement.gate), 0):
            return False
        rewriter.memo[statement] = rewriter.value(statement.alt)
        return True

    def _copy(self, reg: int, lane: tuple[int, ...]) -> int:
        if (reg, lane) not in self.copies:
            number = max(self.registers) + 1
            self.copies[reg, lane] = number
            self.registers[number] = replace(self.registers[reg], idx=number, origin=reg)
        return self.copies[reg, lane]


def _once(loop: LoopIR, items: tuple[IRItem, ...]) -> LoopIR:
    """Loop of one step, which keeps the statements of one leaf apart from its siblings."""
    assert loop.counter is not None, "only the root has no counter"
    counter = IRCounter(1, loop.counter.depth, loop.counter.axis, loop.counter.dtype)
    return LoopIR.from_items(items, counter=counter, axis_type=loop.axis_type)


def _never(statement: IRStatement) -> bool:
    """Whether a store never executes, like that of an epilogue in any lane but the last."""
    if not isinstance(statement, IRBufStore | IRRegStore):
        return False
    return statement.gate is not None and is_const(statement.gate, 0)


def mask_statements(
    statements: list[IRStatement],
    mask: IRValue,
    folder: Folder,
    unmasked: Collection[int] = (),
) -> list[IRStatement]:
    """Gate statements; a masked load may have any value, so that its gate has no alternative unless it had one.

    Parameters
    ----------
    unmasked : collection of int
        Registers that may hold anything after a masked step.
    """
    rewriter = Rewriter(folder)
    result: list[IRStatement] = []
    for statement in statements:
        if isinstance(statement, IRRegStore) and statement.reg in unmasked:
            result.append(rewriter.statement(statement))
        elif isinstance(statement, IRBufStore | IRRegStore):
            gated = rewriter.statement(statement)
            assert isinstance(gated, IRBufStore | IRRegStore), "a store stays a store"
            result.append(replace(gated, gate=folder.all_of(mask, gated.gate)))
        elif isinstance(statement, IRBufLoad):
            load = IRBufLoad(
                statement.buf_idx,
                rewriter.value(statement.addr),
                statement.dtype,
                folder.all_of(mask, rewriter.optional(statement.gate)),
                rewriter.optional(statement.alt),
            )
            rewriter.memo[statement] = load
            result.append(load)
        else:
            result.append(rewriter.statement(statement))
    return result
