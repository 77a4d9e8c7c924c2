"""Connects the memories of a design to its cores, by the table of runs where a core runs several times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from amaranth import Module
from amaranth.hdl import Const, Value

from tg2hdl_lower import KernelCore, MemoryPlan, Slot
from tg2hdl_lower.emit.connect_memory import HostAccess, Selection, connect_memory
from tg2hdl_top.design import Design
from tg2hdl_top.memory_turns import turn_port
from tg2hdl_top.repeats.table import Column, RunTable, run_columns

__all__ = ["Banks", "MemoryRuns"]


class Banks(NamedTuple):
    """The bank of each user of a memory that has several."""

    kernels: Sequence[Selection]
    host_writes: Selection
    host_reads: Selection


HostOf = Callable[[MemoryPlan, str], Any]
"""Interface of the host to a buffer that has a member of this name."""


class MemoryRuns:
    """Builds the memories of a design.

    Parameters
    ----------
    table : RunTable, optional
        Where a core runs several times; the variables whose value each run knows are driven from it.
    banks : Banks, optional
        Where runs of the design overlap.
    streams : interface, optional
        Words for memories by their names, where they arrive from outside the chip.
    """

    def __init__(
        self,
        m: Module,
        design: Design,
        cores: Sequence[KernelCore],
        table: RunTable | None,
        banks: Banks | None = None,
        streams: Any = None,
    ) -> None:
        self.m = m
        self.design = design
        self.cores = cores
        self._arrays = {array.memory.name: array for array in design.arrays}
        self._regions = {memory.name: memory for memory in design.buffers}
        self._banks = banks
        self._streams = streams
        self._selections = self._found(_constant if table is None else table.add)

    def connect(
        self, memory: MemoryPlan, busy: Value, host_of: HostOf, selects: Callable[[int, int | None], Value]
    ) -> None:
        """Build one of `Design.built_memories`; `busy` and `selects` as in `connect_memory`.

        Parameters
        ----------
        memory : MemoryPlan
        busy : Value
            Whether a kernel runs.
        host_of : HostOf
            Gives the host interface of a memory with a named port.
        selects : callable
            As of `connect_memory`.
        """
        cores = self.design.cores
        slots = tuple(dict.fromkeys((cores[run], buffer) for run, buffer in memory.slots))
        routes = tuple(((cores[run], buffer), port, to) for (run, buffer), port, to in memory.routes)
        if memory.role.streamed:
            host = HostAccess(getattr(self._streams, memory.name), streams=True)
            stride = self._arrays[memory.name].stride
        elif memory.name in self._arrays:
            host, stride = self._host_of_array(memory, host_of), self._arrays[memory.name].stride
        else:
            writer = host_of(memory, "wen") if memory.role.host_writes else None
            reader = host_of(memory, "raddr") if memory.role.host_reads else None
            host, stride = HostAccess(writer, reader), 1
            if self._banks is not None:
                host = HostAccess(writer, reader, self._banks.host_writes, self._banks.host_reads)
        connect_memory(
            self.m,
            replace(memory, slots=slots, routes=routes),
            self.cores,
            busy,
            host,
            selects,
            stride=stride,
            selections=self._selections.get(memory.name) if self._banks is None else self._of_banks(slots),
            turn_port=turn_port(self.design, memory),
        )

    def _of_banks(self, slots: Sequence[Slot]) -> dict[Slot, Selection]:
        assert self._banks is not None, "asked for where there are banks"
        return {(core, buffer): self._banks.kernels[core] for core, buffer in slots}

    def _host_of_array(self, memory: MemoryPlan, host_of: HostOf) -> HostAccess:
        array = self._arrays[memory.name]
        found = list(zip(array.bases, map(self._regions.__getitem__, array.members), strict=True))
        writers = [(host_of(each, "wen"), n, each) for n, each in found if each.role.host_writes]
        readers = [(host_of(each, "raddr"), n, each) for n, each in found if each.role.host_reads]
        return HostAccess.to_regions(
            next(iter(writers), None), next(iter(readers), None), max(array.bases) + 1, adds=array.adds
        )

    def _found(self, add: Callable[[Column], Value]) -> dict[str, dict[Slot, Selection]]:
        """The ports of each memory that a core reaches, by memory and slot."""
        design = self.design
        columns = run_columns(
            design.cores,
            design.program.calls,
            design.memories,
            design.arrays,
            design.kernels,
            dict(design.sequencer.followers),
        )
        for (core, name), column in columns.variables.items():
            self.m.d.comb += getattr(self.cores[core].variables, name).eq(add(column))
        for core, column in columns.variants.items():
            self.m.d.comb += self.cores[core].variant.eq(add(column))
        found: dict[str, dict[Slot, Selection]] = {}
        for memory in self.design.built_memories:
            for run, buffer in memory.slots:
                slot = self.design.cores[run], buffer
                region = columns.regions.get(slot) if memory.name in self._arrays else None
                active = columns.active.get((*slot, memory.name))
                found.setdefault(memory.name, {})[slot] = Selection(
                    None if region is None else add(region),
                    None if active is None else add(active),
                    adds=region is not None and self._arrays[memory.name].adds,
                )
        return found


def _constant(column: Column) -> Value:
    """The values of every core in its only run."""
    (value,) = {value for value in column if value is not None}
    return Const(value, max(1, value.bit_length()))
