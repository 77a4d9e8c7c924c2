"""The top level: kernels over shared memories, run one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt
from amaranth import Module, Mux, Signal, unsigned
from amaranth.hdl import Value
from amaranth.lib import wiring
from amaranth.lib.memory import Memory, MemoryData
from amaranth.lib.wiring import In, Out

from tg2hdl_ir.dtype import DType
from tg2hdl_ir.errors import InputError
from tg2hdl_lower import CompiledKernel, HardwarePlan, KernelCore, Layout
from tg2hdl_lower.core import address_width
from tg2hdl_lower.memories import DEEPEST_BLOCK, SHALLOW_WORDS, SMALL_BITS, extra_latency
from tg2hdl_lower.products import Multiplier18, pool_widths
from tg2hdl_lower.shared_units import connect_pool
from tg2hdl_top.banks import Banks

__all__ = ["SharedMemory", "TopModule"]

Slot = tuple[int, int]


@dataclass
class SharedMemory:
    """A buffer of the design and the kernel slots that use it.

    Parameters
    ----------
    slots : list of (kernel, buffer)
    writers : list of (kernel, buffer)
        The slots that store to it.
    contents : ndarray, optional
        Elements at power on, in order.
    """

    name: str
    dtype: DType
    layout: Layout
    slots: list[Slot]
    writers: list[Slot]
    contents: npt.NDArray[Any] | None = None
    external: bool = False
    output: bool = False
    data: MemoryData = field(init=False)

    @property
    def word_width(self) -> int:
        """Bits of a word."""
        return self.layout.lanes * self.dtype.bit_width


class TopModule(wiring.Component):
    """Runs kernels in order on shared memories; nothing is copied between them.

    Parameters
    ----------
    kernels : sequence of HardwarePlan or CompiledKernel
        In execution order.
    connections : sequence of (src_kernel, src_buf, dst_kernel, dst_buf)
        Slots that are the same buffer.
    buf_depths : mapping of (kernel, buf) to int, optional
        Checked against the kernels when given.
    contents : mapping of (kernel, buf) to ndarray, optional
        Elements that a memory holds at power on; such a buffer needs no host port.
    outputs : sequence of (kernel, buf), optional
        Buffers that the host reads; the output of the last kernel when absent.
    external : sequence of (kernel, buf), optional
        Buffers with a host write port besides those that no kernel produces and that have no contents.
    names : mapping of (kernel, buf) to str, optional
        Names of memories and ports.
    share_multipliers : bool
        Whether the kernels, of which one runs at a time, use the same multipliers.

    Members
    -------
    start : In(1)
        One-cycle pulse while idle.
    done : Out(1)
        One-cycle pulse, `predicted_cycles` cycles after `start`; the last write lands at the end of this cycle.
    kernel_N_done : Out(1)
        One-cycle pulse at the end of kernel N; the next one starts in the same cycle.
    ext_write_ports : dict of (kernel, buf) to {"wen", "waddr", "wdata"}
        Host ports for words while idle.
    output_rport : {"raddr", "rdata"}
        Reads the first output while idle; data comes `read_latency` cycles after the address.
    """

    def __init__(
        self,
        kernels: Sequence[HardwarePlan | CompiledKernel],
        connections: Sequence[tuple[int, int, int, int]] = (),
        buf_depths: Mapping[Slot, int] | None = None,
        *,
        contents: Mapping[Slot, npt.NDArray[Any]] | None = None,
        outputs: Sequence[Slot] | None = None,
        external: Sequence[Slot] = (),
        names: Mapping[Slot, str] | None = None,
        share_multipliers: bool = True,
    ) -> None:
        # A design may be inspected without being built.
        self._MustUse__silence = True
        self.plans = [k.plan if isinstance(k, CompiledKernel) else k for k in kernels]
        if not self.plans:
            raise InputError("a design needs at least one kernel", hint="give at least one compiled kernel")
        self.cores = [KernelCore(plan) for plan in self.plans]
        self.share_multipliers = share_multipliers
        self.read_latency = self.plans[0].read_latency
        self.memories = _share(self.plans, connections, names or {})
        self._slot = {slot: memory for memory in self.memories for slot in memory.slots}
        _check_depths(self.plans, buf_depths or {})
        for slot, array in (contents or {}).items():
            self._slot[slot].contents = array
        self.outputs = list(outputs) if outputs is not None else [self._last_output()]
        for slot in self.outputs:
            self._slot[slot].output = True
        for memory in self.memories:
            memory.external = any(slot in memory.slots for slot in external) or (
                memory.contents is None and _read_first(memory, self.plans)
            )
        self._variables = {v.name: v for plan in self.plans for v in plan.kernel.variables}
        super().__init__(self._members())
        self.ext_write_ports = {
            slot: {k: getattr(self, f"{memory.name}_{k}") for k in ("wen", "waddr", "wdata")}
            for memory in self.memories
            if memory.external
            for slot in memory.slots
        }
        self.output_rports = {
            slot: {k: getattr(self, f"{self._slot[slot].name}_{k}") for k in ("raddr", "rdata")}
            for slot in self.outputs
        }
        self.output_rport = self.output_rports[self.outputs[0]]
        for memory in self.memories:
            memory.data = _memory_data(memory)

    def _last_output(self) -> Slot:
        last = len(self.plans) - 1
        return last, next(b.idx for b in self.plans[last].kernel.buffers if b.is_output)

    def memory(self, slot: Slot) -> SharedMemory:
        """Memory of a kernel's buffer."""
        return self._slot[slot]

    def predicted_cycles(self, variables: Mapping[str, int] | None = None) -> list[int]:
        """Clock cycles of each kernel; their sum is the time from `start` to `done`."""
        return [plan.cycles(dict(variables or {})) for plan in self.plans]

    def _members(self) -> dict[str, wiring.Member]:
        members: dict[str, wiring.Member] = {"start": In(1), "done": Out(1), "busy": Out(1)}
        members |= {f"kernel_{number}_done": Out(1) for number in range(len(self.cores))}
        for name in self._variables:
            port = f"var_{name}"
            core = next(c for c in self.cores if port in c.signature.members)
            members[port] = In(core.signature.members[port].shape)
        for memory in self.memories:
            width = address_width(memory.layout)
            if memory.external:
                members[f"{memory.name}_wen"] = In(1)
                members[f"{memory.name}_waddr"] = In(width)
                members[f"{memory.name}_wdata"] = In(memory.word_width)
            if memory.output:
                members[f"{memory.name}_raddr"] = In(width)
                members[f"{memory.name}_rdata"] = Out(memory.word_width)
        return members

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        start: Value = self.start
        for number, core in enumerate(self.cores):
            m.submodules[f"kernel{number}"] = core
            m.d.comb += core.start.eq(start)
            for name in self._variables:
                if f"var_{name}" in core.signature.members:
                    m.d.comb += getattr(core, f"var_{name}").eq(getattr(self, f"var_{name}"))
            m.d.comb += getattr(self, f"kernel_{number}_done").eq(core.done)
            start = core.done
        m.d.comb += self.done.eq(start)
        busy = Signal()
        m.d.comb += busy.eq(_any(core.busy for core in self.cores))
        m.d.comb += self.busy.eq(busy)
        self._connect_products(m)
        if any(plan.shared_units for plan in self.plans):
            m.submodules.units = units = Module()
            connect_pool(m, units, self.cores)
        for memory in self.memories:
            # Ports belong to one elaboration; the contents stay the same object.
            if self._is_deep(memory):
                m.submodules[f"memory_{memory.name}"] = banks = Banks(
                    memory.word_width, list(memory.data.init)
                )
                self._connect(m, memory, banks)
                continue
            m.submodules[f"memory_{memory.name}"] = ram = Memory(memory.data, attrs=self._attributes(memory))
            self._connect(m, memory, ram)
        return m

    def _connect_products(self, m: Module) -> None:
        """Multipliers: one set for all kernels, or one for each."""
        m.submodules.multipliers = pool = Module()
        groups = [self.cores] if self.share_multipliers else [[core] for core in self.cores]
        number = 0
        for cores in groups:
            for slot, widths in enumerate(pool_widths(core.plan.products for core in cores)):
                pool.submodules[f"m{number}"] = multiplier = Multiplier18(
                    widths, self.plans[0].product_latency
                )
                number += 1
                users = [core for core in cores if slot < len(core.plan.products)]
                ports = [(core.busy, getattr(core, f"product_{slot}")) for core in users]
                a, b = ports[-1][1].a, ports[-1][1].b
                for busy, port in ports[-2::-1]:
                    a, b = Mux(busy, port.a, a), Mux(busy, port.b, b)
                m.d.comb += [multiplier.a.eq(a), multiplier.b.eq(b)]
                m.d.comb += [port.result.eq(multiplier.result) for _, port in ports]

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
        in_place = any(
            {p.reads for p in self.plans[kernel].ports if p.buffer == buffer} == {True, False}
            for kernel, buffer in memory.slots
        )
        return small and not in_place and self.read_latency > 1

    def _attributes(self, memory: SharedMemory) -> dict[str, str]:
        if memory.word_width * memory.layout.words > SMALL_BITS and memory.layout.words > SHALLOW_WORDS:
            return {"ram_style": "block"}
        if memory.layout.words <= SHALLOW_WORDS and memory.writers:
            return {"ram_style": "distributed"}
        # Yosys 0.70 tries all ways to put the ports on block RAMs, until it runs out of memory.
        ports = {
            port.number
            for kernel, buffer in memory.slots
            for port in self.plans[kernel].ports
            if port.reads and port.buffer == buffer
        }
        return {"ram_style": "distributed"} if len(ports) > 2 and memory.writers else {}

    def _connect(self, m: Module, memory: SharedMemory, ram: Memory | Banks) -> None:
        readers: dict[int, list[tuple[KernelCore, Any]]] = {}
        writers: list[tuple[KernelCore, Any]] = []
        for kernel, buffer in memory.slots:
            core = self.cores[kernel]
            for port in core.plan.ports:
                if port.buffer == buffer:
                    interface = getattr(core, KernelCore.port_name(port))
                    if port.reads:
                        readers.setdefault(port.number, []).append((core, interface))
                    else:
                        writers.append((core, interface))
        if isinstance(ram, Memory):
            self._connect_writers(m, memory, ram, writers)
        for number in sorted(set(readers) | ({0} if memory.output else set())):
            self._connect_readers(m, memory, ram, number, readers.get(number, []))

    def _connect_writers(
        self, m: Module, memory: SharedMemory, ram: Memory, writers: list[tuple[KernelCore, Any]]
    ) -> None:
        if not writers and not memory.external:
            return
        lanes = memory.layout.lanes
        port = ram.write_port(granularity=memory.dtype.bit_width if lanes > 1 else None)
        sources: list[tuple[Value, Value, Value, Value]] = [
            (core.busy, w.addr, w.data, w.en) for core, w in writers
        ]
        if memory.external:
            # The host's word goes in one cycle later, so that no path leads from a kernel's state to the memory.
            wen, waddr, wdata = (getattr(self, f"{memory.name}_{k}") for k in ("wen", "waddr", "wdata"))
            write = Signal(name=f"{memory.name}_host_wen")
            address = Signal.like(waddr, name=f"{memory.name}_host_waddr", reset_less=True)
            data = Signal.like(wdata, name=f"{memory.name}_host_wdata", reset_less=True)
            m.d.sync += [write.eq(wen & ~self.busy), address.eq(waddr), data.eq(wdata)]
            sources.append((write, address, data, write.replicate(lanes)))
        address, data, enable = sources[-1][1:]
        for select, other_address, other_data, other_enable in sources[-2::-1]:
            address = Mux(select, other_address, address)
            data = Mux(select, other_data, data)
            enable = Mux(select, other_enable, enable)
        m.d.comb += [port.addr.eq(address), port.data.eq(data), port.en.eq(enable)]

    def _connect_readers(
        self,
        m: Module,
        memory: SharedMemory,
        ram: Memory | Banks,
        number: int,
        readers: list[tuple[KernelCore, Any]],
    ) -> None:
        host = memory.output and number == 0
        sources: list[tuple[Value, Value]] = [(core.busy, r.addr) for core, r in readers]
        if host:
            sources.append((~self.busy, getattr(self, f"{memory.name}_raddr")))
        address = sources[-1][1]
        for select, other in sources[-2::-1]:
            address = Mux(select, other, address)
        data: Value
        extra = extra_latency(memory.layout)
        if isinstance(ram, Banks):
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
                    m.d.comb += getattr(self, f"{memory.name}_rdata").eq(data)
                register = Signal(memory.word_width, name=f"{memory.name}_r{number}_{stage}", reset_less=True)
                m.d.sync += register.eq(data)
                data = register
        for _, reader in readers:
            m.d.comb += reader.data.eq(data)
        if host and not extra:
            m.d.comb += getattr(self, f"{memory.name}_rdata").eq(data)


