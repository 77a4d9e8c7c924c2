"""Connects memories to who uses them: kernels while they run, the host while none does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from amaranth import Module, Signal
from amaranth.hdl import Value

from tg2hdl_lower.emit.core import KernelCore
from tg2hdl_lower.emit.ports import ReadPort, WritePort
from tg2hdl_lower.memory.kind import BuiltMemory, kind_named
from tg2hdl_lower.memory.plan import MemoryPlan
from tg2hdl_lower.sharing.multiplexer import selected

__all__ = ["connect_memory"]

_Reader = tuple[Value, ReadPort]
_Writer = tuple[Value, WritePort]


def connect_memory(
    m: Module,
    memory: MemoryPlan,
    cores: Sequence[KernelCore],
    busy: Value,
    writer: Any,
    reader: Any,
    selects: Callable[[int, int | None], Value] | None = None,
) -> None:
    """Build a memory with all its users.

    Parameters
    ----------
    busy : Value
        Whether a kernel runs.
    writer, reader : interface of HostBuffer, or None
        Of the host.
    selects : callable, optional
        Flag that selects a kernel at a read port of the memory, or at its write port (None); that it is busy if absent.
    """
    if selects is None:

        def selects(kernel: int, port: int | None) -> Value:
            return cores[kernel].busy

    built = kind_named(memory.kind).build(m, memory)
    readers: dict[int, list[_Reader]] = {number: [] for number in memory.ports}
    writers: list[_Writer] = []
    for kernel, buffer in memory.slots:
        core = cores[kernel]
        for (of, port), read in core.reads.items():
            if of == buffer:
                number = memory.port_of((kernel, buffer), port)
                readers[number].append((selects(kernel, number), read))
        found = (write for (of, _), write in core.writes.items() if of == buffer)
        writers += [(selects(kernel, None), write) for write in found]
    if writers or writer is not None:
        _connect_writers(m, memory, built, writers, busy, writer)
    for number, users in readers.items():
        _connect_readers(m, built, number, users, busy, reader if number == 0 else None)


def _connect_writers(
    m: Module, memory: MemoryPlan, built: BuiltMemory, writers: list[_Writer], busy: Value, host: Any
) -> None:
    sources: list[tuple[Value, Value, Value, Value]] = [(flag, w.addr, w.data, w.en) for flag, w in writers]
    if host is not None:
        # The host's word goes in one cycle later, so that no path leads from a kernel's state to the memory.
        enable = Signal(name=f"{memory.name}_host_wen")
        address = Signal.like(host.waddr, name=f"{memory.name}_host_waddr", reset_less=True)
        data = Signal.like(host.wdata, name=f"{memory.name}_host_wdata", reset_less=True)
        m.d.sync += [enable.eq(host.wen & ~busy), address.eq(host.waddr), data.eq(host.wdata)]
        sources.append((enable, address, data, enable.replicate(memory.layout.lanes)))
    built.write(
        m,
        selected([(flag, address) for flag, address, _, _ in sources]),
        selected([(flag, data) for flag, _, data, _ in sources]),
        selected([(flag, enable) for flag, _, _, enable in sources]),
    )


def _connect_readers(
    m: Module, built: BuiltMemory, number: int, readers: list[_Reader], busy: Value, host: Any
) -> None:
    sources: list[tuple[Value, Value]] = [(flag, r.addr) for flag, r in readers]
    if host is not None:
        sources.append((~busy, host.raddr))
    data = built.read(m, number, selected(sources))
    m.d.comb += [reader.data.eq(data) for _, reader in readers]
    if host is not None:
        m.d.comb += host.rdata.eq(data)
