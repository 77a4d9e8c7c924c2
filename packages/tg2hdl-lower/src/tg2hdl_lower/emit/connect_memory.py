"""Connects memories to who uses them: kernels while they run, the host while none does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from amaranth import Cat, Module, Mux, Signal
from amaranth.hdl import Const, Value

from tg2hdl_lower.emit.core import KernelCore
from tg2hdl_lower.emit.ports import ReadPort
from tg2hdl_lower.memory.kind import BuiltMemory, kind_named
from tg2hdl_lower.memory.plan import MemoryPlan, Slot
from tg2hdl_lower.sharing.multiplexer import selected

__all__ = ["HostAccess", "Selection", "connect_memory"]


@dataclass(frozen=True)
class Selection:
    """The ports of a memory that a core uses in its present run.

    Parameters
    ----------
    region : Value, optional
        Where the region begins, in strides; None where the memory is not an array.
    active : Value, optional
        Whether the run writes this memory; None where every run does.
    bank : Value, optional
        Number of the run, whose last bits choose among the banks of a memory that has several.
    adds : bool
        Whether the region may begin at any stride, so that its base is added to the address.
    """

    region: Value | None = None
    active: Value | None = None
    bank: Value | None = None
    adds: bool = False

    def address(self, memory: MemoryPlan, address: Value, stride: int) -> Value:
        """Address in the array of a word of the region, or in the memory of a word of the bank.

        Parameters
        ----------
        memory : MemoryPlan
        address : Value
            Word of the buffer.
        stride : int
            Words between the places where regions may begin.
        """
        if memory.banks > 1:
            assert self.bank is not None, "users of banks count their runs"
            bank = self.bank[: (memory.banks - 1).bit_length()]
            return bank if memory.layout.words == 1 else Cat(address, bank)
        if self.region is None:
            return address
        low = (stride - 1).bit_length()
        if len(address) < low:  # a region of fewer words than a stride
            address = Cat(address, Const(0, low - len(address)))
        if self.adds:
            return Cat(address[:low], address[low:] + self.region)[: memory.layout.address_width]
        if len(address) > max(1, low):  # a region of several strides
            return (address | (self.region << low))[: memory.layout.address_width]
        return Cat(address[:low], self.region)[: memory.layout.address_width]

    def written(self, flag: Value, enable: Value) -> tuple[Value, Value]:
        """Flag of a writer and its enables, in runs that write the memory.

        Parameters
        ----------
        flag : Value
            Whether the core writes.
        enable : Value
            A bit for each lane.
        """
        if self.active is None:
            return flag, enable
        return flag & self.active, enable & self.active.replicate(len(enable))


_WHOLE = Selection()


@dataclass(frozen=True)
class HostAccess:
    """Interfaces of the host to a memory, and the regions that they reach; `streams` where it writes during runs.

    Parameters
    ----------
    written, read : MemoryPlan, optional
        The buffers that the host reaches, where they are regions.
    """

    writer: Any = None
    reader: Any = None
    writes: Selection = _WHOLE
    reads: Selection = _WHOLE
    streams: bool = False
    written: MemoryPlan | None = None
    read: MemoryPlan | None = None

    @classmethod
    def to_regions(
        cls,
        writer: tuple[Any, int, MemoryPlan] | None,
        reader: tuple[Any, int, MemoryPlan] | None,
        regions: int,
        *,
        adds: bool = False,
    ) -> HostAccess:
        """Access to a region each, given by interface, place in so many strides, and the buffer there.

        Parameters
        ----------
        writer, reader : (, int, MemoryPlan) or None
            Host interface, first stride of the region, and the buffer in it; None where the host has no access.
        regions : int
            Strides of the array.
        adds : bool, default False
            As of `Selection`.
        """
        width = max(1, (regions - 1).bit_length())
        (w, write, written), (r, read, from_) = writer or (None, 0, None), reader or (None, 0, None)
        writes, reads = (Selection(Const(place, width), adds=adds) for place in (write, read))
        return cls(w, r, writes, reads, written=written, read=from_)


_Reader = tuple[Value, Value, ReadPort]
_Writer = tuple[Value, Value, Value, Value]


def connect_memory(
    m: Module,
    memory: MemoryPlan,
    cores: Sequence[KernelCore],
    busy: Value,
    host: HostAccess,
    selects: Callable[[int, int | None], Value] | None = None,
    *,
    stride: int = 1,
    selections: Mapping[Slot, Selection] | None = None,
    turn_port: int | None = None,
) -> None:
    """Build a memory with all its users.

    Parameters
    ----------
    busy : Value
        Whether a kernel runs.
    selects : callable, optional
        Flag that selects a core at a read port of the memory, or at its write port (None); that it is busy if absent.
    stride : int
        Words of a region of an array.
    selections : mapping of slot to Selection, optional
        By core and buffer, where runs of a core differ.
    turn_port : int, optional
        The read port that has one address with the write port: nothing reads there while something writes.
    """
    if selects is None:

        def selects(kernel: int, port: int | None) -> Value:
            return cores[kernel].busy

    built = kind_named(memory.kind).build(m, memory)
    readers: dict[int, list[_Reader]] = {number: [] for number in memory.ports}
    writers: list[_Writer] = []
    for kernel, buffer in memory.slots:
        core = cores[kernel]
        selection = (selections or {}).get((kernel, buffer), _WHOLE)
        for (of, port), read in core.reads.items():
            if of == buffer:
                number = memory.port_of((kernel, buffer), port)
                address = selection.address(memory, read.addr, stride)
                readers[number].append((selects(kernel, number), address, read))
        for (of, _), write in core.writes.items():
            if of == buffer:
                address = selection.address(memory, write.addr, stride)
                flag, enable = selection.written(selects(kernel, None), write.en)
                data = _spread(memory, write.data, write.element_width)
                writers.append((flag, address, data, _lanes(memory, enable)))
    if host.writer is not None:
        writers.append(_host_source(m, memory, busy, host, stride))
    common = Signal(range(memory.depth), name=f"{memory.name}_address") if turn_port is not None else None
    if writers:
        _connect_writers(m, memory, built, writers, common)
    for number, users in readers.items():
        sources: list[tuple[Value, Value]] = [(flag, address) for flag, address, _ in users]
        reader = host.reader if number == 0 else None
        if reader is not None:
            sources.append((~busy, host.reads.address(memory, reader.raddr, stride)))
        address = selected(sources)
        if common is not None and number == turn_port:
            writing = Cat(flag for flag, *_ in writers).any()
            m.d.comb += common.eq(Mux(writing, selected([(f, to) for f, to, _, _ in writers]), address))
            address = common
        data = built.read(m, number, address)
        m.d.comb += [read.data.eq(_gathered(memory, data, read.element_width)) for _, _, read in users]
        if reader is not None:
            m.d.comb += reader.rdata.eq(_gathered(memory, data, (host.read or memory).dtype.bit_width))


def _connect_writers(
    m: Module,
    memory: MemoryPlan,
    built: BuiltMemory,
    sources: list[_Writer],
    common: Value | None,
) -> None:
    # Elements for all lanes are chosen before they are repeated, where every source has one.
    width = max(len(data) for _, _, data, _ in sources)
    chosen = selected([(flag, data.replicate(width // len(data))) for flag, _, data, _ in sources])
    built.write(
        m,
        selected([(flag, address) for flag, address, _, _ in sources]) if common is None else common,
        chosen.replicate(memory.word_width // width),
        selected([(flag, enable) for flag, _, _, enable in sources]),
    )


def _host_source(
    m: Module, memory: MemoryPlan, busy: Value, access: HostAccess, stride: int
) -> tuple[Value, Value, Value, Value]:
    """Flag, address, word or element of all lanes, and enables of lanes of a write by the host.

    The write takes effect one cycle later, so that no path leads from a kernel's state to the memory.
    """
    host, member = access.writer, access.written or memory
    enable = Signal(len(host.wen), name=f"{memory.name}_host_wen")
    address = Signal.like(host.waddr, name=f"{memory.name}_host_waddr", reset_less=True)
    data = Signal.like(host.wdata, name=f"{memory.name}_host_wdata", reset_less=True)
    # With several banks the host writes none that a run needs.
    closed = Const(0, 1) if memory.banks > 1 or access.streams else busy
    placed, lanes = access.writes.address(memory, address, stride), member.layout.lanes
    whole = _spread(memory, data, member.dtype.bit_width)
    if len(data) == member.word_width and len(enable) == 1:
        m.d.sync += [enable.eq(host.wen & ~closed), address.eq(host.waddr), data.eq(host.wdata)]
        return enable, placed, whole, _lanes(memory, enable.replicate(lanes))
    # One element for all lanes or a word, and an enable for each lane.
    m.d.sync += [enable.eq(Mux(closed, 0, host.wen)), address.eq(host.waddr), data.eq(host.wdata)]
    return enable.any(), placed, whole, _lanes(memory, enable)


def _spread(memory: MemoryPlan, data: Value, element: int) -> Value:
    """A word, or an element of all lanes, in lanes as wide as those of the memory."""
    width = memory.dtype.bit_width
    if element != width:
        data = Cat(Cat(part, Const(0, width - element)) for part in _parts(data, element))
    if width < len(data) < memory.word_width:
        data = Cat(data, Const(0, memory.word_width - len(data)))
    return data


def _gathered(memory: MemoryPlan, word: Value, element: int) -> Value:
    """A word of adjacent elements of a buffer, from lanes as wide as those of the memory."""
    width = memory.dtype.bit_width
    if element == width or memory.role.is_rom:
        return word
    return Cat(part[:element] for part in _parts(word, width))


def _lanes(memory: MemoryPlan, enable: Value) -> Value:
    """Enables of all lanes of the memory: a buffer with fewer of them writes no others."""
    missing = memory.layout.lanes - len(enable)
    return Cat(enable, Const(0, missing)) if missing else enable


def _parts(word: Value, width: int) -> list[Value]:
    return [word[start : start + width] for start in range(0, len(word), width)]
