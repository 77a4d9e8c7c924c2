"""Dependences between the iterations of a loop: through registers and through buffers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tg2hdl_ir.analysis.affine import Affine, AffineAnalysis
from tg2hdl_ir.analysis.guards import cleared_registers, first_step, masked_loads
from tg2hdl_ir.nodes import (
    IRBufLoad,
    IRBufStore,
    IRConst,
    IRCounter,
    IRItem,
    IRRegLoad,
    IRRegStore,
    IRStatement,
    IRValue,
    KernelIR,
    LoopIR,
)

__all__ = ["Access", "Dependence", "RegisterUse", "element"]

Element: TypeAlias = tuple[int, int | None]
"""A register and the number of its element; None for an index that is not constant."""
Guarded: TypeAlias = tuple[Element, frozenset[int]]


def element(statement: IRRegLoad | IRRegStore) -> Element:
    """Element that a register access touches."""
    index = statement.index
    if index is None:
        return statement.reg, 0
    return statement.reg, int(index.value) if isinstance(index, IRConst) else None


@dataclass
class RegisterUse:
    """Register elements of one execution of some items.

    Parameters
    ----------
    exposed : set of elements
        Read before they are surely written.
    killed : set of elements
        Surely written.
    written : set of elements
        Perhaps written.
    masked : set of (element, axes)
        Read before they are surely written, but not in the first step of these axes.
    started : set of (element, axes)
        Surely written in the first step of these axes.
    """

    exposed: set[Element] = field(default_factory=set)
    killed: set[Element] = field(default_factory=set)
    written: set[Element] = field(default_factory=set)
    masked: set[Guarded] = field(default_factory=set)
    started: set[Guarded] = field(default_factory=set)

    @property
    def fresh(self) -> set[Element]:
        """Elements that are surely written before they are read."""
        return self.killed - self.exposed - {e for e, _ in self.masked}

    @property
    def carried(self) -> set[Element]:
        """Elements whose value an iteration may take from the previous one, or pass to the next."""
        read = self.exposed | {e for e, _ in self.masked}
        return {e for e in self.written if e in read or e not in self.killed}


@dataclass(frozen=True)
class Access:
    """A load or store and the loops around it, outermost first."""

    statement: IRStatement
    loops: tuple[LoopIR, ...]


class Dependence:
    """Which loops of a kernel may run all iterations at once.

    Parameters
    ----------
    bounds : mapping of int to int
        Trip count of each axis.
    """

    def __init__(self, kernel: KernelIR, bounds: Mapping[int, int]) -> None:
        self.bounds = bounds
        self.sizes = {r.idx: r.size for r in kernel.registers}
        self.accesses: dict[LoopIR, tuple[Access, ...]] = {}
        self.forms = AffineAnalysis()
        self._masks = masked_loads(kernel)
        self._cleared = cleared_registers(kernel, bounds)
        self._use: dict[LoopIR, RegisterUse] = {}
        self._parallel: dict[LoopIR, bool] = {}
        self.shared: dict[LoopIR, frozenset[int]] = {}
        self._visit(kernel.loop_tree, ())

    def bound(self, loop: LoopIR) -> int:
        """Trip count of a loop."""
        return 1 if loop.counter is None else self.bounds[loop.counter.axis]

    def use(self, loop: LoopIR) -> RegisterUse:
        """Register elements of one iteration."""
        return self._use[loop]

    def parallel(self, loop: LoopIR) -> bool:
        """Whether all iterations may run at once."""
        return self._parallel[loop]

    def _visit(self, loop: LoopIR, path: tuple[LoopIR, ...]) -> tuple[Access, ...]:
        path = (*path, loop)
        found: list[Access] = []
        for item in loop.items:
            found.extend(self._visit(item, path) if isinstance(item, LoopIR) else (Access(item, path),))
        self.accesses[loop] = tuple(found)
        self._use[loop] = self._register_use(loop.items)
        shared = self._registers_allow(loop)
        self.shared[loop] = shared or frozenset()
        self._parallel[loop] = shared is not None and self.buffers_allow(loop)
        return self.accesses[loop]

    # Registers

    def _register_use(self, items: Iterable[IRItem]) -> RegisterUse:
        use = RegisterUse()
        for item in items:
            if isinstance(item, IRRegLoad):
                self._read(use, element(item), self._masks.get(item, frozenset()))
            elif isinstance(item, IRRegStore):
                self._write(use, item)
            elif isinstance(item, LoopIR) and self.bound(item) > 0:
                self._enclose(use, item)
        return use

    def _read(self, use: RegisterUse, one: Element, mask: frozenset[int]) -> None:
        if self._surely_written(use, one):
            return
        guards = [mask] if mask else [axes for e, axes in use.started if e == one]
        if guards:
            use.masked.add((one, guards[0]))
        else:
            use.exposed.add(one)

    def _write(self, use: RegisterUse, store: IRRegStore) -> None:
        one = element(store)
        use.written.add(one)
        if one[1] is None:
            return
        axes = first_step(store.gate)
        if store.gate is None:
            use.killed.add(one)
        elif axes:
            use.started.add((one, axes))

    def _enclose(self, use: RegisterUse, loop: LoopIR) -> None:
        """Add the effects of all iterations of an inner loop."""
        assert loop.counter is not None, "the root is in no loop"
        inner, axis = self._use[loop], loop.counter.axis
        # Such a register is zero before all iterations and after them.
        cleared = {(reg, 0) for reg in self._cleared.get(axis, ())}
        for one in inner.exposed - cleared:
            self._read(use, one, frozenset())
        for one, axes in inner.masked:
            # Later steps see the elements that an earlier step has certainly written.
            kept = one in inner.killed or any(e == one and a <= axes for e, a in inner.started)
            rest = axes - {axis}
            if not kept:
                self._read(use, one, frozenset())
            elif rest:
                self._read(use, one, rest)
        for one, axes in inner.started:
            rest = axes - {axis}
            if rest:
                use.started.add((one, rest))
            else:
                use.killed.add(one)
        use.written |= inner.written
        use.killed |= inner.killed | cleared | self._filled(loop)

    def _surely_written(self, use: RegisterUse, one: Element) -> bool:
        needed = {one} if one[1] is not None else {(one[0], n) for n in range(self.sizes[one[0]])}
        return needed <= use.killed

    def _filled(self, loop: LoopIR) -> set[Element]:
        """Elements of arrays that a loop writes one after the other with its own counter as the index."""
        filled: set[Element] = set()
        for item in loop.items:
            if isinstance(item, IRRegStore) and item.gate is None and item.index is loop.counter:
                filled |= {(item.reg, n) for n in range(self.sizes[item.reg])}
        return {e for e in filled if e[1] is not None and e[1] < self.bound(loop)}

    def _registers_allow(self, loop: LoopIR) -> frozenset[int] | None:
        """Registers with separate elements for each iteration; None when a value is carried."""
        if loop.counter is None or self.bound(loop) <= 1:
            return frozenset()
        use = self._use[loop]
        shared: set[int] = set()
        for reg in {e[0] for e in use.written}:
            private = all(self._surely_written(use, e) for e in use.written if e[0] == reg)
            read = use.exposed | {e for e, _ in use.masked}
            if private and not any(e[0] == reg for e in read):
                continue
            accesses = [
                (a, a.statement.index if a.statement.index is not None else IRConst(0, loop.counter.dtype))
                for a in self.accesses[loop]
                if isinstance(a.statement, IRRegLoad | IRRegStore) and a.statement.reg == reg
            ]
            if not self._disjoint(loop, accesses):
                return None
            shared.add(reg)
        return frozenset(shared)

    # Buffers

    def buffers_allow(self, loop: LoopIR, nest: tuple[LoopIR, ...] = ()) -> bool:
        """Whether no iteration reads or overwrites results of another one, or only in program order.

        Parameters
        ----------
        nest : tuple of LoopIR
            Inner loops whose iterations are kept in order.
        """
        if loop.counter is None or self.bound(loop) <= 1:
            return True
        for accesses in self._written(loop):
            if all(self._straight(loop, a, nest) for a in accesses) and self._apart(loop, accesses):
                continue
            if not self._disjoint(loop, [(a, _address(a)) for a in accesses]):
                return False
        return True

    def separate(self, loop: LoopIR) -> bool:
        """Whether different iterations surely access different elements of each buffer that the loop writes."""
        written = self._written(loop)
        return all(self._disjoint(loop, [(a, _address(a)) for a in accesses]) for accesses in written)

    def _written(self, loop: LoopIR) -> list[list[Access]]:
        """Accesses to each buffer that a loop writes."""
        touching = [a for a in self.accesses[loop] if isinstance(a.statement, IRBufLoad | IRBufStore)]
        written = dict.fromkeys(_buffer(a) for a in touching if isinstance(a.statement, IRBufStore))
        return [[a for a in touching if _buffer(a) == buffer] for buffer in written]

    def _straight(self, loop: LoopIR, access: Access, nest: tuple[LoopIR, ...]) -> bool:
        inner = access.loops[access.loops.index(loop) + 1 :]
        return all(one in nest or self._parallel.get(one, False) for one in inner)

    def _apart(self, loop: LoopIR, accesses: list[Access]) -> bool:
        """Whether accesses are stores that surely never write to each other's places during a run of `loop`."""
        if not all(isinstance(a.statement, IRBufStore) for a in accesses):
            return False
        if len(accesses) == 1:
            return True
        split = self._splits(loop, [(a, _address(a)) for a in accesses])
        consts = {s.const for s in split}
        if len(consts) < len(accesses) or len({(s.own, s.outer, s.inner) for s in split}) != 1:
            return False
        steps = _steps((split[0].own, self.bound(loop)), split[0].inner)
        distances = {abs(a - b) for a in consts for b in consts if a != b}
        return not any(_meet(distance, steps, anywhere=True) for distance in distances)

    def _splits(self, loop: LoopIR, accesses: list[tuple[Access, IRValue]]) -> list[_Split]:
        """Affine addresses seen from a loop; fewer than accesses where some are not affine."""
        forms = [(self.forms.of(address), access) for access, address in accesses]
        return [self._split(loop, form, access) for form, access in forms if form is not None]

    def _disjoint(self, loop: LoopIR, accesses: list[tuple[Access, IRValue]]) -> bool:
        """Whether different iterations of `loop` surely touch different places."""
        split = self._splits(loop, accesses)
        if len(split) < len(accesses) or len({(s.own, s.outer) for s in split}) != 1 or split[0].own == 0:
            return False
        own = abs(split[0].own)
        low = min(s.const + sum(min(0, c * (n - 1)) for c, n in s.inner) for s in split)
        high = max(s.const + sum(max(0, c * (n - 1)) for c, n in s.inner) for s in split)
        if high - low < own:
            return True
        if len({s.inner for s in split}) != 1:
            return False
        consts = {s.const for s in split}
        steps = _steps((own, self.bound(loop)), split[0].inner)
        return not any(_meet(distance, steps) for distance in {abs(a - b) for a in consts for b in consts})

    def _split(self, loop: LoopIR, form: Affine, access: Access) -> _Split:
        around = access.loops[access.loops.index(loop) + 1 :]
        inner_axes = {one.counter.axis for one in around if one.counter is not None}
        own, inner, outer = 0, [], []
        for symbol, coefficient in form.terms:
            if symbol is loop.counter:
                own = coefficient
            elif isinstance(symbol, IRCounter) and symbol.axis in inner_axes:
                inner.append((coefficient, self.bounds[symbol.axis]))
            else:
                outer.append((id(symbol), coefficient))
        return _Split(own, form.const, tuple(sorted(inner)), tuple(sorted(outer)))


