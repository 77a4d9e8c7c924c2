"""Proves how many previous steps a kernel forwards: their addresses and values are in registers.

The pass writes this number in `IRBufLoad.forwarded`. A schedule uses only as much of it as is proven here:
registers must hold addresses and values of the last steps, and the load must take the latest value with its address.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias, TypeGuard

from tg2hdl_ir.dtype import DType
from tg2hdl_ir.nodes import (
    IRBufLoad,
    IRBufStore,
    IRConst,
    IRCounter,
    IROp,
    IRRegLoad,
    IRRegStore,
    IRStatement,
    IRValue,
    KernelIR,
    LoopIR,
    is_const,
    operands,
)

__all__ = ["forwarded_steps"]

_MEMORY = 0
"""The element of the memory; that of `n` steps before is `n`."""

_Facts: TypeAlias = Mapping[int, bool]
"""Conditions that are known, by number."""


def forwarded_steps(kernel: KernelIR, load: IRBufLoad) -> int:
    """Number of previous steps whose elements a load certainly takes from registers, at most `load.forwarded`.

    Parameters
    ----------
    kernel : KernelIR
        Flattened, registers forwarded.
    load : IRBufLoad
        One of its loads.
    """
    if not load.forwarded:
        return 0
    path = tuple(kernel.loop_tree.walk())
    if any(len(loop.loops) > 1 or loop.axis_type == "rows" for loop in path):
        return 0
    statements = list(path[-1].statements())
    match [s for s in statements if isinstance(s, IRBufLoad | IRBufStore) and s.buf_idx == load.buf_idx]:
        case [found, IRBufStore() as store] if found is load and store.addr is load.addr:
            depth = kernel.buffer(load.buf_idx).depth
            return min(load.forwarded, _Proof(path, statements, load, store, depth).steps())
    return 0


class _Proof:
    """Values have numbers, equal ones the same: passes make equal ops anew."""

    def __init__(
        self,
        path: tuple[LoopIR, ...],
        statements: list[IRStatement],
        load: IRBufLoad,
        store: IRBufStore,
        depth: int,
    ) -> None:
        self.load, self.store, self.depth = load, store, depth
        self.counters = {loop.counter for loop in path if loop.counter is not None and loop.bound != 1}
        self.numbers: dict[IRValue, int] = {}
        self.keys: dict[object, int] = {}
        self.ops: dict[int, IROp] = {}
        self.used = {self.number(value) for statement in statements for value in operands(statement)}
        self.users: dict[int, set[int]] = {}
        for number, op in self.ops.items():
            for source in op.srcs:
                self.users.setdefault(self.number(source), set()).add(number)
        self.before, self.after = self._registers(statements)

    def steps(self) -> int:
        """Steps whose elements are chosen."""
        values = self._levels({self.number(self.store.value)}, self.before)
        places, hits = self._places()
        count = min(len(values), len(places))
        taken = {self.before[r]: n for n, level in enumerate(values[:count], 1) for r in level}
        equal = [{hits[r] for r in level} for level in places[:count]]
        gates: set[int] = set()
        if self.load.gate is not None:
            gates.update(self._terms(self.number(self.load.gate)))
        cases: list[tuple[dict[int, bool], int]] = []
        facts = dict.fromkeys(gates, True)
        for step, hit in enumerate(equal, 1):
            cases.append((facts | dict.fromkeys(hit, True), step))
            facts |= dict.fromkeys(hit, False)
        cases.append((facts, _MEMORY))
        cases += [({gate: False}, _MEMORY) for gate in gates]
        for chosen in self._choices():
            if all(self._taken(chosen, taken, known) == expected for known, expected in cases):
                return count
        return 0

    # Numbers

    def number(self, value: IRValue) -> int:
        """The same for equal values."""
        stack = [value]
        while stack:
            node = stack[-1]
            sources = node.srcs if isinstance(node, IROp) else ()
            if pending := [s for s in sources if s not in self.numbers]:
                stack.extend(pending)
                continue
            stack.pop()
            if node not in self.numbers:
                number = self.numbers[node] = self.keys.setdefault(self._key(node), len(self.keys))
                if isinstance(node, IROp):
                    self.ops.setdefault(number, node)
        return self.numbers[value]

    def _key(self, node: IRValue) -> object:
        match node:
            case IRConst() if not node.dtype.is_float:
                return "const", int(node.value), node.dtype
            case IROp():
                return (node.op, node.dtype, *(self.numbers[s] for s in node.srcs))
        return node

    def _terms(self, number: int) -> Iterator[int]:
        """Terms of a conjunction."""
        op = self.ops.get(number)
        if op is None or op.op != "and":
            yield number
            return
        for source in op.srcs:
            yield from self._terms(self.number(source))

    # Registers

    def _registers(self, statements: list[IRStatement]) -> tuple[dict[int, int], dict[int, int]]:
        """Contents of single registers at the beginning of a step and at its end."""
        reads: dict[int, list[int]] = {}
        writes: dict[int, list[IRRegStore]] = {}
        for statement in statements:
            if isinstance(statement, IRRegLoad):
                late = statement.reg in writes or statement.index is not None
                reads.setdefault(statement.reg, []).extend([self.number(statement)] * (1 + late))
            elif isinstance(statement, IRRegStore):
                writes.setdefault(statement.reg, []).append(statement)
        before: dict[int, int] = {}
        after: dict[int, int] = {}
        for register, stores in writes.items():
            (store, *others), loads = stores, reads.get(register, [])
            if len(loads) == 1 and not others and store.gate is None and store.index is None:
                before[register], after[register] = loads[0], self.number(store.value)
        return before, after

    def _levels(self, newest: set[int], contents: Mapping[int, int]) -> list[list[int]]:
        """Registers of these contents that hold something of the step before, of the one before it, and so on."""
        found: list[list[int]] = []
        while len(found) < len(contents):
            level = [register for register in contents if self.after[register] in newest]
            if not level:
                break
            found.append(level)
            newest = {contents[register] for register in level}
        return found

    def _places(self) -> tuple[list[list[int]], dict[int, int]]:
        """Registers that hold the places of the steps before, and comparisons with the place of this step."""
        current: dict[int, int] = {}
        hits: dict[int, int] = {}
        newest: set[int] = set()
        by_number = {number: register for register, number in self.before.items()}
        for number, op in [*self.ops.items()]:
            register = by_number.get(self.number(op.srcs[-1])) if op.op == "where" else None
            if register is None or op.dtype.is_float or not self._is_none(op.srcs[1]):
                continue
            place = self._place(op.dtype)
            if place is None or op.dtype.max_value < self.depth - 1 or not self._is_first(op.srcs[0]):
                continue
            hit = self._find("eq", None, place, number) or self._find("eq", None, number, place)
            written: int | None = place
            if self.store.gate is not None:
                none = self.number(op.srcs[1])
                written = self._find("where", op.dtype, self.number(self.store.gate), place, none)
            if hit is not None and written is not None:
                current[register], hits[register] = number, hit
                newest.add(written)
        return self._levels(newest, current), hits

    def _place(self, dtype: DType) -> int | None:
        """Number of the address as a value of this type, if the kernel has it."""
        address = self.load.addr
        while address.dtype != dtype:
            found = self._find("cast", dtype, self.number(address))
            if found is not None or not _widens(address):
                return found
            (address,) = address.srcs
        return self.number(address)

    def _find(self, op: str, dtype: object, *sources: int) -> int | None:
        """Number of an op, if the kernel has it; without a type that of a condition."""
        return next(
            (
                number
                for number in self.users.get(sources[0], ())
                if self.ops[number].op == op
                and (self.ops[number].dtype.is_bool if dtype is None else self.ops[number].dtype == dtype)
                and tuple(self.number(s) for s in self.ops[number].srcs) == sources
            ),
            None,
        )

    def _is_none(self, value: IRValue) -> bool:
        """Whether it is the place of no element."""
        return isinstance(value, IRConst) and not value.dtype.is_float and int(value.value) == -1

    def _is_first(self, condition: IRValue) -> bool:
        """Whether a condition holds in the first step, and in no other one."""
        counters = set()
        for number in self._terms(self.number(condition)):
            op = self.ops.get(number)
            if op is None or op.op != "eq" or not is_const(op.srcs[1], 0):
                return False
            if not isinstance(op.srcs[0], IRCounter):
                return False
            counters.add(op.srcs[0])
        return counters == self.counters

    # Choices

    def _choices(self) -> Iterator[int]:
        """Values that replace the element of the memory everywhere: nothing else reads those before them."""
        number = self.number(self.load)
        while number not in self.used and len(users := self.users.get(number, set())) == 1:
            (number,) = users
            if self.ops[number].op != "where":
                return
            yield number

    def _taken(self, number: int, taken: Mapping[int, int], facts: _Facts) -> int | None:
        """The step whose element a value is, or the memory; None where that is not known."""
        if number in taken:
            return taken[number]
        if number == self.number(self.load):
            return _MEMORY
        op = self.ops.get(number)
        if op is None or op.op != "where":
            return None
        condition, *values = (self.number(source) for source in op.srcs)
        holds = self._holds(condition, facts)
        if holds is not None:
            return self._taken(values[not holds], taken, facts)
        one, other = (self._taken(value, taken, facts) for value in values)
        return one if one == other else None

    def _holds(self, number: int, facts: _Facts) -> bool | None:
        """Whether a condition holds; None where that is not known."""
        op = self.ops.get(number)
        if number in facts or op is None or op.op not in ("and", "or"):
            return facts.get(number)
        found = {self._holds(self.number(source), facts) for source in op.srcs}
        decisive = op.op == "or"
        if decisive in found:
            return decisive
        return None if None in found else not decisive


def _widens(value: IRValue) -> TypeGuard[IROp]:
    """Whether a value is an integer in a type that has all values of its own one."""
    if not isinstance(value, IROp) or value.op != "cast" or not value.srcs[0].dtype.is_int:
        return False
    narrow, wide = value.srcs[0].dtype, value.dtype
    return wide.is_int and wide.min_value <= narrow.min_value and narrow.max_value <= wide.max_value
