"""Values and statements of the iterations that run at once.

The arrays of values have one dimension per loop that runs at once, the innermost first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir.analysis.dependence import element
from tg2hdl_ir.dtype import DType
from tg2hdl_ir.errors import IRVerificationError
from tg2hdl_ir.golden.plan import GoldenPlan
from tg2hdl_ir.golden.registers import GoldenRegisters
from tg2hdl_ir.nodes import (
    IRBufLoad,
    IRBufStore,
    IRRegLoad,
    IRRegStore,
    IRStatement,
    IRValue,
    IRVariable,
    LoopIR,
)

__all__ = ["Evaluation"]

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Dimension:
    """Iterations that run at once: of one loop, or of a perfect nest."""

    loops: tuple[LoopIR, ...]
    size: int


class Evaluation:
    """Values by loop, registers and buffers of one execution of a kernel.

    Parameters
    ----------
    buffers : mapping of int to flat ndarray
        Contents in the numpy type of each buffer.
    variables : mapping of str to int
        Values of the run-time scalars.
    """

    def __init__(self, plan: GoldenPlan, buffers: dict[int, Array], variables: Mapping[str, int]) -> None:
        self.plan = plan
        self.buffers = buffers
        self.variables = variables
        self.registers = GoldenRegisters(plan.kernel, plan.dynamic)
        self.dimensions: list[Dimension] = []
        self.shape: tuple[int, ...] = ()
        self.frames: list[dict[IRValue, Array]] = [dict(plan.constants)]
        self.chosen: Mapping[int, Array] = {}

    # Hooks for subclasses

    def tick(self) -> None:
        """Called before each statement."""

    def tick_step(self) -> None:
        """Called before each step of a recurrence."""

    def write(self, buffer: int, address: Array, value: Array) -> None:
        """Write elements of a buffer.

        Parameters
        ----------
        buffer : int
            Slot of the buffer.
        address, value : ndarray
            Broadcast to the iterations that run at once; of equal addresses the last value stays.
        """
        self.buffers[buffer][address] = value

    # Iterations

    def counts(self, loop: LoopIR) -> Array:
        """Values of the counter of a loop, in order: all, or those that were chosen."""
        assert loop.counter is not None, "the root is not run as a loop"
        found = self.chosen.get(loop.counter.axis)
        return np.arange(self.plan.dependence.bound(loop)) if found is None else found

    def room(self) -> int:
        """Number of iterations that may run at once inside the present ones."""
        return max(1, self.plan.limit // max(1, int(np.prod(self.shape))))

    def enter(self, loops: tuple[LoopIR, ...], size: int) -> None:
        """Run `size` iterations of a loop (or of a perfect nest) at once until `leave`.

        Parameters
        ----------
        loops : tuple of LoopIR
            Outermost first; one unless the nest is perfect.
        size : int
            Iterations: the product of the bounds.
        """
        self.dimensions.append(Dimension(loops, size))
        self.shape = (size, *self.shape)
        frame: dict[IRValue, Array] = {}
        self.frames.extend(frame for _ in loops)

    def axis(self, values: Array, dtype: DType) -> Array:
        """Array with one value per iteration of the innermost loop.

        Parameters
        ----------
        values : ndarray
            One for each iteration, in order.
        dtype : DType
        """
        return values.astype(dtype.numpy()).reshape(-1, *(1,) * (len(self.shape) - 1))

    def leave(self) -> None:
        """End `enter`: registers keep the values of the last iteration."""
        dimension = self.dimensions.pop()
        inner = dimension.loops[-1]
        self.registers.leave(self.plan.dependence.use(inner).written, len(self.shape))
        self.shape = self.shape[1:]
        del self.frames[-len(dimension.loops) :]

    # Values

    def value(self, value: IRValue) -> Array:
        """Value of a node for all present iterations, with as few dimensions as it depends on."""
        home, frames = self.plan.home, self.frames
        found = frames[home[value]].get(value)
        if found is not None:
            return found
        for op, place, function, types, sources in self.plan.order(value):
            frame = frames[place]
            if op not in frame:
                try:
                    operands = tuple([frames[at][source] for source, at in sources])
                except KeyError:
                    operands = tuple([self._leaf(source) for source in op.srcs])
                frame[op] = np.asarray(function(operands, types, op.dtype))
        return self._leaf(value)

    def _leaf(self, node: IRValue) -> Array:
        found = self.frames[self.plan.home[node]].get(node)
        if found is not None:
            return found
        if isinstance(node, IRVariable):
            self.frames[0][node] = found = np.array(self.variables[node.name], dtype=node.dtype.numpy())
            return found
        raise IRVerificationError(
            f"{type(node).__name__} is used outside the loop in which it executes",
            where=f"kernel {self.plan.kernel.name}",
            hint="keep its value in a register, or compute it in the loop that uses it",
        )

    # Statements

    def statement(self, statement: IRStatement) -> None:
        """Execute a load or a store."""
        self.tick()
        match statement:
            case IRBufLoad():
                self.frames[self.plan.home[statement]][statement] = self._load(statement)
            case IRRegLoad():
                self.frames[self.plan.home[statement]][statement] = self._load_register(statement)
            case IRBufStore():
                self._store(statement)
            case IRRegStore():
                self._store_register(statement)

    def _load(self, load: IRBufLoad) -> Array:
        buffer = self.buffers[load.buf_idx]
        address = self.value(load.addr)
        inside = _inside(address, buffer.size)
        if load.gate is None and inside is None:
            return np.asarray(buffer.take(address))
        # Outside of its buffer an access is treated as if its gate were closed.
        gate = _both(inside, None if load.gate is None else self.value(load.gate))
        address = np.where(gate, address, address.dtype.type(0))
        alternative = np.zeros((), buffer.dtype) if load.alt is None else self.value(load.alt)
        return np.where(gate, buffer.take(address), alternative)

    def _load_register(self, load: IRRegLoad) -> Array:
        if load.reg not in self.plan.dynamic:
            return self.registers.elements[element(load)]
        index, inside = self._index(load)
        found = self.registers.load(load.reg, index, self.shape)
        return found if inside is None else np.where(inside, found, found.dtype.type(0))

    def _store(self, store: IRBufStore) -> None:
        buffer = self.buffers[store.buf_idx]
        address = np.broadcast_to(self.value(store.addr), self.shape)
        value = np.broadcast_to(self.value(store.value), self.shape)
        given = None if store.gate is None else self.value(store.gate)
        inside = _inside(address, buffer.size)
        gate = None if given is None and inside is None else np.broadcast_to(_both(inside, given), self.shape)
        if store not in self.plan.unique:
            # Of several writes to one place the last in program order counts: the outermost loop must vary slowest.
            # Flat arrays, as numpy assigns through arrays of several dimensions in the order of their memory.
            address, value = address.T.ravel(), value.T.ravel()
            gate = None if gate is None else gate.T.ravel()
        if gate is not None:
            address, value = address[gate], value[gate]
        if address.size:
            self.write(store.buf_idx, address, value)

    def _store_register(self, store: IRRegStore) -> None:
        value = self.value(store.value)
        gate = None if store.gate is None else self.value(store.gate)
        if store.reg not in self.plan.dynamic:
            key = element(store)
            if gate is not None:
                value = np.where(gate, value, self.registers.elements[key])
            self.registers.elements[key] = value
            return
        shared = self.plan.dependence.shared
        private = tuple(
            not any(store.reg in shared[loop] for loop in d.loops) for d in reversed(self.dimensions)
        )
        index, inside = self._index(store)
        if inside is not None:
            gate = _both(inside, gate)
        self.registers.store(store.reg, index, value, gate, self.shape, private)

    def _index(self, statement: IRRegLoad | IRRegStore) -> tuple[Array, Array | None]:
        """Index of an access, zero where it is outside its array, and where it is inside; None when all are."""
        index = np.zeros((), np.int64) if statement.index is None else self.value(statement.index)
        inside = _inside(index, self.plan.kernel.register(statement.reg).size)
        return (index, None) if inside is None else (np.where(inside, index, index.dtype.type(0)), inside)


def _inside(address: Array, depth: int) -> Array | None:
    """Whether each address is inside a buffer or array; None when all are."""
    if not address.size or (address.min() >= 0 and address.max() < depth):
        return None
    return np.asarray((address >= 0) & (address < depth))


def _both(first: Array | None, second: Array | None) -> Array:
    """Conjunction of two flags; either may be absent."""
    if first is None or second is None:
        found = second if first is None else first
        assert found is not None, "one of them is given"
        return found
    return np.asarray(first & second)
