"""Whether the parts of a design that was read fit each other: its checksum may have been made anew.

The kernels keep the rules of the IR, and the program, the plans and the memories name only what there is.  That the
operations of a plan compute its kernel is not proven here: a simulation compares them with the golden model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import numpy.typing as npt

from tg2hdl_ir.errors import InputError, Tg2hdlError
from tg2hdl_ir.nodes import KernelIR
from tg2hdl_ir.program import ProgramIR, check_contents
from tg2hdl_ir.verifier import verify
from tg2hdl_lower import HardwarePlan
from tg2hdl_lower.memory.plan import MemoryPlan

__all__ = ["check_parts"]

HINT = "compile the model again, or copy the file again"


class Parts(Protocol):
    """The parts of a `Design` that are compared with each other."""

    @property
    def program(self) -> ProgramIR: ...
    @property
    def preparation(self) -> ProgramIR | None: ...
    @property
    def kernels(self) -> tuple[HardwarePlan, ...]: ...
    @property
    def sources(self) -> tuple[KernelIR, ...]: ...
    @property
    def buffers(self) -> tuple[MemoryPlan, ...]: ...
    @property
    def memories(self) -> Mapping[int, MemoryPlan]: ...
    def format(self) -> str: ...


def check_parts(design: Parts) -> None:
    """Raise where parts of a design do not fit each other.

    Raises
    ------
    InputError
        For the first part that does not; a verification error says which rule of the IR a kernel breaks.
    """
    try:
        for fault in _faults(design):
            raise InputError(f"a design whose parts do not fit: {fault}", hint=HINT)
        design.format()
    except Tg2hdlError:
        raise
    except Exception as error:  # Any part may be missing.
        raise InputError(
            f"a design whose parts do not fit: {type(error).__name__}: {error}", hint=HINT
        ) from error


def _faults(design: Parts) -> Iterator[str]:
    program, calls = design.program, len(design.program.calls)
    for name in ("kernels", "sources", "cores"):
        if len(getattr(design, name)) != calls:
            yield f"{len(getattr(design, name))} {name} for {calls} calls"
    for part in (program, *([design.preparation] if design.preparation is not None else [])):
        yield from _program_faults(part)
    for kernel in {*design.sources, *(plan.kernel for plan in design.kernels)}:
        verify(kernel)
    check_contents(program, () if design.preparation is None else [b.name for b in program.buffers])
    for plan in {id(plan): plan for plan in design.kernels}.values():
        yield from _plan_faults(plan)
    for memory in design.buffers:
        if not memory.name.isidentifier():
            yield f"{memory.name!r} is not a name of a memory"
        for number, slot in memory.slots:
            if number not in range(calls) or slot not in program.calls[number].slots:
                yield f"memory {memory.name} is slot {slot} of call {number}, which does not exist"
    for number, memory in design.memories.items():
        if memory.contents is not None and not _same(memory.contents, program.buffers[number].initial):
            yield f"memory {memory.name} has other contents than buffer {program.buffers[number].name}"


def _same(one: npt.NDArray[Any], two: npt.NDArray[Any] | None) -> bool:
    """Whether two arrays have the same bits."""
    return two is not None and one.dtype == two.dtype and one.tobytes() == two.tobytes()


def _program_faults(program: ProgramIR) -> Iterator[str]:
    for buffer in program.buffers:
        if buffer.initial is not None and (
            buffer.initial.size != buffer.depth or buffer.initial.dtype != buffer.dtype.numpy()
        ):
            yield f"buffer {buffer.name} has {buffer.initial.size} elements of {buffer.initial.dtype}"
    known = range(len(program.buffers))
    for call in program.calls:
        name = call.kernel.name
        if len(call.buffers) != len(call.kernel.buffers) or not {*call.buffers} <= {*known}:
            yield f"a call of kernel {name} has buffers that do not exist"
            return
        verify(call.kernel)
        for meta, number in zip(call.kernel.buffers, call.buffers, strict=True):
            buffer = program.buffers[number]
            if (meta.depth, meta.dtype) != (buffer.depth, buffer.dtype):
                yield f"slot {meta.idx} of kernel {name} is not of the type and size of buffer {buffer.name}"
        if not {known_name for known_name, _ in call.values} <= {v.name for v in call.kernel.variables}:
            yield f"a call of kernel {name} has values of variables that do not exist"
    if not program.outputs or not {*program.outputs} <= {*known}:
        yield "an output is not a buffer"


def _plan_faults(plan: HardwarePlan) -> Iterator[str]:
    name = plan.kernel.name
    for number, node in plan.nodes.items():
        if node.number != number or not {*node.operands} <= plan.nodes.keys():
            yield f"operation {number} of kernel {name} has operands that do not exist"
    for leaf in plan.leaves:
        if not {*leaf.nodes} <= plan.nodes.keys():
            yield f"leaf {leaf.number} of kernel {name} has operations that do not exist"
    slots = {meta.idx for meta in plan.kernel.buffers}
    if not {port.buffer for port in plan.ports} <= slots:
        yield f"a port of kernel {name} is of a buffer that it does not have"
