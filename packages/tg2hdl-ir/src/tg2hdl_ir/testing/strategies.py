"""Hypothesis strategies: random kernels, with all kinds of dependences between their iterations."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from tg2hdl_ir.dtype import DType
from tg2hdl_ir.nodes import (
    BufferMeta,
    IRBufLoad,
    IRBufStore,
    IRConst,
    IRCounter,
    IRItem,
    IROp,
    IRRegLoad,
    IRRegStore,
    IRValue,
    IRVariable,
    KernelIR,
    LoopIR,
    RegisterMeta,
)

__all__ = ["arrays", "kernels"]

_INTS = (DType.INT32, DType.INT8, DType.UINT16)
_TYPES = (*_INTS, DType.FP32, DType.FP16)


def arrays(dtype: DType, size: int, seed: int) -> npt.NDArray[Any]:
    """Random contents of a buffer, special float values included.

    Parameters
    ----------
    dtype : DType
    size : int
        Elements.
    seed : int
        Equal seeds give equal contents.
    """
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 1 << dtype.bit_width, size, dtype=np.uint64, endpoint=False)
    if dtype.is_float:
        plain = (rng.standard_normal(size) * 4).astype(dtype.numpy())
        return np.where(rng.random(size) < 0.1, dtype.bits_to_array(bits), plain)
    return dtype.bits_to_array(bits)


@dataclass
class _Builder:
    draw: Any
    types: tuple[DType, ...]
    buffers: list[tuple[DType, int]] = field(default_factory=list)
    registers: list[RegisterMeta] = field(default_factory=list)
    variables: list[IRVariable] = field(default_factory=list)
    axes: int = 0
    loops: int = 0

    def number(self, low: int, high: int) -> int:
        return int(self.draw(st.integers(low, high)))

    def flip(self, chance: int = 2) -> bool:
        return self.number(1, chance) == 1

    def pick(self, options: Any) -> Any:
        return self.draw(st.sampled_from(list(options)))

    def const(self, dtype: DType) -> IRConst:
        if dtype.is_bool:
            return IRConst(self.flip(), dtype)
        if dtype.is_float:
            return IRConst(self.pick((0.0, -0.0, 1.0, -2.5, 0.1)), dtype)
        return IRConst(self.number(dtype.min_value, dtype.max_value), dtype)

    def address(self, path: list[IRCounter], depth: int) -> tuple[IRValue, int]:
        """Address and the depth that it needs."""
        int32 = DType.INT32
        const = self.number(0, 2)
        value: IRValue = IRConst(const, int32)
        high = const
        for counter in path:
            factor = self.pick((0, 1, 1, 2, 3, 5, 7))
            if factor:
                step = IROp("mul", int32, (counter, IRConst(factor, int32)))
                value = IROp("add", int32, (value, step))
                high += factor * max(0, _most(counter) - 1)
        if self.flip(5):
            return IROp("mod", int32, (value, IRConst(depth, int32))), depth
        return value, high + 1

    def values(self, scope: list[IRValue], path: list[IRCounter], dtype: DType, depth: int = 2) -> IRValue:
        fitting = [v for v in scope if v.dtype == dtype]
        if depth == 0 or self.flip(3):
            if fitting and not self.flip(4):
                return self.pick(fitting[-4:])  # type: ignore[no-any-return]
            return self.const(dtype)
        kind = self.number(0, 5)
        if kind == 0 and not dtype.is_bool:
            condition = self.condition(scope, path, depth - 1)
            return IROp(
                "where",
                dtype,
                (
                    condition,
                    self.values(scope, path, dtype, depth - 1),
                    self.values(scope, path, dtype, depth - 1),
                ),
            )
        if kind == 1:
            source = self.pick((*self.types, DType.BOOL, DType.INT32))
            inner = self.values([*scope, *path], path, source, depth - 1)
            return inner if source == dtype else IROp("cast", dtype, (inner,))
        if dtype.is_bool:
            return self.condition(scope, path, depth - 1)
        ops = ("add", "add", "mul", "max", "sub", "min")
        name = self.pick(ops if dtype.is_float else (*ops, "xor", "div", "mod", "shr"))
        return IROp(name, dtype, tuple(self.values(scope, path, dtype, depth - 1) for _ in range(2)))

    def condition(self, scope: list[IRValue], path: list[IRCounter], depth: int = 1) -> IRValue:
        if path and self.flip(3):
            return self.first(path)
        if path and self.flip():
            counter = self.pick(path)
            bound = IRConst(self.number(0, _most(counter)), counter.dtype)
            return IROp(self.pick(("lt", "eq", "ne")), DType.BOOL, (counter, bound))
        dtype = self.pick(self.types)
        return IROp(
            self.pick(("lt", "eq", "ne")),
            DType.BOOL,
            tuple(self.values(scope, path, dtype, depth) for _ in range(2)),
        )

    def first(self, path: list[IRCounter]) -> IRValue:
        """``i == 0 and j == 0``, for the innermost loops of a path."""
        zero = IRConst(0, DType.INT32)
        inner = path[-self.number(1, len(path)) :]
        value: IRValue = IROp("eq", DType.BOOL, (inner[0], zero))
        for counter in inner[1:]:
            value = IROp("and", DType.BOOL, (value, IROp("eq", DType.BOOL, (counter, zero))))
        return value

    def statement(self, scope: list[IRValue], path: list[IRCounter]) -> list[IRItem]:
        kind = self.number(0, 6)
        if kind <= 1:
            return self.buffer_load(scope, path)
        if kind == 2:
            return self.buffer_store(scope, path)
        if kind <= 4:
            return self.accumulate(scope, path)
        reg = self.pick(self.registers)
        index = self.index(reg, path)
        if kind == 5:
            load = IRRegLoad(reg.dtype, reg.idx, index)
            scope.append(load)
            return [load]
        gate = self.condition(scope, path) if self.flip(4) else None
        return [IRRegStore(self.values(scope, path, reg.dtype), reg.idx, index, gate)]

    def index(self, reg: RegisterMeta, path: list[IRCounter]) -> IRValue | None:
        if reg.size == 1 and self.flip():
            return None
        fitting = [c for c in path if _most(c) <= reg.size]
        if fitting and not self.flip(3):
            return self.pick(fitting)  # type: ignore[no-any-return]
        return IRConst(self.number(0, reg.size - 1), DType.INT32)

    def accumulate(self, scope: list[IRValue], path: list[IRCounter]) -> list[IRItem]:
        reg = self.pick(self.registers)
        index = self.index(reg, path)
        load = IRRegLoad(reg.dtype, reg.idx, index)
        value: IRValue = load
        ops = ("add", "add", "mul", "max", "min") if reg.dtype.is_float else ("add", "max", "xor", "mulacc")
        name = self.pick(ops)
        for _ in range(self.number(1, 2)):
            terms = [self.values(scope, path, reg.dtype, 1) for _ in range(2 if name == "mulacc" else 1)]
            value = IROp(
                name, reg.dtype, (*terms, value) if self.flip() or len(terms) == 2 else (value, *terms)
            )
        if self.flip(5):
            value = IROp("where", reg.dtype, (self.condition(scope, path), self.const(reg.dtype), value))
        gate = self.condition(scope, path) if self.flip(6) else None
        if path and self.flip(3):
            init = self.const(reg.dtype)
            if self.flip():
                return [
                    IRRegStore(init, reg.idx, index, self.first(path)),
                    load,
                    IRRegStore(value, reg.idx, index, gate),
                ]
            masked = IROp("where", reg.dtype, (self.first(path), init, load))
            value = IROp("add", reg.dtype, (masked, self.values(scope, path, reg.dtype, 1)))
            return [load, IRRegStore(value, reg.idx, index, gate)]
        scope.append(load)
        return [load, IRRegStore(value, reg.idx, index, gate)]

    def buffer_load(self, scope: list[IRValue], path: list[IRCounter]) -> list[IRItem]:
        number = self.number(0, len(self.buffers) - 1)
        dtype, depth = self.buffers[number]
        address, needed = self.address(path, depth)
        gate: IRValue | None = None
        alt: IRValue | None = None
        if path and self.flip(4):
            counter = self.pick(path)
            limit = self.number(0, _most(counter))
            gate = IROp("lt", DType.BOOL, (counter, IRConst(limit, counter.dtype)))
            alt = self.values(scope, path, dtype, 1) if self.flip() else None
        self.buffers[number] = (dtype, max(depth, needed))
        load = IRBufLoad(number, address, dtype, gate, alt)
        scope.append(load)
        return [load]

    def buffer_store(self, scope: list[IRValue], path: list[IRCounter]) -> list[IRItem]:
        number = 0 if self.flip() else self.number(0, len(self.buffers) - 1)
        dtype, depth = self.buffers[number]
        address, needed = self.address(path, depth)
        self.buffers[number] = (dtype, max(depth, needed))
        gate = self.condition(scope, path) if self.flip(4) else None
        return [IRBufStore(number, address, self.values(scope, path, dtype), dtype, gate)]

    def items(self, scope: list[IRValue], path: list[IRCounter], depth: int) -> list[IRItem]:
        items: list[IRItem] = []
        for _ in range(self.number(1, 4)):
            if depth < 3 and self.loops < 6 and self.flip(1 if depth < 1 else 3):
                items.append(self.loop(list(scope), path, depth))
            else:
                items.extend(self.statement(scope, path))
        return items

    def loop(self, scope: list[IRValue], path: list[IRCounter], depth: int) -> LoopIR:
        self.loops += 1
        bound: int | IRValue = self.pick((1, 2, 3, 3, 4, 5, 0))
        if self.flip(8):
            variable = IRVariable(f"n{len(self.variables)}", 0, 4)
            self.variables.append(variable)
            bound = variable
        counter = IRCounter(bound, depth, self.axes)
        self.axes += 1
        items = self.items(scope, [*path, counter], depth + 1)
        return LoopIR.from_items(tuple(items), counter=counter, axis_type=self.pick(("loop", "reduce")))


def _most(counter: IRCounter) -> int:
    if isinstance(counter.bound, int):
        return counter.bound
    assert isinstance(counter.bound, IRVariable), "random trip counts are plain variables"
    return counter.bound.high


@st.composite
def kernels(
    draw: Any, types: tuple[DType, ...] = _TYPES
) -> tuple[KernelIR, dict[int, npt.NDArray[Any]], dict[str, int]]:
    """Random kernels with the contents of their buffers and the values of their variables.

    Parameters
    ----------
    types : tuple of DType
        Types of buffers and registers.
    """
    build = _Builder(draw, types)
    build.buffers = [(build.pick(types), 3) for _ in range(build.number(2, 4))]
    build.registers = [
        RegisterMeta(n, build.pick(types), build.pick((1, 1, 2, 4))) for n in range(build.number(1, 3))
    ]
    root = LoopIR.from_items(tuple(build.items([], [], 0)))
    written = {s.buf_idx for s in root.statements() if isinstance(s, IRBufStore)}
    metas = tuple(BufferMeta(n, depth, dtype, n in written) for n, (dtype, depth) in enumerate(build.buffers))
    kernel = KernelIR(metas, root, tuple(build.registers), tuple(build.variables), "random")
    seed = build.number(0, 1000)
    contents = {m.idx: arrays(m.dtype, m.depth, seed + m.idx) for m in metas}
    variables = {v.name: build.number(v.low, v.high) for v in build.variables}
    return kernel, contents, variables
