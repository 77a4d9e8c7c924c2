"""Readers and writers of each buffer of a program."""

from __future__ import annotations

from tg2hdl_ir import ProgramIR
from tg2hdl_lower.memory.use import MemoryRole
from tg2hdl_top.options import CompileOptions
from tg2hdl_top.ports.base import need_identity
from tg2hdl_top.row_programs import row_spans

__all__ = ["buffer_roles"]


def buffer_roles(program: ProgramIR, options: CompileOptions) -> dict[int, MemoryRole]:
    """Role of each buffer by number.

    State is within reach of the host where a host port has a register map, unless runs overlap or `host_state` is off.

    Parameters
    ----------
    program : ProgramIR
    options : CompileOptions
        Whose schedule and ports decide what the host reaches.
    """
    states = program.state_buffers()
    reached = set(states) if options.host_state and options.schedule != "dataflow" else set()
    if reached and not need_identity(options.ports):
        reached.clear()
    accesses = [call.accesses() for call in program.calls]
    written = set().union(*(writes for _, writes in accesses))
    in_place = set().union(*(reads & writes for reads, writes in accesses))
    spans = {}
    if options.schedule == "rows":
        moving = [n for n, b in enumerate(program.buffers) if b.role != "weight" and b.initial is None]
        spans = {n: row_spans(program, n) for n in moving}
    return {
        number: MemoryRole(
            written=number in written,
            in_place=number in in_place,
            host_writes=buffer.role == "input"
            or (buffer.role == "weight" and options.weights == "loadable")
            or number in reached,
            host_reads=number in program.outputs or number in reached,
            is_weight=buffer.role == "weight",
            is_state=number in states,
            streamed=buffer.role == "external",
            spans=spans.get(number, ()),
        )
        for number, buffer in enumerate(program.buffers)
    }