def _any(flags: Any) -> Value:
    result: Value | None = None
    for flag in flags:
        result = flag if result is None else result | flag
    assert result is not None, "a design has at least one kernel"
    return result


def _share(
    plans: list[HardwarePlan], connections: Sequence[tuple[int, int, int, int]], names: Mapping[Slot, str]
) -> list[SharedMemory]:
    parent: dict[Slot, Slot] = {(k, b.idx): (k, b.idx) for k, p in enumerate(plans) for b in p.kernel.buffers}

    def root(slot: Slot) -> Slot:
        if slot not in parent:
            raise InputError(
                f"connection names buffer {slot[1]} of kernel {slot[0]}, which does not exist",
                hint=f"buffers: {sorted(parent)}",
            )
        while parent[slot] != slot:
            slot = parent[slot]
        return slot

    for src_kernel, src_buf, dst_kernel, dst_buf in connections:
        parent[root((dst_kernel, dst_buf))] = root((src_kernel, src_buf))
    groups: dict[Slot, list[Slot]] = {}
    for slot in parent:
        groups.setdefault(root(slot), []).append(slot)
    return [_shared(plans, slots, names, n) for n, slots in enumerate(groups.values())]


def _shared(
    plans: list[HardwarePlan], slots: list[Slot], names: Mapping[Slot, str], number: int
) -> SharedMemory:
    kernel, buffer = slots[0]
    meta, layout = plans[kernel].kernel.buffer(buffer), plans[kernel].layouts[buffer]
    storage = plans[kernel].storage[buffer]
    for k, b in slots[1:]:
        other = plans[k].kernel.buffer(b)
        found = (plans[k].storage[b], other.depth, plans[k].layouts[b])
        if found != (storage, meta.depth, layout):
            raise InputError(
                f"connected buffers differ: {storage}[{meta.depth}] {layout} of kernel {kernel} and "
                f"{plans[k].storage[b]}[{other.depth}] {plans[k].layouts[b]} of kernel {k}",
                hint="plan both kernels with the same layout for the buffer",
            )
    writers = [(k, b) for k, b in slots if plans[k].kernel.buffer(b).is_output]
    name = next((names[s] for s in slots if s in names), f"b{number}")
    return SharedMemory(name, storage, layout, slots, writers)


