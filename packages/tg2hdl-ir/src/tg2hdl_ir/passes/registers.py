"""Register forwarding: in each leaf a register is read once, at the beginning, and written once, at the end.

In between its value is an expression, so that a step is a pure function from old to new register contents.
"""

from __future__ import annotations

from dataclasses import replace

from tg2hdl_ir.dtype import DType
from tg2hdl_ir.nodes import (
    IRItem,
    IRRegLoad,
    IRRegStore,
    IRStatement,
    IRValue,
    KernelIR,
    LoopIR,
    operands,
)
from tg2hdl_ir.passes.fold import Folder
from tg2hdl_ir.passes.instrument import ir_pass
from tg2hdl_ir.passes.rewrite import Rewriter

__all__ = ["forward_registers"]


@ir_pass(
    "forward-registers",
    "a step reads each register once first and writes it once last",
    term="scalar replacement",
)
def forward_registers(kernel: KernelIR) -> KernelIR:
    """Forward registers inside every leaf of a flattened kernel.

    An array of registers is forwarded where all its accesses in the leaf have one index; other arrays are kept.
    """
    folder = Folder()
    return replace(kernel, loop_tree=_level(kernel.loop_tree, folder))


def _level(loop: LoopIR, folder: Folder) -> LoopIR:
    if loop.loops:
        items: tuple[IRItem, ...] = tuple(_level(inner, folder) for inner in loop.loops)
    else:
        items = _Leaf(tuple(loop.statements()), folder).run()
    return LoopIR.from_items(items, counter=loop.counter, axis_type=loop.axis_type)


class _Leaf:
    def __init__(self, statements: tuple[IRStatement, ...], folder: Folder) -> None:
        self.statements = statements
        self.folder = folder
        self.rewriter = Rewriter(folder)
        self.current: dict[int, IRValue] = {}
        self.gates: dict[int, IRValue | None] = {}
        self.written: dict[int, bool] = {}
        self.initial: dict[int, IRRegLoad] = {}
        self.index: dict[int, IRValue | None] = {}

    def run(self) -> tuple[IRStatement, ...]:
        forwarded = self._forwardable()
        types = {s.reg: _type(s) for s in self.statements if isinstance(s, IRRegLoad | IRRegStore)}
        for reg in forwarded:
            self.initial[reg] = IRRegLoad(types[reg], reg, self.index[reg])
            self.current[reg] = self.initial[reg]
        body: list[IRStatement] = []
        for statement in self.statements:
            if isinstance(statement, IRRegLoad) and statement.reg in forwarded:
                self.rewriter.memo[statement] = self.current[statement.reg]
            elif isinstance(statement, IRRegStore) and statement.reg in forwarded:
                self._store(statement)
            else:
                body.append(self.rewriter.statement(statement))
        stores = [
            IRRegStore(self.current[reg], reg, self.index[reg], self.gates[reg])
            for reg in forwarded
            if reg in self.written
        ]
        return self._needed_loads([*body, *stores]) + tuple(body) + tuple(stores)

    def _store(self, statement: IRRegStore) -> None:
        reg = statement.reg
        value = self.rewriter.value(statement.value)
        gate = self.folder.all_of(self.rewriter.optional(statement.gate))
        if gate is None:
            self.current[reg], self.gates[reg] = value, None
        else:
            self.current[reg] = self.folder.op("where", value.dtype, gate, value, self.current[reg])
            before = self.gates.get(reg)
            if reg not in self.written:
                self.gates[reg] = gate
            elif before is not None:
                self.gates[reg] = self.folder.op("or", DType.BOOL, before, gate)
        self.written[reg] = True

    def _forwardable(self) -> list[int]:
        indices: dict[int, list[IRValue | None]] = {}
        for statement in self.statements:
            if isinstance(statement, IRRegLoad | IRRegStore):
                indices.setdefault(statement.reg, []).append(statement.index)
        result = []
        for reg, used in indices.items():
            if all(self._same(used[0], other) for other in used[1:]):
                self.index[reg] = used[0]
                result.append(reg)
        return result

    def _same(self, a: IRValue | None, b: IRValue | None) -> bool:
        if a is b or a is None or b is None:
            return a is b
        form = self.folder.affine.of(a)
        return form is not None and form == self.folder.affine.of(b)

    def _needed_loads(self, statements: list[IRStatement]) -> tuple[IRStatement, ...]:
        seen: set[IRValue] = set()
        stack = [v for s in statements for v in operands(s)]
        while stack:
            value = stack.pop()
            if value not in seen:
                seen.add(value)
                stack.extend(operands(value))
        return tuple(load for load in self.initial.values() if load in seen)


def _type(statement: IRRegLoad | IRRegStore) -> DType:
    return statement.dtype if isinstance(statement, IRRegLoad) else statement.value.dtype