Step: TypeAlias = tuple[int, int, bool]
"""Of a loop: the positive coefficient in an address, the trip count, and whether it is the one that is asked about."""


def _steps(own: tuple[int, int], inner: Sequence[tuple[int, int]]) -> list[Step]:
    """Steps of a loop and of the loops in it, the largest coefficient first."""
    steps = [(*own, True), *((c, n, False) for c, n in inner)]
    return sorted(((abs(c), n, asked) for c, n, asked in steps if c), reverse=True)


def _meet(distance: int, steps: Sequence[Step], *, anywhere: bool = False) -> bool:
    """Whether two iterations may access one place, when one starts at a distance from the other.

    Parameters
    ----------
    anywhere : bool
        Whether the iterations of the loop that is asked about may be the same.
    """
    reach = [0]
    for coefficient, count, _ in reversed(steps):
        reach.append(reach[-1] + coefficient * (count - 1))
    reach.reverse()
    pending = [(0, distance, anywhere)]
    for _ in range(_MOST_STEPS):
        if not pending:
            return False
        level, left, differs = pending.pop()
        if level == len(steps):
            if differs and left == 0:
                return True
            continue
        coefficient, count, own = steps[level]
        # The inner loops bridge the rest: |left - coefficient * turns| <= reach.
        first = max(-((reach[level + 1] - left) // coefficient), 1 - count)
        last = min((left + reach[level + 1]) // coefficient, count - 1)
        pending += [
            (level + 1, left - coefficient * n, differs or (own and n != 0)) for n in range(first, last + 1)
        ]
    return True


_MOST_STEPS = 1000
"""Steps of the search after which two iterations count as ones that may meet."""


@dataclass(frozen=True)
class _Split:
    """An affine address seen from one loop: its own coefficient, inner ``(coefficient, count)``, outer terms."""

    own: int
    const: int
    inner: tuple[tuple[int, int], ...]
    outer: tuple[tuple[int, int], ...]


def _buffer(access: Access) -> int:
    assert isinstance(access.statement, IRBufLoad | IRBufStore), "only buffer accesses have a buffer"
    return access.statement.buf_idx


def _address(access: Access) -> IRValue:
    assert isinstance(access.statement, IRBufLoad | IRBufStore), "only buffer accesses have an address"
    return access.statement.addr
