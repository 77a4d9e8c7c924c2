"""Compare the golden model with tinygrad's interpreter, kernel by kernel, on a captured program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from typing import Any

import numpy as np
import numpy.typing as npt
from tinygrad.uop.ops import UOp

from tg2hdl_backend.tinygrad_adapter.buffer_info import buffer_metas
from tg2hdl_backend.tinygrad_adapter.capture import CapturedProgram, capture
from tg2hdl_backend.tinygrad_adapter.reference import interpret, interprets
from tg2hdl_ir import IROp, KernelIR, Registry, evaluate, use_registry

__all__ = ["Comparison", "compare_with_interpreter", "interpreted_outputs", "operations", "ulp_difference"]

_ELEMENTARY = ("exp2", "log2", "sin")


@dataclass
class Comparison:
    """Outcome of a comparison.

    Parameters
    ----------
    outputs : list of ndarray
        Of the golden model.
    kernels, skipped : int
        Kernels that were compared, and those that the interpreter cannot run.
    elements : int
        Compared elements.
    worst_ulp : int
        Largest difference of a float result, in units of the last place, where elementary functions occur.
    mismatches : list of str
        A line per kernel whose results differ.
    """

    outputs: list[npt.NDArray[Any]] = field(default_factory=list)
    kernels: int = 0
    skipped: int = 0
    elements: int = 0
    worst_ulp: int = 0
    mismatches: list[str] = field(default_factory=list)


def compare_with_interpreter(
    model: Callable[..., Any] | CapturedProgram, *inputs: Any, fold: bool = False, ulp: int = 0
) -> Comparison:
    """Run each kernel of a model in both, on the same contents.

    An operation that rounds to an integer may differ in the sign of a zero, which the interpreter loses.
    Integers and IEEE basic operations must agree exactly.  `ulp` is allowed in kernels that contain an
    elementary function; any NaN equals any other.

    Parameters
    ----------
    model : callable or CapturedProgram
        Function of tensors, or what it was captured as.
    *inputs
        Example inputs.
    fold : bool, default False
        As of `capture`.
    ulp : int, default 0
        Allowed difference in units in the last place, of elementary functions.
    """
    captured = model if isinstance(model, CapturedProgram) else capture(model, *inputs, fold=fold)
    program = captured.program
    contents = _initial_contents(captured, inputs)
    result = Comparison()
    for call, uops in zip(program.calls, captured.kernel_uops, strict=True):
        kernel = call.kernel
        slots = {m.idx: number for m, number in zip(kernel.buffers, call.buffers, strict=True)}
        values = [captured.var_vals[v.name] for v in kernel.variables]
        golden = _evaluate(
            kernel, {s: contents[n] for s, n in slots.items()}, dict(zip(_names(kernel), values, strict=True))
        )
        arrays = [contents[n] for n in call.buffers]
        expected = interpret(uops, arrays, values) if _can_interpret(uops, arrays) else None
        if expected is not None:
            by_slot = dict(zip(slots, expected, strict=True))
            result.kernels += 1
            ops = operations(kernel)
            allowed = ulp if ops.intersection(_ELEMENTARY) else 0
            for slot, array in golden.items():
                result.elements += array.size
                expected_array = by_slot[slot]
                if "trunc" in ops and array.dtype.kind not in "biu":
                    array, expected_array = array + 0, expected_array + 0
                difference = ulp_difference(array, expected_array)
                result.worst_ulp = max(result.worst_ulp, difference)
                if difference > allowed:
                    result.mismatches.append(_describe(kernel, slot, array, by_slot[slot], difference))
        else:
            result.skipped += 1
        for slot, array in golden.items():
            contents[slots[slot]] = array
    result.outputs = _outputs(captured, contents)
    return result


def _can_interpret(uops: Sequence[UOp], arrays: Sequence[npt.NDArray[Any]]) -> bool:
    """Whether the interpreter can run a kernel, all of whose operands are whole buffers: it knows of no views."""
    if not uops or not interprets(uops):
        return False
    return [m.depth for m in buffer_metas(uops)] == [a.size for a in arrays]


def _evaluate(kernel: KernelIR, *arguments: Any) -> dict[int, npt.NDArray[Any]]:
    """Golden results of the ops themselves: units of plugins may differ by one unit in the last place."""
    with use_registry(_builtin()):
        return evaluate(kernel, *arguments)


@cache
def _builtin() -> Registry:
    points = metadata.entry_points(group="tg2hdl")
    return Registry([(p.dist.name, p) for p in points if p.dist is not None and p.dist.name == "tg2hdl-ir"])


def interpreted_outputs(captured: CapturedProgram, *inputs: Any) -> list[npt.NDArray[Any]]:
    """Outputs of a program whose kernels all run in tinygrad's interpreter, where it can run them."""
    contents = _initial_contents(captured, inputs)
    for call, uops in zip(captured.program.calls, captured.kernel_uops, strict=True):
        kernel = call.kernel
        values = {v.name: captured.var_vals[v.name] for v in kernel.variables}
        arrays = [contents[n] for n in call.buffers]
        results = interpret(uops, arrays, list(values.values())) if _can_interpret(uops, arrays) else None
        slots = {m.idx: number for m, number in zip(kernel.buffers, call.buffers, strict=True)}
        if results is None:
            golden = evaluate(kernel, {s: contents[n] for s, n in slots.items()}, values)
            contents.update({slots[s]: array for s, array in golden.items()})
        else:
            contents.update(zip(call.buffers, results, strict=True))
    return _outputs(captured, contents)