def _read_first(memory: SharedMemory, plans: list[HardwarePlan]) -> bool:
    """Whether a kernel reads the buffer before any kernel has written it."""
    for kernel, buffer in sorted(memory.slots):
        if any(p.buffer == buffer and p.reads for p in plans[kernel].ports):
            return True
        if (kernel, buffer) in memory.writers:
            return False
    return False


def _check_depths(plans: list[HardwarePlan], depths: Mapping[Slot, int]) -> None:
    for (kernel, buffer), depth in depths.items():
        actual = plans[kernel].kernel.buffer(buffer).depth
        if depth != actual:
            raise InputError(
                f"buffer {buffer} of kernel {kernel} has {actual} elements, not {depth}",
                hint="leave buf_depths out: the kernels know their buffers",
            )


def _memory_data(memory: SharedMemory) -> MemoryData:
    init: list[int] = []
    if memory.contents is not None:
        packed = memory.layout.pack(memory.contents, memory.dtype)
        width = memory.dtype.bit_width
        if packed.shape[1] == 1:
            init = [int(w) for w in packed[:, 0]]
        else:
            init = [sum(int(bits) << (n * width) for n, bits in enumerate(row)) for row in packed]
    return MemoryData(shape=unsigned(memory.word_width), depth=memory.layout.words, init=init)
