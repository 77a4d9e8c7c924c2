"""The storage of each accumulator: flip-flops, LUT RAM, or a delay line.

Where independent outputs are interleaved, every element is written once in each round and read once in the next, a
fixed number of cycles later: a delay line instead of a memory with an address.
"""

from __future__ import annotations

from dataclasses import replace

from tg2hdl_lower.dataflow.dataflow import Dataflow
from tg2hdl_lower.plan.delay_line import DelayLine
from tg2hdl_lower.plan.operations import SharedOperation, UnitOp
from tg2hdl_lower.plan.placement import Schedule
from tg2hdl_lower.plan.registers import (
    AccumulatorLine,
    AccumulatorMemory,
    AccumulatorRegister,
    AccumulatorStorage,
    RegisterRead,
    RegisterWrite,
)
from tg2hdl_lower.schedule.control_registers import is_known_before
from tg2hdl_lower.schedule.dependences import reuse_period

__all__ = ["accumulators", "with_delay_lines"]


def with_delay_lines(flow: Dataflow, *, single: bool = False) -> tuple[Dataflow, dict[int, int]]:
    """Make delay lines of register arrays in which each step writes the element that it reads: they need no index.

    Parameters
    ----------
    single : bool
        Also of single registers: the result of a unit is then its operand of the next step, without a register between.

    Returns
    -------
    flow : Dataflow
    lines : dict of int to int
        Steps from writing an element to reading it, by register.
    """
    lines: dict[int, int] = {}
    for register in flow.kernel.registers:
        reads = [n for n in flow.all(RegisterRead) if n.register == register.idx]
        writes = [n for n in flow.all(RegisterWrite) if n.register == register.idx]
        if len(reads) != 1 or len(writes) != 1 or (register.size == 1 and not single):
            continue
        read, write = reads[0], writes[0]
        source = flow.nodes[write.value]
        same = read.leaf == write.leaf and read.index == write.index and write.gate is None
        # The result of a unit comes from its own register.
        from_unit = isinstance(source, UnitOp) and not isinstance(source, SharedOperation)
        if same and from_unit and (register.size == 1 or reuse_period(flow, read) == register.size):
            lines[register.idx] = register.size
            changed = {n.number: replace(n, index=None) for n in (read, write)}
            flow = flow.with_nodes(changed)
    return flow, lines


def accumulators(flow: Dataflow, schedule: Schedule, lines: dict[int, int]) -> dict[int, AccumulatorStorage]:
    """The storage of the registers of a scheduled kernel; without those that nothing uses.

    Parameters
    ----------
    flow : Dataflow
    schedule : Schedule
    lines : dict of int to int
        Registers that are delay lines, with their length in steps.
    """
    found: dict[int, AccumulatorStorage] = {}
    for register in flow.kernel.registers:
        reads = [n for n in flow.all(RegisterRead) if n.register == register.idx]
        writes = [n for n in flow.all(RegisterWrite) if n.register == register.idx]
        if not reads and not writes:
            continue
        example = (*reads, *writes)[0]
        shape = example.width, example.signed
        if register.idx in lines:
            issues = [schedule.placements[n.number].issue for n in (reads[0], writes[0])]
            cycles = lines[register.idx] * schedule.ii + issues[0] - issues[1]
            width = flow.nodes[writes[0].value].width
            found[register.idx] = AccumulatorLine(*shape, lines[register.idx], DelayLine.of(cycles, width))
        elif register.size == 1:
            # Some start at zero, because the last step clears them; a reset may end a run before that.
            found[register.idx] = AccumulatorRegister(*shape, any(_cleared(schedule, w) for w in writes))
        else:
            found[register.idx] = AccumulatorMemory(*shape, register.size)
    return found


def _cleared(schedule: Schedule, write: RegisterWrite) -> bool:
    """Whether a register says when an accumulator is cleared, because that is known a cycle before."""
    return write.clear is not None and is_known_before(schedule, write.clear.flag, write)
