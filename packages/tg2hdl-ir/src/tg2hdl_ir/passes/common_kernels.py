"""Equal kernels of a program become one kernel that is called several times.

Kernels are equal when they differ at most in their names, their buffers, and constants in the addresses of their loads
and stores.  Such a constant becomes a variable whose value each call knows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from tg2hdl_ir.analysis.affine import AffineAnalysis
from tg2hdl_ir.nodes import (
    IRBufLoad,
    IRBufStore,
    IRConst,
    IRCounter,
    IRItem,
    IROp,
    IRRegLoad,
    IRStatement,
    IRValue,
    IRVariable,
    KernelIR,
    LoopIR,
)
from tg2hdl_ir.passes.instrument import ir_pass
from tg2hdl_ir.passes.rewrite import Rewriter
from tg2hdl_ir.program import KernelCall, ProgramIR
from tg2hdl_ir.tree import const_int, operands
from tg2hdl_ir.verifier import verify

__all__ = ["bind_values", "with_bound_values", "with_common_kernels"]


@ir_pass("common-kernels", "equal kernels become one kernel with variables", term="procedure abstraction")
def with_common_kernels(program: ProgramIR) -> ProgramIR:
    """The same program, whose equal kernels are one object.

    Parameters
    ----------
    program : ProgramIR
        Canonical kernels.
    """
    forms = _Forms()
    classes: dict[tuple[int, ...], list[int]] = {}
    found: dict[KernelIR, tuple[tuple[int, ...], tuple[int, ...]]] = {}
    for number, call in enumerate(program.calls):
        if call.kernel not in found:
            found[call.kernel] = forms.of(call.kernel)
        classes.setdefault(found[call.kernel][0], []).append(number)
    calls = list(program.calls)
    for members in classes.values():
        constants = [found[calls[n].kernel][1] for n in members]
        kernel, values = _generalized(calls[members[0]].kernel, constants)
        for number, known in zip(members, values, strict=True):
            calls[number] = replace(calls[number], kernel=kernel, values=(*calls[number].values, *known))
    return replace(program, calls=tuple(calls))


def bind_values(call: KernelCall) -> KernelCall:
    """The call of a kernel in which the variables whose value is known are constants."""
    if not call.values:
        return call
    known = dict(call.values)
    rewriter = Rewriter()
    for variable in call.kernel.variables:
        if variable.name in known:
            rewriter.memo[variable] = IRConst(known[variable.name], variable.dtype)
    kernel = replace(
        call.kernel, loop_tree=rewriter.loop(call.kernel.loop_tree), variables=call.host_variables
    )
    return replace(call, kernel=kernel, values=())


@ir_pass("bind-values", "variables whose value a call knows become constants", term="constant propagation")
def with_bound_values(program: ProgramIR) -> ProgramIR:
    """The program in which all calls of kernels with such variables have kernels of their own."""
    return replace(program, calls=tuple(map(bind_values, program.calls)))


@dataclass
class _Forms:
    """Numbers of equal values, loads and statements, in all kernels that it has seen."""

    numbers: dict[tuple[Any, ...], int] = field(default_factory=dict)

    def of(self, kernel: KernelIR) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The common form of equal kernels, and the constant of the address of each access."""
        form = _KernelForm(self, kernel)
        head: list[tuple[Any, ...]] = [
            ("buffer", b.idx, b.depth, b.dtype, b.is_output)
            for b in sorted(kernel.buffers, key=lambda b: b.idx)
        ]
        head += [("register", r.idx, r.dtype, r.size, r.origin) for r in kernel.registers]
        slots = ("slots", *(b.idx for b in kernel.buffers))
        common = [self.number(part) for part in (slots, *head)]
        common += form.items(kernel.loop_tree)
        return tuple(common), tuple(form.constants)

    def number(self, form: tuple[Any, ...]) -> int:
        """The number of a form."""
        return self.numbers.setdefault(form, len(self.numbers))


