"""A plain interpreter that executes a kernel one scalar at a time: slow, and easy to see right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

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
    IRVariable,
    KernelIR,
    LoopIR,
)
from tg2hdl_ir.plugins.descriptors import resolve
from tg2hdl_ir.plugins.registry import registry

__all__ = ["interpret"]

Array = npt.NDArray[Any]


def interpret(
    kernel: KernelIR, buffers: Mapping[int, Array], variables: Mapping[str, int] | None = None
) -> dict[int, Array]:
    """Execute a kernel; same arguments and result as `tg2hdl_ir.golden.evaluate`.

    Parameters
    ----------
    kernel : KernelIR
    buffers : mapping of int to ndarray
        Contents by slot, in the numpy types of the buffers; not changed.
    variables : mapping of str to int, optional
        Run-time variables by name.
    """
    machine = _Machine(kernel, buffers, variables or {})
    with np.errstate(all="ignore"):
        machine.loop(kernel.loop_tree)
    written = {s.buf_idx for s in kernel.loop_tree.statements() if isinstance(s, IRBufStore)}
    return {idx: machine.buffers[idx] for idx in sorted(written)}


class _Machine:
    def __init__(self, kernel: KernelIR, buffers: Mapping[int, Array], variables: Mapping[str, int]) -> None:
        self.buffers = {
            m.idx: np.array(buffers.get(m.idx, np.zeros(m.depth, m.dtype.numpy()))).reshape(-1)
            for m in kernel.buffers
        }
        self.registers = {r.idx: np.zeros(r.size, r.dtype.numpy()) for r in kernel.registers}
        self.variables = variables
        self.counters: dict[int, int] = {}
        self.loaded: dict[IRValue, Array] = {}

    def loop(self, loop: LoopIR) -> None:
        bound = loop.bound if isinstance(loop.bound, int) else int(self.value(loop.bound))
        for n in range(bound):
            if loop.counter is not None:
                self.counters[loop.counter.axis] = n
            for item in loop.items:
                if isinstance(item, LoopIR):
                    self.loop(item)
                else:
                    self.execute(item)

    def execute(self, statement: IRStatement) -> None:
        match statement:
            case IRBufLoad():
                self.loaded[statement] = self.load(statement)
            case IRRegLoad():
                index = 0 if statement.index is None else int(self.value(statement.index))
                self.loaded[statement] = np.array(self.registers[statement.reg][index])
            case IRBufStore():
                if statement.gate is None or bool(self.value(statement.gate)):
                    address = int(self.value(statement.addr))
                    buffer = self.buffers[statement.buf_idx]
                    assert 0 <= address < buffer.size, f"store at {address} of {buffer.size}"
                    buffer[address] = self.value(statement.value)
            case IRRegStore():
                if statement.gate is None or bool(self.value(statement.gate)):
                    index = 0 if statement.index is None else int(self.value(statement.index))
                    self.registers[statement.reg][index] = self.value(statement.value)

    def load(self, load: IRBufLoad) -> Array:
        buffer = self.buffers[load.buf_idx]
        if load.gate is not None and not bool(self.value(load.gate)):
            return np.zeros((), buffer.dtype) if load.alt is None else self.value(load.alt)
        address = int(self.value(load.addr))
        assert 0 <= address < buffer.size, f"load at {address} of {buffer.size}"
        return np.array(buffer[address])

    def value(self, root: IRValue) -> Array:
        known: dict[IRValue, Array] = {}
        stack = [root]
        while stack:
            node = stack[-1]
            pending = [s for s in node.srcs if s not in known] if isinstance(node, IROp) else []
            if pending:
                stack.extend(pending)
                continue
            known[node] = self.leaf(node) if not isinstance(node, IROp) else self.op(node, known)
            stack.pop()
        return known[root]

    def op(self, node: IROp, known: dict[IRValue, Array]) -> Array:
        function = resolve(registry().op(node.op).evaluate)
        return np.asarray(
            function(tuple(known[s] for s in node.srcs), tuple(s.dtype for s in node.srcs), node.dtype)
        )

    def leaf(self, node: IRValue) -> Array:
        match node:
            case IRConst():
                bits = np.array(node.dtype.const_to_bits(node.value), np.uint64)
                return np.asarray(node.dtype.bits_to_array(bits))
            case IRVariable():
                return np.array(self.variables[node.name], node.dtype.numpy())
            case IRCounter():
                return np.array(self.counters[node.axis], node.dtype.numpy())
            case _:
                return self.loaded[node]
