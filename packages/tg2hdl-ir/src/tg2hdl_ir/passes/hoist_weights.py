"""Hoisting: expressions of weights are computed at compile time and read from a table."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir.analysis.fixed_values import FixedValues
from tg2hdl_ir.analysis.ranges import RangeAnalysis, bits_for
from tg2hdl_ir.dtype import DType
from tg2hdl_ir.golden.kernel import evaluate
from tg2hdl_ir.nodes import (
    BufferMeta,
    IRBufLoad,
    IRBufStore,
    IRConst,
    IRItem,
    IROp,
    IRStatement,
    IRValue,
    KernelIR,
    LoopIR,
)
from tg2hdl_ir.passes.dead_loads import without_dead_loads
from tg2hdl_ir.passes.instrument import ir_pass
from tg2hdl_ir.passes.rewrite import Rewriter
from tg2hdl_ir.passes.table_proof import Replacement, prove
from tg2hdl_ir.passes.weight_expressions import WeightExpression, weight_expressions
from tg2hdl_ir.program import KernelCall, ProgramBuffer, ProgramIR
from tg2hdl_ir.verifier import verify

__all__ = ["hoist_weights"]

Array = npt.NDArray[Any]


@ir_pass("hoist-weights", "expressions of weights become tables", term="partial evaluation of invariants")
def hoist_weights(
    program: ProgramIR,
    *,
    loadable: bool = False,
    target: str = "generic",
    units: Mapping[str, str | Sequence[str]] | None = None,
) -> tuple[ProgramIR, ProgramIR | None]:
    """Replace expressions of weights by weights that hold their values, where that takes no larger memory.

    A table may be larger than its operands only up to 16 kbit, and only if it saves a multiplier or a
    floating-point unit.  Every result keeps its bits: each table is compared with the expression in the kernel at all
    values of its counters.

    Parameters
    ----------
    program : ProgramIR
    loadable : bool
        Weights change at run time: their contents decide neither widths nor constants.
    target, units :
        As in `evaluate`.

    Returns
    -------
    program : ProgramIR
        The program with the new weights after the old buffers, which keep their numbers.
    preparation : ProgramIR or None
        Computes the new weights, its outputs, from the old ones; None without new ones.

    Raises
    ------
    IRVerificationError
        When a table differs from its expression: a bug of this pass.
    """
    weights = program.constant_buffers()

    def run(kernel: KernelIR, contents: Mapping[int, Array]) -> dict[int, Array]:
        return evaluate(kernel, contents, target=target, units=units)

    held = {n: np.asarray(program.buffers[n].initial).reshape(-1) for n in weights}
    tables = _Tables(program, run, [held, _OtherContents(program)] if loadable else [held])
    calls = []
    for call in program.calls:
        slots = call.slots
        fixed = FixedValues([slot for slot, number in slots.items() if number in weights])
        calls.append(_rewritten(call, slots, fixed, tables) if fixed.weights else call)
    hoisted = replace(program, buffers=(*program.buffers, *tables.buffers), calls=tuple(calls))
    return hoisted, tables.preparation()


@dataclass
class _Tables:
    """The new weights, one for each expression.

    Parameters
    ----------
    contents : list of mappings of int to ndarray
        Contents of the weights, old and new, by program buffer: those of the program and, where weights are loadable,
        others.
    """

    program: ProgramIR
    run: Callable[[KernelIR, Mapping[int, Array]], dict[int, Array]]
    contents: list[dict[int, Array]]
    buffers: list[ProgramBuffer] = field(default_factory=list)
    calls: list[tuple[KernelIR, tuple[int, ...]]] = field(default_factory=list)
    known: dict[Hashable, IRConst | int | None] = field(default_factory=dict)

    def of(
        self, kernel: KernelIR, expression: WeightExpression, slots: Mapping[int, int]
    ) -> IRConst | int | None:
        """Constant, or number of the buffer, that an expression becomes; None where it stays."""
        key = expression.key(slots)
        if key not in self.known:
            self.known[key] = self._made(kernel, expression, slots)
        return self.known[key]

    def _made(
        self, kernel: KernelIR, expression: WeightExpression, slots: Mapping[int, int]
    ) -> IRConst | int | None:
        sources = dict.fromkeys(slots[load.buf_idx] for load in expression.loads)
        read = sum(self.program.buffers[n].depth * self.program.buffers[n].dtype.bit_width for n in sources)
        # Contents may need fewer bits than the type of the expression, but at least one.
        if not expression.is_worth(expression.depth, read):
            return None
        name = self._name([self.program.buffers[n].name for n in sources])
        dtype = expression.root.dtype
        made = expression.kernel(kernel, name)
        operands = tuple(slots[meta.idx - 1] for meta in made.buffers[1:])
        held, *others = [self._computed(made, operands, contents) for contents in self.contents]
        if others:
            dtype = _narrow(RangeAnalysis().of(expression.root), dtype)
        else:
            if (dtype.array_to_bits(held) == dtype.array_to_bits(held[:1])).all():
                return IRConst(held[0].item(), dtype)
            if dtype.is_int:
                dtype = _narrow((int(held.min()), int(held.max())), dtype)
        if not expression.is_worth(expression.depth * dtype.bit_width, read):
            return None
        held, *others = [array.astype(dtype.numpy()) for array in (held, *others)]
        number = len(self.program.buffers) + len(self.buffers)
        for contents, array in zip(self.contents, (held, *others), strict=True):
            contents[number] = array
        self.buffers.append(ProgramBuffer(name, dtype, (expression.depth,), "weight", held))
        self.calls.append((_stored_as(made, dtype), operands))
        return number

    def _computed(self, made: KernelIR, operands: tuple[int, ...], contents: Mapping[int, Array]) -> Array:
        given = {meta.idx: contents[n] for meta, n in zip(made.buffers[1:], operands, strict=True)}
        return self.run(made, given)[0]

    def _name(self, sources: list[str]) -> str:
        taken = {b.name for b in (*self.program.buffers, *self.buffers)}
        name = base = "_".join(dict.fromkeys((sources[0], sources[-1]))) + "_prepared"
        number = 1
        while name in taken:
            name, number = f"{base}_{number}", number + 1
        return name

    def preparation(self) -> ProgramIR | None:
        """Program of the new weights."""
        if not self.buffers:
            return None
        used = sorted({n for _, operands in self.calls for n in operands})
        place = {n: number for number, n in enumerate(used)}
        made = tuple(replace(b, role="output", initial=None) for b in self.buffers)
        calls = tuple(
            KernelCall(kernel, (len(used) + n, *(place[s] for s in operands)))
            for n, (kernel, operands) in enumerate(self.calls)
        )
        buffers = (*(self.program.buffers[n] for n in used), *made)
        outputs = tuple(range(len(used), len(buffers)))
        return ProgramIR(f"{self.program.name}_weights", buffers, calls, outputs)


class _OtherContents(dict[int, Array]):
    """Weights that could be loaded: distinct floats, and integers that are indices of most tables."""

    def __init__(self, program: ProgramIR) -> None:
        super().__init__()
        self.program = program
        self.random = np.random.default_rng(0)

    def __missing__(self, number: int) -> Array:
        depth, dtype = self.program.buffers[number].depth, self.program.buffers[number].dtype
        if dtype.is_float:
            drawn: Array = self.random.standard_normal(depth, np.float32)
        else:
            drawn = self.random.integers(0, min(3, dtype.max_value) + 1, depth)
        self[number] = drawn.astype(dtype.numpy())
        return self[number]


def _narrow(interval: tuple[int, int], dtype: DType) -> DType:
    if not dtype.is_int:
        return dtype
    width, signed = bits_for(interval)
    return DType.from_width(width, signed) if width < dtype.bit_width else dtype


def _stored_as(kernel: KernelIR, dtype: DType) -> KernelIR:
    """Kernel of a table that is stored in another integer type."""
    if kernel.buffers[0].dtype == dtype:
        return kernel

    def stored(loop: LoopIR) -> LoopIR:
        items: list[IRItem] = []
        for item in loop.items:
            if isinstance(item, LoopIR):
                item = stored(item)
            elif isinstance(item, IRBufStore):
                item = replace(item, value=IROp("cast", dtype, (item.value,)), dtype=dtype)
            items.append(item)
        return LoopIR.from_items(tuple(items), counter=loop.counter, axis_type=loop.axis_type)

    buffers = (replace(kernel.buffers[0], dtype=dtype), *kernel.buffers[1:])
    return replace(kernel, buffers=buffers, loop_tree=stored(kernel.loop_tree))


def _rewritten(call: KernelCall, slots: Mapping[int, int], fixed: FixedValues, tables: _Tables) -> KernelCall:
    kernel = call.kernel
    chosen: dict[WeightExpression, IRConst | int] = {}

    def accept(expression: WeightExpression) -> bool:
        made = tables.of(kernel, expression, slots)
        if made is not None:
            chosen[expression] = made
        return made is not None

    found = weight_expressions(kernel, fixed, accept)
    # The contents of loadable weights are not constants.
    scalars = _scalars(kernel, fixed) if len(tables.contents) == 1 else []
    if not found and not scalars:
        return call
    rewriter = Rewriter()
    for load in scalars:
        value = tables.contents[0][slots[load.buf_idx]][0]
        rewriter.memo[load] = IRConst(value.item(), load.dtype)
    metas = list(kernel.buffers)
    numbers = dict(slots)
    reads: dict[IRStatement, list[IRBufLoad]] = {}
    replaced = [Replacement(load, rewriter.memo[load], (load,), "a constant") for load in scalars]
    for expression in found:
        made = chosen[expression]
        if isinstance(made, IRConst):
            rewriter.memo[expression.root] = made
            replaced.append(Replacement(expression.root, made, expression.loads, "a constant"))
            continue
        buffer = tables.buffers[made - len(tables.program.buffers)]
        slot = next((idx for idx, n in numbers.items() if n == made), None)
        if slot is None:
            slot = 1 + max(meta.idx for meta in metas)
            metas.append(BufferMeta(slot, buffer.depth, buffer.dtype, False, buffer.name))
            numbers[slot] = made
        load = IRBufLoad(slot, rewriter.value(expression.address), buffer.dtype)
        reads.setdefault(expression.loads[-1], []).append(load)
        rewriter.memo[expression.root] = rewriter.folder.op("cast", expression.root.dtype, load)
        new = rewriter.memo[expression.root]
        replaced.append(Replacement(expression.root, new, (*expression.loads, load), buffer.name))
    for contents in tables.contents:
        given = {idx: contents[n] for idx, n in numbers.items() if n in contents}
        for replacement in replaced:
            prove(kernel, replacement, metas, given, tables.run)
    gone = {replacement.old for replacement in replaced}
    tree = without_dead_loads(_inserted(kernel.loop_tree, reads, gone, rewriter))
    used = {s.buf_idx for s in tree.statements() if isinstance(s, IRBufLoad | IRBufStore)}
    kept = tuple(meta for meta in metas if meta.idx in used)
    return KernelCall(
        verify(replace(kernel, buffers=kept, loop_tree=tree)), tuple(numbers[meta.idx] for meta in kept)
    )


def _scalars(kernel: KernelIR, fixed: FixedValues) -> list[IRBufLoad]:
    """Loads of weights of one element."""
    loads = (s for s in kernel.loop_tree.statements() if isinstance(s, IRBufLoad))
    return [
        load
        for load in loads
        if load.buf_idx in fixed.weights and load.gate is None and kernel.buffer(load.buf_idx).depth == 1
    ]


def _inserted(
    loop: LoopIR,
    reads: Mapping[IRStatement, list[IRBufLoad]],
    gone: Collection[IRValue],
    rewriter: Rewriter,
) -> LoopIR:
    items: list[IRItem] = []
    for item in loop.items:
        if isinstance(item, LoopIR):
            items.append(_inserted(item, reads, gone, rewriter))
            continue
        if item not in gone:
            items.append(rewriter.statement(item))
        items.extend(reads.get(item, ()))
    return LoopIR.from_items(tuple(items), counter=loop.counter, axis_type=loop.axis_type)
