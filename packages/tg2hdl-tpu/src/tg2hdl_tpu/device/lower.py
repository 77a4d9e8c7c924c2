"""Emits a kernel of the IR as vector instructions: iterations of independent loops are lanes and rows of vectors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from operator import mul

from tg2hdl_ir import (
    Affine,
    AffineAnalysis,
    DType,
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
    IRVariable,
    KernelIR,
    LoopIR,
    UnsupportedError,
    operands,
)
from tg2hdl_ir.golden.kernel import scalar
from tg2hdl_tpu.device.arithmetic import constant, operation
from tg2hdl_tpu.device.code import Line, RowPlace
from tg2hdl_tpu.device.emitter import Emitter, LaneConstant, Value, Vector
from tg2hdl_tpu.device.memory import elements_of_word, load, load_rows, rows_of_step, store, store_rows
from tg2hdl_tpu.device.runs import ThreadBlock, load_run, store_run
from tg2hdl_tpu.device.threads import Grid, parallel_nest

__all__ = ["bounds_of", "computed", "emit_kernel"]

#: Distance of neighbouring threads' elements up to which the rows that hold them are fetched, and number of these rows.
_STEP, _EXTERNAL_ROWS = 4, 5


def bounds_of(kernel: KernelIR, variables: Mapping[str, int]) -> dict[int, int]:
    """Trip count of each loop by axis.

    Parameters
    ----------
    kernel : KernelIR
    variables : mapping of str to int
        Values by name.
    """
    return {
        loop.counter.axis: scalar(loop.bound, variables)
        for loop in kernel.loop_tree.walk()
        if loop.counter is not None
    }


def emit_kernel(emit: Emitter, kernel: KernelIR, variables: Mapping[str, int], rows: int) -> None:
    """Emit a kernel with vectors of so many rows.

    Parameters
    ----------
    emit : Emitter
        Gets the code.
    kernel : KernelIR
    variables : mapping of str to int
        Values by name.
    rows : int
        Rows of a vector: so many times the lanes are the threads at a time.

    Raises
    ------
    UnsupportedError
        For an operation, type or loop that the machine does not have.
    """
    _KernelLowering(kernel, emit, variables, rows).run()


class _KernelLowering:
    def __init__(self, kernel: KernelIR, emit: Emitter, variables: Mapping[str, int], rows: int) -> None:
        self.kernel = kernel
        self.variables = variables
        self.rows = rows
        self.emit = emit
        self.affine = AffineAnalysis()
        self.memo: dict[IRValue, Value] = {}
        self.registers: dict[int, list[Vector]] = {}
        self.bounds = bounds_of(kernel, variables)
        self.in_grid = False
        self.strides: dict[IRCounter, int] = {}
        self.block: ThreadBlock | None = None
        self.grid_: Grid
        self.valid: Vector | None = None
        self.statements = list(kernel.loop_tree.statements())
        self.position = {s: n for n, s in enumerate(self.statements)}
        self.last_use, self.uses = _uses(self.statements)

    def run(self) -> None:
        self.items(self.kernel.loop_tree.items)

    def items(self, items: tuple[IRItem, ...]) -> None:
        for item in items:
            if isinstance(item, LoopIR):
                self.loop(item)
            else:
                self.statement(item)

    # Loops

    def loop(self, loop: LoopIR) -> None:
        counter = loop.counter
        assert counter is not None
        bound = self.bounds[counter.axis]
        if bound < 1:
            return
        grid = (
            None if self.in_grid else parallel_nest(loop, self.bounds, self.read_outside(loop), self.affine)
        )
        if grid is not None and grid.threads != 1:
            self.grid(loop, grid)
            return

        def body(value: Value) -> None:
            self.memo[counter] = value
            self.items(loop.items)
            self.forget()

        self.emit.loop(bound, body)

    def read_outside(self, loop: LoopIR) -> set[int]:
        inside = set(loop.statements())
        return {s.reg for s in self.statements if isinstance(s, IRRegLoad) and s not in inside}

    def forget(self) -> None:
        """Drop the values of the innermost scope."""
        depth = self.emit.depth
        if depth:
            self.memo = {n: v for n, v in self.memo.items() if isinstance(v, LaneConstant) or v.level < depth}

    def grid(self, loop: LoopIR, grid: Grid) -> None:
        """Run threads in blocks of rows: equal ones, and the rest."""
        lanes = self.emit.config.lanes
        self.grid_ = grid = self.padded(loop, grid)
        total = -(-grid.threads // lanes)
        rows = next(
            (r for r in range(self.rows, self.rows // 2, -1) if total % r == 0 and r % 4 == 0), self.rows
        )
        blocks, rest = divmod(total, rows)
        if grid.threads % lanes and not rest:
            blocks, rest = blocks - 1, rows
        if blocks:
            self.blocks(loop, grid, 0, rows, blocks)
        if rest:
            self.blocks(loop, grid, blocks * rows, rest, 1)

    def padded(self, loop: LoopIR, grid: Grid) -> Grid:
        """The grid with whole rows of its innermost counter, where accesses then are in neighbouring places."""
        lanes = self.emit.config.lanes
        inner = grid.extents[-1]
        if len(grid.extents) == 1 or inner % lanes == 0 or inner < 4:
            return grid
        strides = dict(
            zip(reversed(grid.counters), accumulate((1, *reversed(grid.extents[1:])), mul), strict=True)
        )

        def flat(form: Affine) -> bool:
            return all(form.coefficient(c) == step for c, step in strides.items())

        for store_ in loop.statements():
            if (
                isinstance(store_, IRBufStore)
                and elements_of_word(self.kernel.buffer(store_.buf_idx).dtype) > 1
            ):
                form = self.affine.of(store_.addr)
                if form is not None and flat(form):
                    return grid  # whole words of narrow elements, which else are written one by one
        for load_ in loop.statements():
            if not isinstance(load_, IRBufLoad):
                continue
            form = self.affine.of(load_.addr)
            if form is None or not any(form.coefficient(c) for c in grid.counters):
                continue
            if not flat(form) and abs(form.coefficient(grid.counters[-1])) <= _STEP:
                return replace(grid, extents=(*grid.extents[:-1], -(-inner // lanes) * lanes), inner=inner)
        return grid

    def blocks(self, loop: LoopIR, grid: Grid, start: int, rows: int, blocks: int) -> None:
        emit = self.emit
        lanes = emit.config.lanes
        emit.open(is_loop=False)
        emit.threads, self.in_grid = rows, True
        strides = accumulate((1, *reversed(grid.extents[1:])), mul)
        self.strides = dict(zip(reversed(grid.counters), strides, strict=True))
        for reg in {s.reg for s in loop.statements() if isinstance(s, IRRegStore)}:
            size = self.kernel.register(reg).size
            self.registers[reg] = [emit.new(uniform=False, level=0, keeps=True) for _ in range(size)]
        first = emit.new(uniform=False, level=emit.depth)
        for row in range(rows):
            emit.line(
                "add",
                dst=RowPlace(first.rows, row=row),
                a=RowPlace(emit.lanes()),
                b=(start + row) * lanes,
                constant=1,
                count=1,
            )
        single = {c.axis for c in (i.counter for i in loop.walk()) if c is not None} - {
            c.axis for c in grid.counters
        }

        def body(block: Value) -> None:
            thread: Value = first
            if not isinstance(block, LaneConstant):
                thread = emit.operate("add", first, emit.operate("mul", block, LaneConstant(rows * lanes)))
            ragged = grid.threads % lanes if (start + rows * blocks) * lanes > grid.threads else 0
            self.block, self.valid = ThreadBlock(block, start, rows, ragged), None
            if ragged:
                self.valid = emit.operate("lt", thread, LaneConstant(grid.threads))
                thread = emit.operate("min", thread, LaneConstant(grid.threads - 1))
            for counter, value in self.counters(grid, thread):
                self.memo[counter] = value
            if grid.inner:
                lane = self.memo[grid.counters[-1]]
                self.valid = emit.operate("lt", lane, LaneConstant(grid.inner))
                self.memo[grid.counters[-1]] = emit.operate("min", lane, LaneConstant(grid.inner - 1))
            for inner in loop.walk():
                if (
                    inner.counter is not None
                    and inner.counter.axis in single
                    and self.bounds[inner.counter.axis] == 1
                ):
                    self.memo[inner.counter] = LaneConstant(0)
            self.items(grid.items)
            self.forget()

        emit.loop(blocks, body)
        self.forget()
        emit.close()
        emit.threads, self.in_grid, self.block, self.valid = 1, False, None, None

    def counters(self, grid: Grid, thread: Value) -> Iterator[tuple[IRCounter, Value]]:
        emit = self.emit
        rest, most = thread, grid.threads
        for n, (counter, extent) in reversed(list(enumerate(zip(grid.counters, grid.extents, strict=True)))):
            if n == 0:
                yield counter, rest
            elif extent & (extent - 1) == 0:
                yield counter, emit.operate("and", rest, LaneConstant(extent - 1))
                rest = emit.operate("shr", rest, LaneConstant(extent.bit_length() - 1))
            else:
                whole = self.divided(rest, extent, most)
                yield counter, emit.operate("rsub", emit.operate("mul", whole, LaneConstant(extent)), rest)
                rest = whole
            most //= extent

    def divided(self, value: Value, by: int, most: int) -> Vector:
        """Quotient of a value from 0 to `most`: a product and a shift where they are exact in 32 bits."""
        emit = self.emit
        shift = most.bit_length() + by.bit_length()
        factor = -(-(1 << shift) // by)
        if most * factor >= 1 << 32:
            return emit.operate("div", value, LaneConstant(by))
        product = emit.operate("mul", value, LaneConstant(factor))
        return emit.operate("shr", product, LaneConstant(shift))

    # Statements

    def statement(self, statement: IRStatement) -> None:
        if isinstance(statement, IRBufLoad):
            self.memo[statement] = self.load(statement)
        elif isinstance(statement, IRBufStore):
            self.store(statement)
        elif isinstance(statement, IRRegLoad):
            self.read_register(statement)
        else:
            self.write_register(statement)

    def load(self, node: IRBufLoad) -> Value:
        emit = self.emit
        buffer = self.kernel.buffer(node.buf_idx)
        held = buffer.dtype
        offset = self.offset(node.addr, held)
        if node.gate is None:
            if self.block is not None and offset is not None:
                return load_run(emit, node.buf_idx, held, self.block, offset, None)
            return self.rows_or_elements(node, held, None)
        gate = self.value(node.gate)
        other = self.value(node.alt) if node.alt is not None else LaneConstant(0)
        if isinstance(gate, LaneConstant) and not gate.bits:
            return other
        if self.block is not None and offset is not None:
            return emit.select(
                gate, load_run(emit, node.buf_idx, held, self.block, offset, buffer.depth), other
            )
        return emit.select(gate, self.rows_or_elements(node, held, gate), other)

    def step(self, address: IRValue, dtype: DType) -> tuple[int, int] | None:
        """Distance of the elements of neighbouring lanes, and how many external rows those of a row lie in."""
        form = self.affine.of(address)
        if form is None or not self.in_grid:
            return None
        grid, lanes = self.grid_, self.emit.config.lanes
        inner = grid.counters[-1]
        if len(grid.extents) > 1 and grid.extents[-1] % lanes:
            return None
        step = form.coefficient(inner)
        whole = lanes * elements_of_word(dtype)
        others = [k for s, k in form.terms if s is not inner]
        aligned = not any(k % whole for k in (form.const, *others)) and step * lanes % whole == 0
        return step, rows_of_step(self.emit, dtype, step, aligned=aligned)

    def rows_or_elements(self, node: IRBufLoad, held: DType, gate: Value | None) -> Value:
        emit = self.emit
        address = self.value(node.addr)
        found = self.step(node.addr, held)
        if (
            found is not None
            and isinstance(address, Vector)
            and not address.uniform
            and found[1] <= _EXTERNAL_ROWS
        ):
            size = None if gate is None else self.kernel.buffer(node.buf_idx).depth
            return load_rows(emit, node.buf_idx, held, address, *found, size)
        if self.valid is not None and self.affine.of(node.addr) is None:
            address = emit.select(
                self.valid, address, LaneConstant(0)
            )  # an index of data, where a lane has none
        if gate is not None:
            address = emit.select(gate, address, LaneConstant(0))
        return load(emit, node.buf_idx, held, address)

    def offset(self, address: IRValue, dtype: DType) -> Value | None:
        """The offset from the number of a thread to its address, where that is the same for all threads."""
        form = self.affine.of(address)
        if form is None or self.block is None:
            return None
        per_word = elements_of_word(dtype)
        if any(form.coefficient(c) != step for c, step in self.strides.items()) or not self.block.fits(
            per_word
        ):
            return None
        whole = self.emit.config.lanes * per_word
        terms = [(symbol, factor) for symbol, factor in form.terms if symbol not in self.strides]
        if per_word > 1 and any(k % whole for k in (form.const, *(factor for _, factor in terms))):
            return None
        return self.emit.linear(form.const, [(self.value(symbol), factor) for symbol, factor in terms])

    def store(self, node: IRBufStore) -> None:
        gate = None if node.gate is None else self.value(node.gate)
        held = self.kernel.buffer(node.buf_idx).dtype
        if isinstance(gate, LaneConstant):
            if not gate.bits:
                return
            gate = None
        offset = self.offset(node.addr, held)
        if self.block is not None and offset is not None and not self.grid_.inner:
            value = self.value(node.value)
            if store_run(self.emit, node.buf_idx, held, self.block, offset, value, gate):
                return
        if self.valid is not None:
            gate = self.valid if gate is None else self.emit.operate("and", self.valid, gate)
        address = self.value(node.addr)
        found = self.step(node.addr, held)
        if found is not None and found[0] == 1 and elements_of_word(held) == 1:
            assert isinstance(address, Vector)
            store_rows(self.emit, node.buf_idx, address, self.value(node.value), gate, found[1])
            return
        store(self.emit, node.buf_idx, held, address, self.value(node.value), gate)

    def read_register(self, node: IRRegLoad) -> None:
        register = self.register(node.reg, node.index)
        here = self.position[node]
        until = self.last_use.get(node, here)
        level = self.emit.depth
        if any(isinstance(s, IRRegStore) and s.reg == node.reg for s in self.statements[here + 1 : until]):
            copy = self.emit.new(uniform=register.uniform, level=level)
            self.emit.copy_into(copy, register)
            register = copy
        self.memo[node] = Vector(register.rows, register.uniform, level)

    def write_register(self, node: IRRegStore) -> None:
        emit = self.emit
        before = self.memo.get(node.value)
        value = self.value(node.value)
        register = self.register(node.reg, node.index)
        if node.gate is not None:
            gate = self.value(node.gate)
            old = Vector(register.rows, register.uniform, emit.depth)
            value = emit.select(gate, value, old)
        elif before is None and self.uses[node.value] == 1 and self.retarget(value, register):
            return
        emit.copy_into(register, value)

    def retarget(self, value: Value, register: Vector) -> bool:
        """Let the instruction that has just computed the value write to the register."""
        items = self.emit.scopes[-1].items
        last = items[-1] if items else None
        if not isinstance(value, Vector) or not isinstance(last, Line) or last.dst is None:
            return False
        if last.dst.rows is not value.rows or value.rows.count != register.rows.count:
            return False
        if last.op == "select" or last.fields.get("count") != value.rows.count or "pre" in last.fields:
            return False
        last.dst = RowPlace(register.rows, stride=last.dst.stride)
        return True

    def register(self, reg: int, index: IRValue | None) -> Vector:
        if reg not in self.registers:
            size = self.kernel.register(reg).size
            self.registers[reg] = [self.emit.new(uniform=True, level=0, keeps=True) for _ in range(size)]
        found = self.registers[reg]
        if index is None:
            return found[0]
        at = self.value(index)
        if not isinstance(at, LaneConstant):
            raise UnsupportedError(
                "an array of registers at an index of data", hint="unset PCONTIG and leave out UPCAST"
            )
        return found[at.bits]

    # Values

    def value(self, root: IRValue) -> Value:
        return computed(
            root, self.memo, lambda node: node.srcs if isinstance(node, IROp) else (), self.compute
        )

    def compute(self, node: IRValue) -> Value:
        match node:
            case IRConst():
                return constant(node)
            case IRVariable():
                return constant(IRConst(self.variables[node.name], node.dtype))
            case IROp():
                return operation(self.emit, node, [self.memo[s] for s in node.srcs])
        raise AssertionError(f"{type(node).__name__} outside of its loop, in a verified kernel")


def computed(
    root: IRValue,
    memo: dict[IRValue, Value],
    needed: Callable[[IRValue], Sequence[IRValue]],
    compute: Callable[[IRValue], Value],
) -> Value:
    """A value, after those that it needs: without recursion, since chains of operations are long.

    Parameters
    ----------
    root : IRValue
        Whose value is wanted.
    memo : mapping of IRValue to Value
        Values that are known; gets those that are computed.
    needed : callable
        Nodes that must be computed before a node.
    compute : callable
        A node from the values in `memo`.
    """
    stack = [root]
    while stack:
        node = stack[-1]
        missing = [] if node in memo else [n for n in needed(node) if n not in memo]
        if missing:
            stack.extend(missing)
            continue
        stack.pop()
        if node not in memo:
            memo[node] = compute(node)
    return memo[root]


def _uses(statements: list[IRStatement]) -> tuple[dict[IRValue, int], Counter[IRValue]]:
    """Last statement that needs a value, through operations, and how many operands and statements name it."""
    last: dict[IRValue, int] = {}
    uses: Counter[IRValue] = Counter()
    for n in range(len(statements) - 1, -1, -1):
        stack = list(operands(statements[n]))
        uses.update(stack)
        while stack:
            value = stack.pop()
            if value in last:
                continue
            last[value] = n
            if isinstance(value, IROp):
                stack.extend(value.srcs)
                uses.update(value.srcs)
    return last, uses
