"""Rebuilding a kernel with some values replaced."""

from __future__ import annotations

from collections.abc import Callable

from tg2hdl_ir.nodes import (
    IRBufLoad,
    IRBufStore,
    IRCounter,
    IRItem,
    IROp,
    IRRegLoad,
    IRRegStore,
    IRStatement,
    IRValue,
    LoopIR,
    operands,
)
from tg2hdl_ir.passes.fold import Folder

__all__ = ["Rewriter"]


class Rewriter:
    """Rebuilds values bottom up, folding as it goes; every node is rebuilt once.

    Parameters
    ----------
    folder : Folder
        Makes the new ops.
    replace : callable, optional
        ``(rebuilt op) -> value or None``: a rewrite of ops after their operands were rebuilt.
    register : callable, optional
        ``(register number) -> register number``.
    change : callable, optional
        ``(statement, rebuilt statement) -> statement``: a rewrite of whole statements.
    """

    def __init__(
        self,
        folder: Folder | None = None,
        replace: Callable[[IROp], IRValue | None] | None = None,
        register: Callable[[int], int] | None = None,
        change: Callable[[IRStatement, IRStatement], IRStatement] | None = None,
    ) -> None:
        self.folder = folder or Folder()
        self.memo: dict[IRValue, IRValue] = {}
        self._replace = replace
        self._register = register or (lambda reg: reg)
        self._change = change

    def value(self, value: IRValue) -> IRValue:
        """Rebuilt form of a value."""
        stack = [value]
        while stack:
            node = stack[-1]
            if node in self.memo:
                stack.pop()
                continue
            pending = [s for s in operands(node) if s not in self.memo]
            if pending:
                stack.extend(pending)
                continue
            self.memo[node] = self._rebuild(node)
            stack.pop()
        return self.memo[value]

    def optional(self, value: IRValue | None) -> IRValue | None:
        """Rebuilt form of an optional value."""
        return None if value is None else self.value(value)

    def _rebuild(self, node: IRValue) -> IRValue:
        match node:
            case IROp():
                srcs = tuple(self.memo[s] for s in node.srcs)
                built = self.folder.op(node.op, node.dtype, *srcs)
                if self._replace is not None and isinstance(built, IROp):
                    built = self._replace(built) or built
                return built
            case IRBufLoad():
                gate = self.folder.all_of(self.optional(node.gate))
                alt = self.optional(node.alt) if gate is not None else None
                return IRBufLoad(node.buf_idx, self.memo[node.addr], node.dtype, gate, alt, node.forwarded)
            case IRRegLoad():
                return IRRegLoad(node.dtype, self._register(node.reg), self.optional(node.index))
        return node

    def statement(self, statement: IRStatement) -> IRStatement:
        """Rebuilt form of a statement."""
        match statement:
            case IRBufStore():
                gate = self.folder.all_of(self.optional(statement.gate))
                return IRBufStore(
                    statement.buf_idx,
                    self.value(statement.addr),
                    self.value(statement.value),
                    statement.dtype,
                    gate,
                )
            case IRRegStore():
                gate = self.folder.all_of(self.optional(statement.gate))
                return IRRegStore(
                    self.value(statement.value),
                    self._register(statement.reg),
                    self.optional(statement.index),
                    gate,
                )
            case IRBufLoad() | IRRegLoad():
                rebuilt = self.value(statement)
                assert isinstance(rebuilt, IRBufLoad | IRRegLoad), "a load must stay a load"
                return rebuilt

    def changed(self, statement: IRStatement) -> IRStatement:
        """Rebuilt form of a statement after `change`; readers of a load get its changed form."""
        rebuilt = self.statement(statement)
        if self._change is None:
            return rebuilt
        changed = self._change(statement, rebuilt)
        if isinstance(statement, IRBufLoad | IRRegLoad) and self.memo[statement] is rebuilt:
            assert isinstance(changed, IRBufLoad | IRRegLoad), "a load must stay a load"
            self.memo[statement] = changed
        return changed

    def loop(self, loop: LoopIR) -> LoopIR:
        """Rebuilt form of a loop and all that is in it; its counter is kept unless it was replaced before."""
        counter = loop.counter
        if counter is not None:
            new = self.value(counter)
            counter = new if isinstance(new, IRCounter) else counter
        items: list[IRItem] = [
            self.loop(item) if isinstance(item, LoopIR) else self.changed(item) for item in loop.items
        ]
        return LoopIR.from_items(tuple(items), counter=counter, axis_type=loop.axis_type)