def ulp_difference(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> int:
    """Largest distance of two arrays in representable numbers; NaN equals NaN, integers count by value.

    Parameters
    ----------
    a, b : ndarray
        Of the same type and shape.
    """
    if a.dtype.kind in "biu":
        differs = a != b
        if not differs.any():
            return 0
        return max(abs(int(x) - int(y)) for x, y in zip(a[differs], b[differs], strict=True))
    both_nan = np.isnan(a) & np.isnan(b)
    if (np.isnan(a) ^ np.isnan(b)).any():
        return 1 << 62
    ordered = [_ordinal(x[~both_nan]) for x in (a, b)]
    return max((abs(int(x) - int(y)) for x, y in zip(*ordered, strict=True) if x != y), default=0)


def _ordinal(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Number of each float in the order of floats; +0 and -0 are neighbours."""
    bits = np.ascontiguousarray(array).view(f"i{array.dtype.itemsize}").astype(np.int64)
    top = np.int64(np.iinfo(f"i{array.dtype.itemsize}").min)
    return np.where(bits < 0, top - bits - 1, bits)


def operations(kernel: KernelIR) -> set[str]:
    """Names of the operations in a kernel."""
    seen: set[int] = set()
    found: set[str] = set()
    stack: list[Any] = list(kernel.loop_tree.statements())
    while stack:
        node = stack.pop()
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, IROp):
            found.add(node.op)
            stack.extend(node.srcs)
        else:
            stack.extend(getattr(node, f, None) for f in ("addr", "value", "index", "gate", "alt"))
    return found


def _initial_contents(captured: CapturedProgram, inputs: Sequence[Any]) -> dict[int, npt.NDArray[Any]]:
    contents = {
        n: np.zeros(b.depth, b.dtype.numpy()) if b.initial is None else b.initial.reshape(-1)
        for n, b in enumerate(captured.program.buffers)
    }
    given = captured.bind(*(i for i in inputs if not hasattr(i, "unbind")))
    return contents | dict(zip((s.buffer for s in captured.inputs), given.values(), strict=True))


def _outputs(captured: CapturedProgram, contents: dict[int, npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
    numbers = captured.program.outputs
    return [contents[n].reshape(s.shape) for n, s in zip(numbers, captured.outputs, strict=True)]


def _names(kernel: KernelIR) -> list[str]:
    return [v.name for v in kernel.variables]


def _describe(
    kernel: KernelIR, slot: int, got: npt.NDArray[Any], expected: npt.NDArray[Any], difference: int
) -> str:
    where = np.flatnonzero((got != expected) & ~((got != got) & (expected != expected)))
    n = int(where[0]) if where.size else 0
    return (
        f"kernel {kernel.name}, buffer {slot}: {where.size} of {got.size} elements differ by up to "
        f"{difference} ULP, first at {n}: golden {got[n]!r}, interpreter {expected[n]!r}"
    )
