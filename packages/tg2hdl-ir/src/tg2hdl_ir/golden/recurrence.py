"""Loops with loop-carried registers: everything independent of these is vectorized over many iterations.

A perfect nest of such loops with straight-line code inside is one sequence of steps.  Its statements are cut in three:
values that the registers need but that do not depend on them (all steps at once), the updates of the registers (step by
step, or folded by one numpy call), and the rest (all steps at once again, with the registers' values of each step).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir.analysis.dependence import Element, element
from tg2hdl_ir.dtype import DType
from tg2hdl_ir.golden.evaluation import Evaluation
from tg2hdl_ir.golden.fold import GoldenFold, find_fold
from tg2hdl_ir.golden.plan import GoldenPlan, post_order
from tg2hdl_ir.golden.segments import Segments, find_segments
from tg2hdl_ir.nodes import (
    IRBufLoad,
    IRBufStore,
    IROp,
    IRRegLoad,
    IRRegStore,
    IRStatement,
    IRValue,
    LoopIR,
    operands,
)

__all__ = ["Recurrence", "find_recurrence"]

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Recurrence:
    """A perfect nest that carries registers.

    Parameters
    ----------
    nest : tuple of LoopIR
        Outermost first; the last one holds the statements.
    segments : tuple of Segments
        Registers whose value in each step is computed before everything else.
    core : tuple of statements
        Loads and stores of the other carried registers, in order.
    early : tuple of loads
        Loads that the core needs and that do not depend on it, in order.
    tainted : tuple of IROp
        Ops between the carried loads and stores, operands first.
    inputs : tuple of values
        Other values that these ops and stores read.
    late : tuple of statements
        Everything else, in order.
    folds : tuple of GoldenFold
        Register updates that one numpy call does; None when they must be done step by step.
    """

    nest: tuple[LoopIR, ...]
    segments: tuple[Segments, ...]
    core: tuple[IRRegLoad | IRRegStore, ...]
    early: tuple[IRStatement, ...]
    tainted: tuple[IROp, ...]
    inputs: tuple[IRValue, ...]
    late: tuple[IRStatement, ...]
    folds: tuple[GoldenFold, ...] | None

    def run(self, evaluation: Evaluation) -> None:
        """Execute all iterations of the nest."""
        bounds = tuple(len(evaluation.counts(loop)) for loop in self.nest)
        total = int(np.prod(bounds))
        chunk = max(1, min(total, evaluation.room()))
        for start in range(0, total, chunk):
            self._chunk(evaluation, bounds, start, min(total, start + chunk))

    def _chunk(self, evaluation: Evaluation, bounds: tuple[int, ...], start: int, stop: int) -> None:
        evaluation.enter(self.nest, stop - start)
        numbers = np.unravel_index(np.arange(start, stop), bounds)
        for loop, places in zip(self.nest, numbers, strict=True):
            assert loop.counter is not None, "the root is not part of a nest"
            values = evaluation.counts(loop)[places]
            evaluation.frames[-1][loop.counter] = evaluation.axis(values, loop.counter.dtype)
        for statement in self.early:
            evaluation.statement(statement)
        sums: dict[Element, Array] = {}
        for segments in self.segments:
            register = segments.fold.register
            known = {value: evaluation.value(value) for value in segments.inputs}
            before, sums[register] = segments.run(
                evaluation.registers.elements[register], known, evaluation.shape
            )
            evaluation.frames[-1][segments.fold.load] = before
        inputs = {value: evaluation.value(value) for value in self.inputs}
        registers = {element(s): evaluation.registers.elements[element(s)] for s in self.core}
        seen: dict[IRValue, Array] = {}
        if self.folds is not None:
            for fold in self.folds:
                loaded, final = fold.run(
                    registers[fold.register], inputs, evaluation.shape, each=bool(self.late)
                )
                registers[fold.register] = final
                if loaded is not None:
                    seen[fold.load] = loaded
        else:
            seen = self._steps(evaluation, inputs, registers)
        evaluation.frames[-1].update(seen)
        for statement in self.late:
            evaluation.statement(statement)
        evaluation.leave()
        evaluation.registers.elements.update(registers | sums)

    def _steps(
        self, evaluation: Evaluation, inputs: dict[IRValue, Array], registers: dict[Element, Array]
    ) -> dict[IRValue, Array]:
        """Execute the core step by step; `registers` ends with the last values."""
        size, dimensions = evaluation.shape[0], len(evaluation.shape)
        stepped = [(v, a) for v, a in inputs.items() if a.ndim == dimensions and a.shape[0] > 1]
        values = {v: a[0] if a.ndim == dimensions else a for v, a in inputs.items()}
        work = self._work(evaluation)
        shape = evaluation.shape[1:]
        recorded = [s for s in self.core if isinstance(s, IRRegLoad) and self.late]
        record: dict[IRValue, Array] = {s: np.empty((size, *shape), s.dtype.numpy()) for s in recorded}
        for n in range(size):
            evaluation.tick_step()
            for value, array in stepped:
                values[value] = array[n]
            for statement, key, ops in work:
                if isinstance(statement, IRRegLoad):
                    values[statement] = registers[key]
                    if statement in record:
                        record[statement][n] = registers[key]
                    continue
                for op, function, types in ops:
                    values[op] = function(tuple([values[s] for s in op.srcs]), types, op.dtype)
                new = values[statement.value]
                if statement.gate is not None:
                    new = np.where(values[statement.gate], new, registers[key])
                registers[key] = np.asarray(new)
        return record

    def _work(
        self, evaluation: Evaluation
    ) -> list[
        tuple[IRRegLoad | IRRegStore, Element, list[tuple[IROp, Callable[..., Array], tuple[DType, ...]]]]
    ]:
        """Statements of the core, each with the ops to evaluate before it."""
        pending = iter(self.tainted)
        done: set[IRValue] = set(self.inputs)
        work = []
        for statement in self.core:
            ops = []
            if isinstance(statement, IRRegStore):
                needed = [v for v in (statement.value, statement.gate) if isinstance(v, IROp)]
                while not done.issuperset(needed):
                    op = next(pending)
                    step = evaluation.plan.step(op)
                    ops.append((op, step.function, step.types))
                    done.add(op)
            work.append((statement, element(statement), ops))
        return work


def find_recurrence(plan: GoldenPlan, loop: LoopIR) -> Recurrence | None:
    """Recurrence of a loop, or None when it must be executed statement by statement.

    Parameters
    ----------
    plan : GoldenPlan
        Of the kernel.
    loop : LoopIR
        Outermost loop of a perfect nest, or the innermost one only.
    """
    nest = loop.perfect_nest
    leaf = nest[-1]
    if leaf.loops or any(plan.dependence.bound(one) == 0 for one in nest):
        return None
    if not all(plan.dependence.buffers_allow(one, nest) for one in nest):
        return None
    statements = [s for s in leaf.items if not isinstance(s, LoopIR)]
    use = plan.dependence.use(leaf)
    carried = use.carried
    if any(e[0] in plan.dynamic for e in use.written | use.exposed | {e for e, _ in use.masked}):
        return None
    core = tuple(s for s in statements if isinstance(s, IRRegLoad | IRRegStore) and element(s) in carried)
    segments = _segments(core)
    sums = {segment.fold.register for segment in segments}
    core = tuple(s for s in core if element(s) not in sums)
    tainted, inputs, loads = _slice(core)
    known = {segment.fold.load for segment in segments}
    loads = loads - known | _loads([v for segment in segments for v in segment.inputs])
    position = {s: n for n, s in enumerate(statements)}
    for load in loads:
        if load in position and not _is_early(load, position, statements, carried, use.written, tainted):
            return None
    early = tuple(s for s in statements if s in loads and s not in core)
    done = {*core, *early, *known, *(segment.store for segment in segments)}
    rest = [s for s in statements if s not in done]
    needed = any(isinstance(s, IRBufStore | IRRegStore) for s in rest)
    return Recurrence(
        tuple(nest),
        segments,
        core,
        early,
        tuple(tainted),
        tuple(inputs),
        tuple(rest) if needed else (),
        _folds(core, tainted),
    )


def _segments(core: tuple[IRRegLoad | IRRegStore, ...]) -> tuple[Segments, ...]:
    carried: set[IRValue] = {s for s in core if isinstance(s, IRRegLoad)}
    registers = dict.fromkeys(element(s) for s in core)
    found = (find_segments([s for s in core if element(s) == register], carried) for register in registers)
    return tuple(segments for segments in found if segments is not None)


def _loads(roots: list[IRValue]) -> set[IRBufLoad | IRRegLoad]:
    return {node for node in post_order(roots, operands) if isinstance(node, IRBufLoad | IRRegLoad)}


def _slice(
    core: tuple[IRRegLoad | IRRegStore, ...],
) -> tuple[list[IROp], list[IRValue], set[IRBufLoad | IRRegLoad]]:
    """Ops that depend on the carried loads, their other operands, and the loads that those need."""
    roots = [v for s in core if isinstance(s, IRRegStore) for v in (s.value, s.gate) if v is not None]
    own = {s for s in core if isinstance(s, IRRegLoad)}
    order = list(post_order(roots, operands))
    dependent: set[IRValue] = set(own)
    for node in order:
        if any(s in dependent for s in operands(node)):
            dependent.add(node)
    tainted = [node for node in order if node in dependent and isinstance(node, IROp)]
    inputs: dict[IRValue, None] = {v: None for v in roots if v not in dependent}
    for op in tainted:
        inputs.update({s: None for s in op.srcs if s not in dependent})
    loads = {n for n in order if isinstance(n, IRBufLoad | IRRegLoad) and n not in own}
    return tainted, list(inputs), loads


def _is_early(
    load: IRBufLoad | IRRegLoad,
    position: dict[IRStatement, int],
    statements: list[IRStatement],
    carried: set[Element],
    written: set[Element],
    tainted: list[IROp],
) -> bool:
    """Whether a load of the leaf may run before everything else."""
    if isinstance(load, IRRegLoad):
        return element(load) not in written
    if any(_depends(v, carried) for v in operands(load)):
        return False
    before = statements[: position[load]]
    return not any(isinstance(s, IRBufStore) and s.buf_idx == load.buf_idx for s in before)


def _depends(value: IRValue, carried: set[Element]) -> bool:
    return any(isinstance(n, IRRegLoad) and element(n) in carried for n in post_order([value], operands))


def _folds(core: tuple[IRRegLoad | IRRegStore, ...], tainted: list[IROp]) -> tuple[GoldenFold, ...] | None:
    found: list[GoldenFold] = []
    for register in dict.fromkeys(element(s) for s in core):
        fold = find_fold([s for s in core if element(s) == register], set(tainted))
        if fold is None:
            return None
        found.append(fold)
    return tuple(found)
