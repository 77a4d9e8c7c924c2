"""Golden evaluation of one kernel."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from threading import Lock
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from tg2hdl_ir.dtype import DType
from tg2hdl_ir.errors import InputError
from tg2hdl_ir.golden.execute import Interpreter
from tg2hdl_ir.golden.plan import GoldenPlan
from tg2hdl_ir.nodes import BufferMeta, IRBufStore, IRConst, IROp, IRValue, IRVariable, KernelIR
from tg2hdl_ir.plugins.registry import registry

__all__ = ["KernelTrace", "TooMuchWork", "evaluate", "evaluate_within", "parallel_axes", "scalar"]

Array = npt.NDArray[Any]

_plans: OrderedDict[Any, GoldenPlan] = OrderedDict()
_plans_lock = Lock()
_KEPT = 256


def evaluate(
    kernel: KernelIR,
    buffers: Mapping[int, Array],
    variables: Mapping[str, int] | None = None,
    *,
    target: str = "generic",
    units: Mapping[str, str | Sequence[str]] | None = None,
) -> dict[int, Array]:
    """Run a kernel in software, bit for bit as its hardware computes.

    Parameters
    ----------
    kernel : KernelIR
    buffers : mapping of int to ndarray
        Contents by slot: as many elements as the buffer has, in its numpy type, of any shape.  A buffer that the
        kernel writes may be missing and then starts with zeros.
    variables : mapping of str to int
        Values of the run-time scalars.
    target, units :
        As in `Registry.select_unit`: they matter only where a unit brings its own golden evaluation.

    Returns
    -------
    dict of int to ndarray
        New flat contents of all buffers that the kernel writes; the arguments stay unchanged.

    Raises
    ------
    InputError
        On a missing, wrongly typed or wrongly sized buffer or variable.
    """
    return _evaluated(Interpreter, kernel, buffers, variables, target, units)[0]


class TooMuchWork(Exception):
    """An evaluation that would take more work than it was given."""


ELEMENTS_OF_A_STEP = 2000
"""Elements that take as long as the step that computes them."""


STEP = 0.3
"""Time of a step of a recurrence, as a part of that of a statement."""


class _Traced(Interpreter):
    """An execution that takes limited work and knows the elements that it has written."""

    def __init__(
        self,
        plan: GoldenPlan,
        buffers: dict[int, Array],
        variables: Mapping[str, int],
        work: float,
        iterations: Mapping[int, Array],
        registers: Mapping[int, Array],
    ) -> None:
        super().__init__(plan, buffers, variables)
        self.registers.restore(registers)
        self.left = work
        self.chosen = iterations
        self.written: dict[int, Array] = {}

    def tick(self) -> None:
        self.left -= 1 + math.prod(self.shape) / ELEMENTS_OF_A_STEP
        if self.left < 0:
            raise TooMuchWork

    def tick_step(self) -> None:
        self.left -= STEP
        if self.left < 0:
            raise TooMuchWork

    def write(self, buffer: int, address: Array, value: Array) -> None:
        super().write(buffer, address, value)
        if buffer not in self.written:
            self.written[buffer] = np.zeros(self.buffers[buffer].size, np.bool_)
        self.written[buffer][address] = True


@dataclass(frozen=True)
class KernelTrace:
    """An evaluation.

    Parameters
    ----------
    results : dict of int to ndarray
        As of `evaluate`.
    written : dict of int to ndarray of bool
        The elements of each result that the kernel wrote.
    work : float
        Steps of the evaluation, with the time that their elements take.
    registers : dict of int to ndarray
        What the registers hold in the end.
    """

    results: dict[int, Array]
    written: dict[int, Array]
    work: float
    registers: dict[int, Array]


def evaluate_within(
    work: float,
    kernel: KernelIR,
    buffers: Mapping[int, Array],
    variables: Mapping[str, int] | None = None,
    *,
    target: str = "generic",
    units: Mapping[str, str | Sequence[str]] | None = None,
    iterations: Mapping[int, Array] | None = None,
    registers: Mapping[int, Array] | None = None,
) -> KernelTrace:
    """Evaluate a kernel with limited work, the same on every machine; the other parameters are those of `evaluate`.

    Parameters
    ----------
    iterations : mapping of int to ndarray, optional
        Values of the counters of some axes, in increasing order: the loops run these iterations only.
    registers : mapping of int to ndarray, optional
        What registers hold before: zero unless given.

    Raises
    ------
    TooMuchWork
        When it takes more.
    """
    traced = partial(_Traced, work=work, iterations=iterations or {}, registers=registers or {})
    results, machine = _evaluated(traced, kernel, buffers, variables, target, units)
    nowhere = {idx: np.zeros(array.size, np.bool_) for idx, array in results.items()}
    held = machine.registers.contents()
    return KernelTrace(results, nowhere | machine.written, work - machine.left, held)


def parallel_axes(
    kernel: KernelIR,
    variables: Mapping[str, int],
    *,
    target: str = "generic",
    units: Mapping[str, str | Sequence[str]] | None = None,
) -> set[int]:
    """Axes of the loops whose iterations surely do not depend on each other; parameters as of `evaluate`.

    Parameters
    ----------
    kernel : KernelIR
    variables : mapping of str to int
        Values of the run-time variables.
    target, units
        As of `evaluate`.
    """
    plan = _plan(kernel, _variables(kernel, variables), target, units)
    loops = [loop for loop in plan.kernel.loop_tree.walk() if loop.counter is not None]
    carried = {loop.counter.axis for loop in loops if not plan.dependence.parallel(loop) and loop.counter}
    return {loop.counter.axis for loop in loops if loop.counter is not None} - carried


_Machine = TypeVar("_Machine", bound=Interpreter)


def _evaluated(
    machine: Callable[[GoldenPlan, dict[int, Array], Mapping[str, int]], _Machine],
    kernel: KernelIR,
    buffers: Mapping[int, Array],
    variables: Mapping[str, int] | None,
    target: str,
    units: Mapping[str, str | Sequence[str]] | None,
) -> tuple[dict[int, Array], _Machine]:
    values = _variables(kernel, variables or {})
    written = {s.buf_idx for s in kernel.loop_tree.statements() if isinstance(s, IRBufStore)}
    contents = {m.idx: _contents(kernel, m, buffers, m.idx in written) for m in kernel.buffers}
    run = machine(_plan(kernel, values, target, units), contents, values)
    run.run()
    return {idx: contents[idx] for idx in sorted(written)}, run


def _plan(
    kernel: KernelIR,
    variables: Mapping[str, int],
    target: str,
    units: Mapping[str, str | Sequence[str]] | None,
) -> GoldenPlan:
    known = registry()
    chosen = tuple(sorted((op, (n,) if isinstance(n, str) else tuple(n)) for op, n in (units or {}).items()))
    key = (kernel, tuple(variables.items()), known, known.generation, target, chosen)
    with _plans_lock:
        plan = _plans.pop(key, None)
        if plan is None:
            bounds = {
                loop.counter.axis: max(0, scalar(loop.bound, variables))
                for loop in kernel.loop_tree.walk()
                if loop.counter is not None
            }

            @cache
            def select(op: str, operands: tuple[DType, ...], result: DType) -> Any:
                return known.evaluation(op, operands, result, target=target, explicit=units)

            plan = GoldenPlan.of(kernel, bounds, select)
        _plans[key] = plan
        if len(_plans) > _KEPT:
            _plans.popitem(last=False)
    return plan


def scalar(value: int | IRValue, variables: Mapping[str, int]) -> int:
    """Number that a value of constants and variables has, e.g. a run-time trip count.

    Parameters
    ----------
    value : int or IRValue
        Made of constants and variables.
    variables : mapping of str to int
        Values of the run-time variables.
    """
    match value:
        case int():
            return value
        case IRConst():
            return int(value.value)
        case IRVariable():
            return variables[value.name]
        case IROp():
            types = tuple(s.dtype for s in value.srcs)
            operands = tuple(np.array(scalar(s, variables), dtype=s.dtype.numpy()) for s in value.srcs)
            return int(registry().evaluation(value.op, types, value.dtype)(operands, types, value.dtype))
    raise InputError(
        f"a trip count depends on {type(value).__name__}", hint="only constants and variables may decide it"
    )


def _variables(kernel: KernelIR, given: Mapping[str, int]) -> dict[str, int]:
    values: dict[str, int] = {}
    for variable in kernel.variables:
        if variable.name not in given:
            raise InputError(
                f"variable {variable.name!r} has no value",
                where=f"kernel {kernel.name}",
                hint=f"pass variables={{{variable.name!r}: {variable.low}...{variable.high}}}",
            )
        value = int(given[variable.name])
        if not variable.low <= value <= variable.high:
            raise InputError(
                f"variable {variable.name!r} is {value}, it must be between {variable.low} and {variable.high}",
                where=f"kernel {kernel.name}",
            )
        values[variable.name] = value
    return values


def _contents(kernel: KernelIR, meta: BufferMeta, buffers: Mapping[int, Array], written: bool) -> Array:
    where = f"kernel {kernel.name}, buffer {meta.idx}{f' ({meta.name})' if meta.name else ''}"
    storage = meta.dtype.numpy()
    if meta.idx not in buffers:
        if not written:
            raise InputError(
                "a buffer that the kernel reads has no contents",
                where=where,
                hint=f"pass them by slot: {{{meta.idx}: array}}",
            )
        return np.zeros(meta.depth, dtype=storage)
    array = np.asarray(buffers[meta.idx])
    if array.dtype != storage:
        raise InputError(
            f"contents have type {array.dtype}, expected {storage}",
            where=where,
            hint=f"convert with .astype({str(storage)!r})",
        )
    if array.size != meta.depth:
        raise InputError(f"contents have {array.size} elements, expected {meta.depth}", where=where)
    flat = array.reshape(-1)
    return flat.copy() if written else flat
