"""Whether the parts of a design that was read fit each other: its checksum may have been made anew.

The kernels keep the rules of the IR, and the program, the plans and the memories name only existing parts.  Plans
compute their kernels: operations follow from them, and planned kernels are compared with those of the program.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy.typing as npt

from tg2hdl_ir import InputError, ProgramIR, Tg2hdlError, verify
from tg2hdl_ir.program import check_contents
from tg2hdl_lower import HardwarePlan, MemoryArray, MemoryPlan, plan_faults
from tg2hdl_lower.plan.variants import have_one_shape
from tg2hdl_top.sequencer import SequencerPlan, Sharing
from tg2hdl_top.sequencer.check import check_timeline
from tg2hdl_top.validation.compare import WrongResult
from tg2hdl_top.validation.inputs import KINDS
from tg2hdl_top.validation.planned import PlannedProgram, plans_compared
from tg2hdl_top.validation.states import steps

__all__ = ["check_parts"]

MOST = 200_000_000
"""Largest number of executed statements of a program whose plans are evaluated and compared with its kernels."""

HINT = "compile the model again, or copy the file again"


class Parts(PlannedProgram, Protocol):
    """The parts of a `Design` that are compared with each other."""

    @property
    def preparation(self) -> ProgramIR | None: ...
    @property
    def sequencer(self) -> SequencerPlan: ...
    @property
    def sharing(self) -> Sharing: ...
    @property
    def cores(self) -> tuple[int, ...]: ...
    @property
    def buffers(self) -> tuple[MemoryPlan, ...]: ...
    @property
    def arrays(self) -> Sequence[MemoryArray]: ...
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
        if sum(steps(call.kernel) for call in design.program.calls) <= MOST:
            plans_compared(design, KINDS[:1], is_full=False)
    except WrongResult as wrong:
        raise InputError(f"a design whose parts do not fit: {wrong.what}", hint=HINT) from None
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
    programs = [program] if design.preparation is None else [program, design.preparation]
    for part in programs:
        yield from _program_faults(part)
    called = (call.kernel for part in programs for call in part.calls)
    for kernel in {*called, *design.sources, *(plan.kernel for plan in design.kernels)}:
        verify(kernel)
    check_contents(program, () if design.preparation is None else [b.name for b in program.buffers])
    for number, plan in {id(plan): (n, plan) for n, plan in enumerate(design.kernels)}.values():
        yield from plan_faults(plan, design.sources[number], design.options)
    for memory in design.buffers:
        if not memory.name.isidentifier():
            yield f"{memory.name!r} is not a name of a memory"
        for number, slot in memory.slots:
            if number not in range(calls) or slot not in program.calls[number].slots:
                yield f"memory {memory.name} is slot {slot} of call {number}, which does not exist"
    yield from _memory_faults(design)
    yield from _core_faults(design)
    for number, memory in design.memories.items():
        if memory.contents is not None and not _same(memory.contents, program.buffers[number].initial):
            yield f"memory {memory.name} has other contents than buffer {program.buffers[number].name}"


def _memory_faults(design: Parts) -> Iterator[str]:
    """Memories that are not as the plans of the kernels that use them say."""
    for memory in design.memories.values():
        given = memory.dtype
        for call, slot in memory.slots:
            plan, name = design.kernels[call], design.program.calls[call].kernel.name
            if (plan.storage[slot], plan.layouts[slot].merged()) != (given, memory.layout.merged()):
                yield f"memory {memory.name} is not the one that kernel {name} is planned for"
            reads = {
                memory.port_of((call, slot), port.number)
                for port in plan.ports
                if port.buffer == slot and port.reads
            }
            if not reads <= {*memory.ports}:
                yield f"memory {memory.name} does not have the read ports of kernel {name}"


def _core_faults(design: Parts) -> Iterator[str]:
    """Calls that cannot be runs of one core, and kernels that start before their data."""
    first: dict[int, HardwarePlan] = {}
    for core, plan in zip(design.cores, design.kernels, strict=True):
        other = first.setdefault(core, plan)
        if plan is not other and not have_one_shape(other, plan):
            yield f"kernels {other.kernel.name} and {plan.kernel.name} cannot share core {core}"
    check_timeline(design.sequencer, design.kernels, design.buffers, design.sharing, design.arrays)


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
        for meta, number in zip(call.kernel.buffers, call.buffers, strict=True):
            buffer = program.buffers[number]
            if (meta.depth, meta.dtype) != (buffer.depth, buffer.dtype):
                yield f"slot {meta.idx} of kernel {name} is not of the type and size of buffer {buffer.name}"
        if not {known_name for known_name, _ in call.values} <= {v.name for v in call.kernel.variables}:
            yield f"a call of kernel {name} has values of variables that do not exist"
    if not program.outputs or not {*program.outputs} <= {*known}:
        yield "an output is not a buffer"
