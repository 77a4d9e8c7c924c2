"""The machine in plain Python and numpy: one instruction after the other, without time.

It is the independent reference of the compiled simulator, and serves where a C++ compiler is missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tg2hdl_tpu.config import ADDRESS_BITS, ADDRESS_REGISTERS, LOOP_DEPTH, Config
from tg2hdl_tpu.instruction_checks import is_illegal
from tg2hdl_tpu.isa import GATHER, OPCODES, Instruction, Trap, encode, fields_of

__all__ = ["Reference"]

_BY_CODE = {opcode.code: name for name, opcode in OPCODES.items()}
_COMBINE = {1: np.add, 2: np.maximum, 3: np.minimum}


class _TrapError(Exception):
    def __init__(self, trap: Trap) -> None:
        self.trap = trap


class Reference:
    """A machine without time; memories as those of `Machine`."""

    def __init__(self, config: Config | None = None) -> None:
        self.config = config = config or Config()
        self.vmem = np.zeros((config.vmem_rows, config.lanes), dtype=np.int32)
        self.xmem = np.zeros((config.xmem_rows, config.lanes), dtype=np.int32)
        self.element = np.dtype(np.float32 if config.matrix_is_float else config.matrix_format)
        self.weights = np.zeros((config.rows, config.columns), dtype=self.element)
        self.sums = np.zeros((config.rows, config.columns), dtype=np.int32)
        self.index = np.zeros(config.lanes, dtype=np.int32)
        self.program: list[Instruction | None] = []

    def load_program(self, program: Sequence[Instruction | int]) -> None:
        """Replace the program."""
        words = [encode(i) if isinstance(i, Instruction) else i for i in program]
        self.program = [None if is_illegal(word, self.config) else _parse(word) for word in words]

    def run(self, *, limit: int = 100_000) -> tuple[Trap, int]:
        """Run at most `limit` instructions; returns the trap and where it was."""
        self._registers = [0] * ADDRESS_REGISTERS
        self._loops: list[list[int]] = []
        pc = 0
        for _ in range(limit):
            if pc >= self.config.imem_depth:
                return Trap.PROGRAM, pc
            i = self.program[pc] if pc < len(self.program) else None
            if i is None:
                return Trap.ILLEGAL, pc
            if i.op == "halt":
                return Trap.NONE, pc
            try:
                with np.errstate(over="ignore"):
                    pc = self._step(i, pc)
            except _TrapError as error:
                return error.trap, pc
        return Trap.LIMIT, pc

    def _step(self, i: Instruction, pc: int) -> int:
        registers, form = self._registers, i.opcode.form
        if form == "vector":
            self._vector(i)
        elif form == "weights":
            self._weights(i)
        elif form == "sums":
            self._sums(i)
        elif form == "index":
            self.index = self.vmem[self._row(i.a + registers[i.a_reg])].copy()
        elif form == "dma":
            self._dma(i)
        elif form == "lda":
            registers[i.dst_reg] = _register(int(self.vmem[self._row(i.a + registers[i.a_reg])][i.k]))
        elif i.op == "set":
            registers[i.dst_reg] = _register(registers[i.a_reg] + i.b)
        elif i.op == "loop":
            count = registers[i.a_reg] + i.b
            if len(self._loops) == LOOP_DEPTH or not 1 <= count < 1 << (ADDRESS_BITS - 1):
                raise _TrapError(Trap.LOOP)
            self._loops.append([pc + 1, count])
        elif i.op == "end":
            if not self._loops:
                raise _TrapError(Trap.LOOP)
            self._loops[-1][1] -= 1
            if self._loops[-1][1]:
                return self._loops[-1][0]
            self._loops.pop()
        else:
            value = registers[i.a_reg]
            if {"jump": True, "bz": value == 0, "bnz": value != 0, "bneg": value < 0}[i.op]:
                return i.dst
        return pc + 1

    def _row(self, address: int) -> int:
        if not 0 <= address < self.config.vmem_rows:
            raise _TrapError(Trap.VMEM)
        return address

    def _dma(self, i: Instruction) -> None:
        r = self._registers
        row = i.dst + r[i.dst_reg] if i.op == "load" else i.a + r[i.a_reg]
        outside = i.b + r[i.b_reg]
        self._row(row)
        self._row(row + i.count - 1)
        if outside < 0 or outside + i.count > self.config.xmem_rows:
            raise _TrapError(Trap.XMEM)
        inner, outer = slice(row, row + i.count), slice(outside, outside + i.count)
        if i.op == "load":
            self.vmem[inner] = self.xmem[outer]
        else:
            self.xmem[outer] = self.vmem[inner]

    def _elements(self, row: NDArray[np.int32], pre: int, start: int, count: int) -> NDArray[Any]:
        if self.config.matrix_is_float:
            if pre == 2:
                halves = row.view(np.uint16)[start : start + count]
                return (halves.astype(np.uint32) << 16).view(np.float32)
            floats = row[start : start + count].view(np.float32)
            return _as_bfloat(floats) if self.config.matrix_format == "bf16" else floats
        if pre == 2:
            return row.view(self.element)[start : start + count].astype(np.int32)
        words = row[start : start + count]
        if np.any(words != words.astype(self.element)):
            raise _TrapError(Trap.FORMAT)
        return words

    def _weights(self, i: Instruction) -> None:
        config = self.config
        width = config.packed if i.pre == 2 else config.lanes
        address = i.a + self._registers[i.a_reg]
        if i.op == "tile":
            size = config.rows * config.columns
            row = self.vmem[self._row(address // (width // size))]
            tile = self._elements(row, i.pre, address % (width // size) * size, size)
            self.weights[:] = tile.reshape(self.weights.shape)
            return
        per_row = width // config.columns
        for n in range(i.count):
            at = address + n * i.a_stride
            row = self.vmem[self._row(at // per_row)]
            self.weights[n] = self._elements(row, i.pre, at % per_row * config.columns, config.columns)

    def _sums(self, i: Instruction) -> None:
        config, r = self.config, self._registers
        for n in range(i.count):
            at = i.a + r[i.a_reg] + n * i.a_stride
            if i.op == "preload":
                self.sums[n] = self.vmem[self._row(at)][: config.columns]
                continue
            factors: list[Any] = []
            for address, size in (
                (at, config.rows),
                (i.b_address + r[i.b_reg] + n * i.b_stride, config.columns),
            ):
                per_row = config.packed // size
                row = self.vmem[self._row(address // per_row)]
                factors.append(self._elements(row, i.pre, address % per_row * size, size))
            kept = self.sums if n or i.accumulate else np.zeros_like(self.sums)
            self.sums = np.outer(*factors).astype(np.int32) + kept

    def _vector(self, i: Instruction) -> None:
        config, op = self.config, i.opcode.op
        assert op is not None
        lanes, r = config.lanes, self._registers
        permute = i.pre == 3 and i.xlu == 3
        reads_b = not i.constant and (op.reads_b or permute)
        width = lanes >> i.segment
        accumulator: Any = None
        for n in range(i.count):
            dst = i.dst + r[i.dst_reg] + (0 if i.accumulate else n * i.dst_stride)
            to = self._row(dst >> i.segment)
            per_row = {1: lanes // config.rows, 2: config.packed // config.rows}.get(i.pre, 1)
            at = i.a + r[i.a_reg] + n * i.a_stride
            if i.pre != 3 and i.xlu == GATHER:
                at += int(self.index[n]) if 0 <= self.index[n] < 1 << 16 else -(1 << 24)
            if i.reads_sums:
                if not 0 <= at < config.rows:
                    raise _TrapError(Trap.VMEM)
                source = np.tile(self.sums[at], lanes // config.columns)
            else:
                source = self.vmem[self._row(at // per_row)]
            b = np.full(lanes, i.b if i.constant else 0, dtype=np.int32)
            if reads_b:
                b = self.vmem[self._row(i.b_address + r[i.b_reg] + n * i.b_stride)].copy()
            a = source if i.reads_sums else self._pre(i, source, b, at % per_row * config.rows)
            value = op.numpy(a, b, self.vmem[to].copy(), i.k)
            if i.relu:
                value = np.maximum(value, 0)
            if i.accumulate:
                accumulator = value if n == 0 else _COMBINE[i.reduce](accumulator, value)
                if n < i.count - 1:
                    continue
                value = accumulator
            lane = np.arange(lanes)
            for level in range(config.levels):
                if i.levels >> level & 1:
                    value = _COMBINE[i.reduce](value, value[lane ^ 1 << level])
            if i.pack:
                group = i.levels + 1
                value = value[lane % (lanes // group) * group]
            first = dst % (1 << i.segment) * width
            self.vmem[to, first : first + width] = value[first : first + width]

    def _pre(
        self, i: Instruction, row: NDArray[np.int32], b: NDArray[np.int32], start: int
    ) -> NDArray[np.int32]:
        config = self.config
        lane = np.arange(config.lanes)
        if i.pre == 0:
            return row.copy()
        if i.pre in (1, 2):
            factors = self._elements(row, i.pre, start, config.rows)
            if config.matrix_is_float:
                return np.tile(_dot_products(factors, self.weights), config.lanes // config.columns)
            product = factors.astype(np.int64) @ self.weights.astype(np.int64)
            return np.tile(product.astype(np.int32), config.lanes // config.columns)
        if i.xlu == 0:
            return np.roll(row, -i.k)
        if i.xlu == 1:
            return np.full_like(row, row[i.k])
        if i.xlu == 2:
            side = 1 << config.levels // 2
            return row.reshape(side, side).T.reshape(-1).copy()
        if np.any((b < 0) | (b >= config.lanes)):
            raise _TrapError(Trap.INDEX)
        return row[b[lane]]


def _as_bfloat(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Round to 8 bits of significand, to nearest even; in float64, where halves of the last place are exact."""
    with np.errstate(all="ignore"):
        wide = values.astype(np.float64)
        exponent = np.maximum(np.frexp(np.where(np.isfinite(wide), wide, 0))[1] - 8, -133)
        rounded = np.ldexp(np.rint(np.ldexp(wide, -exponent)), exponent)
        # Beyond the largest number FP32 would still have a place for it.
        rounded = np.where(np.abs(rounded) >= 2.0**128, np.copysign(np.inf, rounded), rounded)
        result: NDArray[np.float32] = rounded.astype(np.float32)
    return result


def _dot_products(factors: NDArray[np.float32], weights: NDArray[np.float32]) -> NDArray[np.int32]:
    """Products rounded to FP32, added as a tree of neighbours."""
    with np.errstate(all="ignore"):
        terms = factors[:, None] * weights
        while len(terms) > 1:
            terms = terms[::2] + terms[1::2]
        bits: NDArray[np.int32] = terms[0].view(np.int32).copy()
        bits[np.isnan(terms[0])] = 0x7FC00000
    return bits


def _parse(word: int) -> Instruction:
    values = fields_of(word)
    return Instruction(_BY_CODE[values.pop("opcode")], **values)


def _register(value: int) -> int:
    limit = 1 << (ADDRESS_BITS - 1)
    if not -limit <= value < limit:
        raise _TrapError(Trap.REGISTER)
    return value
