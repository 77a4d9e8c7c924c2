"""The memories of a design, and who reads and writes them: kernels while they run, the host while none does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amaranth import Module, Signal
from amaranth.hdl import Value
from amaranth.lib import wiring
from amaranth.lib.memory import Memory

from tg2hdl_lower import KernelCore
from tg2hdl_lower.memory.kinds import DEEPEST_BLOCK, SHALLOW_WORDS, SMALL_BITS, extra_latency
from tg2hdl_lower.sharing.multiplexer import selected
from tg2hdl_top.banks import Banks
from tg2hdl_top.shared_memory import SharedMemory

__all__ = ["MemoryPorts"]

_User = tuple[KernelCore, Any]


class MemoryPorts:
    """Builds memories and connects them.

    Parameters
    ----------
    host : Component
        Has `busy`, and for each memory the host's ports by name.
    read_latency : int
        Cycles from an address to its word, where the memory needs no more.
    """

    def __init__(
        self, m: Module, cores: Sequence[KernelCore], host: wiring.Component, read_latency: int
    ) -> None:
        self.m = m
        self.cores = cores
        self.host = host
        self.read_latency = read_latency

    def add(self, memory: SharedMemory) -> None:
        """Build one memory with all its users."""
        # Ports belong to one elaboration; the contents stay the same object.
        ram: Memory | Banks
        if self._is_deep(memory):
            ram = Banks(memory.word_width, list(memory.data.init))
        else:
            ram = Memory(memory.data, attrs=self._attributes(memory))
        self.m.submodules[f"memory_{memory.name}"] = ram
        readers: dict[int, list[_User]] = {}
        writers: list[_User] = []
        for kernel, buffer in memory.slots:
            core = self.cores[kernel]
            for port in core.plan.ports:
                if port.buffer == buffer:
                    interface = getattr(core, KernelCore.port_name(port))
                    users = readers.setdefault(port.number, []) if port.reads else writers
                    users.append((core, interface))
        if isinstance(ram, Memory):
            self._connect_writers(memory, ram, writers)
        for number in sorted(set(readers) | ({0} if memory.output else set())):
            self._connect_readers(memory, ram, number, readers.get(number, []))

    def _is_deep(self, memory: SharedMemory) -> bool:
        return (
            memory.layout.words > DEEPEST_BLOCK
            and self.read_latency > 1
            and not (memory.writers or memory.external or memory.output)
        )

    def _reads_late(self, memory: SharedMemory) -> bool:
        """Whether the first register is at the address: LUT RAM has none, and takes most of a cycle."""
        words = memory.layout.words
        small = memory.word_width * words <= SMALL_BITS or words <= SHALLOW_WORDS
        return small and not self._in_place(memory) and self.read_latency > 1

    def _stands_still(self, memory: SharedMemory) -> bool:
        """Whether the only word is read without registers on the way: no kernel changes what it reads."""
        return memory.layout.words == 1 and not memory.output and not self._in_place(memory)

    def _in_place(self, memory: SharedMemory) -> bool:
        """Whether a kernel reads and writes the memory."""
        return any(
            {p.reads for p in self.cores[kernel].plan.ports if p.buffer == buffer} == {True, False}
            for kernel, buffer in memory.slots
        )

    def _attributes(self, memory: SharedMemory) -> dict[str, str]:
        if self._stands_still(memory):
            return {"ram_style": "logic"}
        if memory.word_width * memory.layout.words > SMALL_BITS and memory.layout.words > SHALLOW_WORDS:
            return {"ram_style": "block"}
        if memory.layout.words <= SHALLOW_WORDS and memory.writers:
            return {"ram_style": "distributed"}
        # Yosys 0.70 tries all ways to put the ports on block RAMs, until it runs out of memory.
        ports = {
            port.number
            for kernel, buffer in memory.slots
            for port in self.cores[kernel].plan.ports
            if port.reads and port.buffer == buffer
        }
        return {"ram_style": "distributed"} if len(ports) > 2 and memory.writers else {}

    def _connect_writers(self, memory: SharedMemory, ram: Memory, writers: list[_User]) -> None:
        if not writers and not memory.external:
            return
        lanes = memory.layout.lanes
        port = ram.write_port(granularity=memory.dtype.bit_width if lanes > 1 else None)
        sources: list[tuple[Value, Value, Value, Value]] = [
            (core.busy, w.addr, w.data, w.en) for core, w in writers
        ]
        if memory.external:
            # The host's word goes in one cycle later, so that no path leads from a kernel's state to the memory.
            wen, waddr, wdata = (getattr(self.host, f"{memory.name}_{k}") for k in ("wen", "waddr", "wdata"))
            write = Signal(name=f"{memory.name}_host_wen")
            address = Signal.like(waddr, name=f"{memory.name}_host_waddr", reset_less=True)
            data = Signal.like(wdata, name=f"{memory.name}_host_wdata", reset_less=True)
            self.m.d.sync += [write.eq(wen & ~self.host.busy), address.eq(waddr), data.eq(wdata)]
            sources.append((write, address, data, write.replicate(lanes)))
        self.m.d.comb += [
            port.addr.eq(selected([(flag, address) for flag, address, _, _ in sources])),
            port.data.eq(selected([(flag, data) for flag, _, data, _ in sources])),
            port.en.eq(selected([(flag, enable) for flag, _, _, enable in sources])),
        ]

    def _connect_readers(
        self, memory: SharedMemory, ram: Memory | Banks, number: int, readers: list[_User]
    ) -> None:
        m = self.m
        host = memory.output and number == 0
        sources: list[tuple[Value, Value]] = [(core.busy, r.addr) for core, r in readers]
        if host:
            sources.append((~self.host.busy, getattr(self.host, f"{memory.name}_raddr")))
        address = selected(sources)
        data: Value
        extra = extra_latency(memory.layout)
        if isinstance(ram, Memory) and self._stands_still(memory):
            data = ram.read_port(domain="comb").data
        elif isinstance(ram, Banks):
            data = ram.read(m, address, self.read_latency + extra)
        else:
            late = self._reads_late(memory)
            port = ram.read_port(domain="comb" if late else "sync")
            if late:
                register = Signal.like(port.addr, name=f"{memory.name}_a{number}", reset_less=True)
                m.d.sync += register.eq(address)
                address = register
            m.d.comb += port.addr.eq(address)
            data = port.data
            for stage in range(self.read_latency - 1 + extra):
                if host and stage == self.read_latency - 1:
                    m.d.comb += getattr(self.host, f"{memory.name}_rdata").eq(data)
                register = Signal(memory.word_width, name=f"{memory.name}_r{number}_{stage}", reset_less=True)
                m.d.sync += register.eq(data)
                data = register
        for _, reader in readers:
            m.d.comb += reader.data.eq(data)
        if host and not extra:
            m.d.comb += getattr(self.host, f"{memory.name}_rdata").eq(data)