class _KernelForm:
    """The form of one kernel: a load is known by its place."""

    def __init__(self, forms: _Forms, kernel: KernelIR) -> None:
        self.number = forms.number
        self.affine = AffineAnalysis()
        self.memo: dict[IRValue, int] = {}
        self.constants: list[int] = []
        self.loads = 0

    def items(self, loop: LoopIR) -> Iterator[int]:
        """Numbers of all items of a loop."""
        for item in loop.items:
            yield self.number(self._item(item))
            if isinstance(item, LoopIR):
                yield from self.items(item)
                yield self.number(("end",))

    def _item(self, item: IRItem) -> tuple[Any, ...]:
        if isinstance(item, LoopIR):
            bound = item.bound if isinstance(item.bound, int) else ("value", self.value(item.bound))
            counter = item.counter
            assert counter is not None, "only the root has no counter"
            return "loop", item.axis_type, bound, counter.axis, counter.dtype
        return self._statement(item)

    def _statement(self, statement: IRStatement) -> tuple[Any, ...]:
        match statement:
            case IRBufLoad():
                # The operands come before the load itself, whose place is its number.
                form = (
                    "load",
                    statement.buf_idx,
                    statement.dtype,
                    self._address(statement.addr),
                    self._optional(statement.gate),
                    self._optional(statement.alt),
                )
                self.memo[statement] = self.number(("loaded", self.loads))
                self.loads += 1
                return form
            case IRRegLoad():
                got = ("get", statement.reg, statement.dtype, self._optional(statement.index))
                self.memo[statement] = self.number(("loaded", self.loads))
                self.loads += 1
                return got
            case IRBufStore():
                return (
                    "store",
                    statement.buf_idx,
                    statement.dtype,
                    self._address(statement.addr),
                    self.value(statement.value),
                    self._optional(statement.gate),
                )
        return (
            "set",
            statement.reg,
            self.value(statement.value),
            self._optional(statement.index),
            self._optional(statement.gate),
        )

    def _address(self, address: IRValue) -> tuple[Any, ...] | int:
        form = self.affine.of(address)
        if form is None:
            self.constants.append(0)
            return self.value(address)
        self.constants.append(form.const)
        return ("affine", address.dtype, *((self.value(symbol), factor) for symbol, factor in form.terms))

    def _optional(self, value: IRValue | None) -> int | None:
        return None if value is None else self.value(value)

    def value(self, value: IRValue) -> int:
        """Number of a value."""
        stack = [value]
        while stack:
            node = stack[-1]
            pending = [] if node in self.memo else [n for n in operands(node) if n not in self.memo]
            if pending:
                stack += pending
                continue
            if node not in self.memo:
                self.memo[node] = self.number(self._form(node))
            stack.pop()
        return self.memo[value]

    def _form(self, node: IRValue) -> tuple[Any, ...]:
        match node:
            case IRConst():
                # By its text: a NaN does not equal itself, and -0.0 equals 0.0.
                return "const", node.dtype, repr(node.value)
            case IRCounter():
                return "counter", node.axis, node.dtype
            case IRVariable():
                return "variable", node.name, node.low, node.high, node.dtype
            case IROp():
                return "op", node.op, node.dtype, *(self.memo[n] for n in node.srcs)
        raise AssertionError("a load stands before its users")


Values = tuple[tuple[str, int], ...]


def _generalized(kernel: KernelIR, constants: list[tuple[int, ...]]) -> tuple[KernelIR, list[Values]]:
    """The kernel for the addresses of all calls, and each call's values; `constants` are those of the addresses."""
    moves = [[c - first for c, first in zip(call, constants[0], strict=True)] for call in constants]
    patterns = dict.fromkeys(pattern for pattern in zip(*moves, strict=True) if any(pattern))
    if not patterns:
        return kernel, [() for _ in constants]
    taken = {v.name for v in kernel.variables}
    variables: dict[tuple[int, ...], IRVariable] = {}
    values: list[list[tuple[str, int]]] = [[] for _ in constants]
    offsets: dict[tuple[int, ...], tuple[int, int]] = {}
    for pattern in patterns:
        step, low = math.gcd(*pattern), min(pattern)
        name = next(f"base{n}" for n in range(len(taken) + 1) if f"base{n}" not in taken)
        taken.add(name)
        variables[pattern] = IRVariable(name, 0, (max(pattern) - low) // step)
        offsets[pattern] = low, step
        for known, move in zip(values, pattern, strict=True):
            known.append((name, (move - low) // step))
    rewriter = _Moved()
    accesses = (s for s in kernel.loop_tree.statements() if isinstance(s, IRBufLoad | IRBufStore))
    for access, pattern in zip(accesses, zip(*moves, strict=True), strict=True):
        if any(pattern):
            rewriter.moves[access] = (*offsets[pattern], variables[pattern])
    moved = replace(
        kernel,
        loop_tree=rewriter.loop(kernel.loop_tree),
        variables=(*kernel.variables, *variables.values()),
    )
    return verify(moved), [tuple(known) for known in values]


class _Moved(Rewriter):
    """Adds ``low + step * variable`` to the addresses of some accesses."""

    def __init__(self) -> None:
        super().__init__()
        self.moves: dict[IRBufLoad | IRBufStore, tuple[int, int, IRVariable]] = {}

    def _rebuild(self, node: IRValue) -> IRValue:
        built = super()._rebuild(node)
        if isinstance(node, IRBufLoad) and node in self.moves:
            assert isinstance(built, IRBufLoad), "a load stays a load"
            return IRBufLoad(built.buf_idx, self._moved(node, built.addr), built.dtype, built.gate, built.alt)
        return built

    def statement(self, statement: IRStatement) -> IRStatement:
        """Rebuilt form of a statement."""
        built = super().statement(statement)
        if isinstance(statement, IRBufStore) and statement in self.moves:
            assert isinstance(built, IRBufStore), "a store stays a store"
            return replace(built, addr=self._moved(statement, built.addr))
        return built

    def _moved(self, access: IRBufLoad | IRBufStore, address: IRValue) -> IRValue:
        low, step, variable = self.moves[access]
        dtype = address.dtype
        scaled = self.folder.op("mul", dtype, self._as(variable, dtype), const_int(step, dtype))
        moved = self.folder.op("add", dtype, address, scaled)
        return self.folder.op("add", dtype, moved, const_int(low, dtype)) if low else moved

    def _as(self, variable: IRVariable, dtype: Any) -> IRValue:
        return variable if variable.dtype == dtype else self.folder.op("cast", dtype, variable)
