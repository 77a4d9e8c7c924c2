"""Sums in turns: a float sum takes turns on partial sums, and moving sums add these up in its last step.

A step then waits for none of the steps straight before it, so that one sum after the other is done at II = 1.  The
moving sum of the last ``2 n`` values is that of the last `n` plus the one `n` steps before, as in a CIC filter.
Regrouping changes rounding, so this needs ``float_order="relaxed"``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tg2hdl_ir.dtype import DType
from tg2hdl_ir.nodes import (
    IRBufLoad,
    IRBufStore,
    IRConst,
    IRCounter,
    IRItem,
    IROp,
    IRRegLoad,
    IRRegStore,
    IRStatement,
    IRValue,
    KernelIR,
    LoopIR,
    RegisterMeta,
    const_int,
    is_const,
    loads_used_by,
    operands,
    values_below,
)
from tg2hdl_ir.passes.balance import balance
from tg2hdl_ir.passes.depths import number_depths
from tg2hdl_ir.passes.fold import Folder
from tg2hdl_ir.passes.instrument import ir_pass
from tg2hdl_ir.passes.leaves import leaf_paths
from tg2hdl_ir.passes.registers import forward_registers
from tg2hdl_ir.passes.rewrite import Rewriter
from tg2hdl_ir.passes.unroll import mask_statements

__all__ = ["sum_in_turns", "sum_steps", "summed_at_the_end"]


@dataclass(frozen=True)
class _Sum:
    """A register that the steps of a leaf add to: ``store.value`` is `before` plus `term`, and so are `equal` values.

    The equal ones leave out lanes that are idle in the last step.
    """

    store: IRRegStore
    load: IRRegLoad
    before: IRValue
    term: IRValue
    equal: frozenset[IRValue] = frozenset()


def sum_steps(kernel: KernelIR) -> int:
    """Steps of the innermost loop in which a kernel adds to its float sums; 0 where these cannot take turns.

    Parameters
    ----------
    kernel : KernelIR
        Flattened, with its lanes; its float sums may be regrouped.
    """
    found = _found(_forwarded(kernel))
    return 0 if found is None else found[0]


@ir_pass(
    "sum-in-turns",
    "a float sum takes turns on partial sums, which moving sums add up",
    term="reassociation into partial sums",
)
def sum_in_turns(kernel: KernelIR, turns: int) -> KernelIR:
    """Add the terms of each float sum to `turns` partial sums in turn; the same kernel where that is not possible.

    Parameters
    ----------
    kernel : KernelIR
        Flattened, with its lanes.
    turns : int
        Partial sums; when they do not divide the steps, the last of these are idle.
    """
    forwarded = _forwarded(kernel)
    found = _found(forwarded)
    if found is None or turns < 2:
        return kernel
    return _Turns(forwarded, found[1], turns).run()


def summed_at_the_end(kernel: KernelIR, turns: int) -> KernelIR:
    """The kernel that computes what `sum_in_turns` does with ordinary additions after the loop, bit for bit.

    Its results do not depend on each other, so that software computes many at once.

    Parameters
    ----------
    kernel : KernelIR
        Flattened, with its lanes; its sums can take turns.
    turns : int
        Partial sums.
    """
    forwarded = _forwarded(kernel)
    found = _found(forwarded)
    assert found is not None, "its sums take turns"
    return _AtTheEnd(forwarded, found[1], turns).run()


def _forwarded(kernel: KernelIR) -> KernelIR:
    return balance(forward_registers(kernel), regroup_floats=True)


def _found(kernel: KernelIR) -> tuple[int, list[_Sum]] | None:
    """Steps of the only leaf, and its sums: nothing but stores in the last step uses them."""
    (path, *others) = leaf_paths(kernel.loop_tree)
    counter = path[-1].counter
    if others or counter is None or not isinstance(counter.bound, int) or counter.bound < 2:
        return None
    statements = list(path[-1].statements())
    stores = [s for s in statements if isinstance(s, IRRegStore)]
    sums = [found for s in stores if (found := _sum_of(s, counter)) is not None]
    own = {each.store for each in sums}
    if not sums or any(s.value.dtype.is_float and _reads(s.value) for s in stores if s not in own):
        return None
    using = [s for s in statements if s not in own and _uses(s, sums)]
    last, read = counter.bound - 1, {s.buf_idx for s in statements if isinstance(s, IRBufLoad)}
    for s in using:
        # They come after all loads, which may not see them.
        if not isinstance(s, IRBufStore) or s.buf_idx in read or counter not in _equals(s.gate, last):
            return None
    sums = [_with_equal(each, using, Rewriter(), counter) for each in sums]
    # They see the whole sums, not the registers.
    wholes = {value for each in sums for value in (each.store.value, *each.equal)}
    loads = {each.load for each in sums}
    seen = values_below([value for s in using for value in operands(s)], wholes)
    return None if loads & seen.keys() else (counter.bound, sums)


def _uses(statement: IRStatement, sums: list[_Sum]) -> bool:
    below = values_below(operands(statement))
    return not isinstance(statement, IRRegLoad) and any(each.load in below for each in sums)


def _with_equal(each: _Sum, using: list[IRStatement], last: Rewriter, counter: IRCounter) -> _Sum:
    """The sum with the values that are equal to it in the last step."""
    assert isinstance(counter.bound, int), "checked by _found"
    last.memo[counter] = const_int(counter.bound - 1, counter.dtype)

    def terms(value: IRValue) -> Counter[IRValue]:
        if isinstance(value, IROp) and value.op == "add":
            return sum((terms(source) for source in value.srcs), Counter())
        return Counter() if _is_zero(value) else Counter([value])

    whole = terms(last.value(each.store.value))
    found = {
        value
        for value in values_below([value for s in using for value in operands(s)])
        if isinstance(value, IROp) and value.op == "add" and each.before in value.srcs
        if terms(last.value(value)) == whole
    }
    return replace(each, equal=frozenset(found))


def _sum_of(store: IRRegStore, counter: IRCounter) -> _Sum | None:
    """A float sum that starts at zero and goes on in the next iteration of a loop."""
    value = store.value
    if store.index is not None or store.gate is not None or not value.dtype.is_float:
        return None
    if not isinstance(value, IROp) or value.op != "add":
        return None
    for before, term in (value.srcs, value.srcs[::-1]):
        if isinstance(before, IROp) and before.op == "where":
            first, initial, load = before.srcs
            starts = _is_zero(initial) and counter in _equals(first, 0)
            if starts and isinstance(load, IRRegLoad) and load.reg == store.reg and load.index is None:
                return None if _reads(term) else _Sum(store, load, before, term)
    return None


def _is_zero(value: IRValue) -> bool:
    return isinstance(value, IRConst) and value.value == 0


def _reads(value: IRValue) -> bool:
    return any(isinstance(load, IRRegLoad) for load in loads_used_by((value,)))


def _equals(gate: IRValue | None, number: int) -> set[IRCounter]:
    """Counters that are known to have this value where the gate is true."""
    if not isinstance(gate, IROp) or gate.op not in ("and", "eq") or not gate.dtype.is_bool:
        return set()
    one, other = gate.srcs
    if gate.op == "and":
        return _equals(one, number) | _equals(other, number)
    return {one} if isinstance(one, IRCounter) and is_const(other, number) else set()


def _conjuncts(gate: IRValue) -> int:
    is_both = isinstance(gate, IROp) and gate.op == "and" and gate.dtype.is_bool
    return sum(_conjuncts(source) for source in operands(gate)) if is_both else 1


class _Turns:
    def __init__(self, kernel: KernelIR, sums: list[_Sum], turns: int) -> None:
        (self.path,) = leaf_paths(kernel.loop_tree)
        leaf = self.path[-1]
        assert leaf.counter is not None, "checked by _found"
        assert isinstance(leaf.counter.bound, int), "checked by _found"
        self.counter = leaf.counter
        self.kernel, self.sums, self.turns = kernel, sums, min(turns, leaf.counter.bound)
        gone = {each.load for each in sums} | {each.store for each in sums}
        ordered = sorted(leaf.statements(), key=lambda s: not isinstance(s, IRBufLoad | IRRegLoad))
        self.others = [s for s in ordered if s not in gone]
        self.folder = Folder()
        self.registers = {r.idx: r for r in kernel.registers}
        self.begins: list[IRStatement] = []
        self.ends: list[IRStatement] = []
        self.delays: dict[IRValue, list[IRRegLoad]] = {}

    def run(self) -> KernelIR:
        """The kernel whose sums take turns."""
        leaf, bound = self.path[-1], self.counter.bound
        assert isinstance(bound, int), "checked by _found"
        turn, outer, base = self._counters()
        position = self.folder.op("add", turn.dtype, base, turn)
        rewriter, first = Rewriter(self.folder), Rewriter(self.folder)
        rewriter.memo[self.counter], first.memo[self.counter] = position, base
        for each in self.sums:
            partial = self._partial(each, rewriter.value(each.term), first, turn)
            whole = self._moving_sum(partial)
            rewriter.memo.update(dict.fromkeys((each.store.value, *each.equal), whole))
        items = [*self.begins, *map(rewriter.statement, self.others), *self.ends]
        mask = self.folder.all_of(self.folder.below(position, bound))
        if mask is not None:
            # The whole sum is used before the idle steps, and later ones begin with other registers.
            own = {s.reg for s in self.ends if isinstance(s, IRRegStore)}
            items = mask_statements(items, mask, self.folder, own)
        made = LoopIR.from_items(tuple(items), counter=turn, axis_type=leaf.axis_type)
        if outer is not None:
            made = LoopIR.from_items((made,), counter=outer, axis_type=leaf.axis_type)
        return self._kernel((made,), self.path[:-1])

    def _counters(self) -> tuple[IRCounter, IRCounter | None, IRValue]:
        """Counters of the turns and of the rounds, None for a single one, and the first position of a round."""
        counter = self.counter
        assert isinstance(counter.bound, int), "checked by _found"
        axes = [loop.counter.axis for loop in self.path if loop.counter is not None]
        turn = IRCounter(self.turns, counter.depth + 1, max(axes) + 1, counter.dtype)
        if self.turns == counter.bound:
            return turn, None, const_int(0, counter.dtype)
        outer = IRCounter(-(-counter.bound // self.turns), counter.depth, counter.axis, counter.dtype)
        return (
            turn,
            outer,
            self.folder.op("mul", counter.dtype, outer, const_int(self.turns, counter.dtype)),
        )

    def _kernel(self, items: tuple[IRItem, ...], around: Sequence[LoopIR]) -> KernelIR:
        """The kernel with these items inside some loops, the root first."""
        for loop in reversed(around):
            items = (LoopIR.from_items(items, counter=loop.counter, axis_type=loop.axis_type),)
        (tree,) = items
        assert isinstance(tree, LoopIR), "the root is around"
        return replace(self.kernel, loop_tree=number_depths(tree), registers=tuple(self.registers.values()))

    def _partial(self, each: _Sum, term: IRValue, first: Rewriter, turn: IRCounter) -> IRValue:
        """The partial sum whose turn it is, with the term."""
        assert isinstance(each.before, IROp), "found by _sum_of"
        gate, initial, _ = each.before.srcs
        starts = first.value(gate)
        dtype, reg = term.dtype, each.load.reg
        if is_const(starts, 1):
            del self.registers[reg]
            return term
        self.registers[reg] = replace(self.registers[reg], size=self.turns)
        load = IRRegLoad(dtype, reg, turn)
        before = self.folder.op("where", dtype, starts, initial, load)
        partial = self.folder.op("add", dtype, before, term)
        self.begins.append(load)
        self.ends.append(IRRegStore(partial, reg, turn))
        return partial

    def _moving_sum(self, value: IRValue) -> IRValue:
        """The sum of the values of as many steps as there are partial sums."""
        sums, size = {1: value}, 1
        while 2 * size <= self.turns:
            sums[2 * size] = self._sum(sums[size], self._before(sums[size], size))
            size *= 2
        parts: list[IRValue] = []
        steps = 0
        for size in sorted(sums, reverse=True):
            if self.turns & size:
                parts.append(self._before(sums[size], steps))
                steps += size
        whole = parts.pop()
        while parts:
            whole = self._sum(parts.pop(), whole)
        return whole

    def _sum(self, one: IRValue, other: IRValue) -> IRValue:
        return self.folder.op("add", one.dtype, one, other)

    def _before(self, value: IRValue, steps: int) -> IRValue:
        """A value some steps before this one."""
        known = self.delays.setdefault(value, [])
        while len(known) < steps:
            register = self._register(value.dtype)
            load = IRRegLoad(value.dtype, register)
            self.begins.append(load)
            self.ends.append(IRRegStore(known[-1] if known else value, register))
            known.append(load)
        return known[steps - 1] if steps else value

    def _register(self, dtype: DType, size: int = 1) -> int:
        number = 1 + max(self.registers, default=-1)
        self.registers[number] = RegisterMeta(number, dtype, size)
        return number


class _AtTheEnd(_Turns):
    """One partial sum after the other goes to an array of registers, from which later statements add them up."""

    def __init__(self, kernel: KernelIR, sums: list[_Sum], turns: int) -> None:
        super().__init__(kernel, sums, turns)
        self.using = [s for s in self.others if _uses(s, sums)]
        self.earlier: dict[IRValue, tuple[list[IRRegLoad], int]] = {}
        self.arrays = [self._register(each.load.dtype, self.turns) for each in sums]

    def run(self) -> KernelIR:
        """The kernel; the one whose sums take turns where the loops of a sum are not known."""
        loops = self._loops()
        loads = [s for s in self.others if isinstance(s, IRBufLoad)]
        if loops is None or len(loads) + len(self.using) < len(self.others):
            return _Turns(self.kernel, self.sums, self.turns).run()
        turn, outer, base = self._counters()
        position = self.folder.op("add", turn.dtype, base, turn)
        rewriter = Rewriter(self.folder)
        rewriter.memo[self.counter] = position
        items: list[IRStatement] = [rewriter.statement(s) for s in loads]
        inside = [*((loop.counter, loop.axis_type) for loop in loops[:-1]), (outer, self.path[-1].axis_type)]
        inside = [(counter, kind) for counter, kind in inside if counter is not None]
        begins: list[IRStatement] = []
        last: list[IRStatement] = []
        for each, array in zip(self.sums, self.arrays, strict=True):
            term, dtype, reg = rewriter.value(each.term), each.load.dtype, each.load.reg
            if not inside:
                last.append(IRRegStore(term, array, turn))
                continue
            load, result = IRRegLoad(dtype, reg), IRRegLoad(dtype, reg)
            assert isinstance(each.before, IROp), "found by _sum_of"
            begins.append(IRRegStore(each.before.srcs[1], reg))
            items += [load, IRRegStore(self._sum(load, term), reg)]
            last += [result, IRRegStore(result, array, turn)]
        assert isinstance(self.counter.bound, int), "checked by _found"
        mask = self.folder.all_of(self.folder.below(position, self.counter.bound))
        if mask is not None:
            items = mask_statements(items, mask, self.folder)
        nest: tuple[IRItem, ...] = tuple(items)
        for counter, kind in reversed(inside):
            nest = (LoopIR.from_items(nest, counter=counter, axis_type=kind),)
        turns = LoopIR.from_items((*begins, *nest, *last), counter=turn, axis_type="loop")
        return self._kernel((turns, *self._after(loops, loads)), self.path[: -len(loops)])

    def _loops(self) -> list[LoopIR] | None:
        """The loops of the sums, which begin where the counters of exactly these are zero."""
        gates = {each.before.srcs[0] for each in self.sums if isinstance(each.before, IROp)}
        zeros = {frozenset(_equals(gate, 0)) for gate in gates}
        counters = zeros.pop()
        loops = [loop for loop in self.path if loop.counter in counters]
        known = all(_conjuncts(gate) == len(counters) for gate in gates)
        same = list(self.path[-len(counters) :]) == loops
        return loops if known and same and not zeros else None

    def _after(self, loops: list[LoopIR], loads: list[IRBufLoad]) -> list[IRStatement]:
        """Statements after the loops of the sums."""
        rewriter, found = Rewriter(self.folder), []
        for loop in loops:
            assert loop.counter is not None, "one of a sum"
            assert isinstance(loop.counter.bound, int), "checked by analysis of axes"
            rewriter.memo[loop.counter] = const_int(loop.counter.bound - 1, loop.counter.dtype)
        assert isinstance(self.counter.bound, int), "checked by _found"
        wholes: set[IRValue] = set()
        for each, array in zip(self.sums, self.arrays, strict=True):
            places = [(self.counter.bound - 1 - steps) % self.turns for steps in range(self.turns)]
            parts = [IRRegLoad(each.load.dtype, array, const_int(n, self.counter.dtype)) for n in places]
            self.earlier |= {load: (parts, steps) for steps, load in enumerate(parts)}
            found += parts
            same = (each.store.value, *each.equal)
            rewriter.memo.update(dict.fromkeys(same, self._moving_sum(parts[0])))
            wholes.update(same)
        needed = values_below([value for s in self.using for value in operands(s)], wholes)
        return [*found, *(rewriter.statement(s) for s in (*(s for s in loads if s in needed), *self.using))]

    def _before(self, value: IRValue, steps: int) -> IRValue:
        if isinstance(value, IRRegLoad):
            parts, at = self.earlier[value]
            return parts[at + steps]
        assert isinstance(value, IROp), "a sum of partial sums"
        return self._sum(*(self._before(source, steps) for source in value.srcs)) if steps else value
