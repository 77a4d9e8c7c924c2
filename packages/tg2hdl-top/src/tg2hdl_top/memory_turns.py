"""Memories whose write port also reads, as nothing reads there while something writes: fewer copies of words."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tg2hdl_ir import FamilyDef, MemoryFigures
from tg2hdl_lower import MemoryPlan, family_named
from tg2hdl_lower.memory.blocks import Piece, block_rams
from tg2hdl_top.design import Design
from tg2hdl_top.lifetimes import Span, run_times

__all__ = ["calls_at_ports", "free_port", "spares", "turn_port"]

LEAST_SPARED = 3
"""Block RAMs that a common address must save, since it is chosen between a register and the blocks."""


def turn_port(design: Design, memory: MemoryPlan) -> int | None:
    """The read port that has one address with the write port; None where each has its own.

    Parameters
    ----------
    design : Design
    memory : MemoryPlan
        One of `Design.built_memories`.
    """
    role, sequencer = memory.role, design.sequencer
    if memory.kind != "block" or role.is_rom or role.streamed or len(memory.ports) < 2 or sequencer.interval:
        return None
    if sequencer.starts and any(plan.kernel.variables for plan in design.kernels):
        return None  # kernels take more cycles or fewer
    if role.host_writes and sequencer.rows:
        return None  # while kernels run
    if not spares(memory.pieces, len(memory.ports), family_named(design.options.target)):
        return None
    reads, writers = calls_at_ports(design, memory)
    if role.host_reads:
        reads.pop(0, None)
    return free_port(run_times(design), reads, writers)


def calls_at_ports(design: Design, memory: MemoryPlan) -> tuple[dict[int, set[int]], set[int]]:
    """Calls that read at each read port of a memory, and those that write it.

    Parameters
    ----------
    design : Design
    memory : MemoryPlan
        Any of `Design.built_memories`.
    """
    reads: dict[int, set[int]] = {port: set() for port in memory.ports}
    writers = set()
    for call, buffer in memory.slots:
        for port in design.kernels[call].ports:
            if port.buffer == buffer and port.reads:
                reads[memory.port_of((call, buffer), port.number)].add(call)
            elif port.buffer == buffer:
                writers.add(call)
    return reads, writers


def free_port(
    times: Sequence[Span], reads: Mapping[int, Collection[int]], writers: Collection[int]
) -> int | None:
    """A read port at which no call reads while another one, or itself, writes.

    Parameters
    ----------
    times : sequence of Span
        As of `run_times`.
    reads : mapping of int to collection of int
        By read port, the calls that read there.
    writers : collection of int
        Calls that write.
    """
    free = (
        port
        for port, calls in reads.items()
        if not any(times[call].meets(times[writer]) for call in calls for writer in writers)
    )
    return max(free, default=None)


def spares(pieces: Sequence[Piece], ports: int, family: FamilyDef) -> bool:
    """Whether a common address saves enough block RAMs, with registers in them or without.

    Parameters
    ----------
    pieces : sequence of Piece
        Arrays of the memory.
    ports : int
        Its read ports.
    family : FamilyDef
        Of the design.
    """

    figures = family.memory

    def blocks(each: MemoryFigures, *, turns: bool) -> int:
        return sum(block_rams(p.bits, p.words, ports, each, turns=turns) for p in pieces)

    return any(
        blocks(each, turns=False) - blocks(each, turns=True) >= LEAST_SPARED
        for each in (figures, figures.packed() if family.pack_registers else figures)
    )
