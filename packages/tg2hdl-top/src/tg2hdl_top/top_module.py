"""The top level: kernels over shared memories, a sequencer and host ports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy.typing as npt
from amaranth import Cat, Module, Mux, Signal
from amaranth.hdl import Const, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from tg2hdl_ir import InputError
from tg2hdl_lower import CompiledKernel, Component, HardwarePlan, KernelCore, MemoryPlan, Slot
from tg2hdl_lower.emit.connect_memory import Selection
from tg2hdl_lower.sharing.connect import connect_shared
from tg2hdl_top.design import Design
from tg2hdl_top.external.image import image_beats
from tg2hdl_top.external.loader import TileLoader
from tg2hdl_top.external.memory_port import IMAGE, MemoryPort, memory_port, simulated_memory
from tg2hdl_top.joining import join_kernels
from tg2hdl_top.options import CompileOptions
from tg2hdl_top.ports import HostPort, build_port
from tg2hdl_top.repeats.connect import Banks, MemoryRuns
from tg2hdl_top.repeats.table import RunTable
from tg2hdl_top.run_loop import RunLoop
from tg2hdl_top.sequencer import SequencerComponent, sequencer_named
from tg2hdl_top.sequencer.plan import read_use, write_use

__all__ = ["TopModule"]


class TopModule(Component):
    """Runs kernels on shared memories; nothing is copied between them.

    Parameters
    ----------
    kernels : Design, or sequence of HardwarePlan or CompiledKernel
        A design, or kernels in execution order that are joined by the other parameters.
    connections : sequence of (src_kernel, src_buf, dst_kernel, dst_buf)
        Slots that are the same buffer.
    buf_depths : mapping of (kernel, buf) to int, optional
        Checked against the kernels when given.
    contents, outputs, external, names
        As in `join_kernels`.
    share_multipliers : bool
        Whether the kernels, which run one at a time, use the same multipliers.
    simulates_memory : bool
        Whether memory outside the chip is part of the module, with its image, as its model behaves; to simulate only.

    Attributes
    ----------
    design : Design
    kernels : tuple
        The kernels as given; the plans of a design.

    Members
    -------
    start, done, busy, kernel_done, variables, loop, buffers
        Of the native port, as in `HostShape.signature`; other host ports have other members.
    m_axi or m_wb, memory_base, memory_failed
        Of the port to memory outside the chip, as in `MemoryPort.outside`.

    ext_write_ports : dict of (kernel, buf) to {"wen", "waddr", "wdata"}
        Native port for words while idle.
    output_rport : {"raddr", "rdata"}
        Reads the first output while idle; data comes `read_latency` cycles after the address.
    """

    def __init__(
        self,
        kernels: Design | Sequence[HardwarePlan | CompiledKernel],
        connections: Sequence[tuple[int, int, int, int]] = (),
        buf_depths: Mapping[Slot, int] | None = None,
        *,
        contents: Mapping[Slot, npt.NDArray[Any]] | None = None,
        outputs: Sequence[Slot] | None = None,
        external: Sequence[Slot] = (),
        names: Mapping[Slot, str] | None = None,
        share_multipliers: bool = True,
        simulates_memory: bool = False,
    ) -> None:
        if isinstance(kernels, Design):
            self.design = kernels
            self.kernels: tuple[HardwarePlan | CompiledKernel, ...] = kernels.kernels
        elif not isinstance(kernels, Iterable):
            raise InputError(
                f"TopModule takes a Design or kernels, not {type(kernels).__name__}",
                hint="give the result of compile_program",
            )
        else:
            self.kernels = tuple(kernels)
            plans = [k.plan if isinstance(k, CompiledKernel) else k for k in self.kernels]
            _check_depths(plans, buf_depths or {})
            self.design = join_kernels(
                plans,
                connections,
                contents=contents,
                outputs=outputs,
                external=external,
                names=names,
                options=CompileOptions(schedule="serial", share_multipliers=share_multipliers),
            )
        self.plans = self.design.core_plans
        self.memories = self.design.buffers
        self.cores = [KernelCore(plan) for plan in self.design.core_plans]
        self.ports: list[HostPort] = [build_port(port) for port in self.design.ports]
        members: dict[str, wiring.Member] = {}
        for port in self.ports:
            members |= dict(port.outside.signature.members)
        streams = self.design.external
        self.memory_port: MemoryPort | None = None
        self._simulates_memory = simulates_memory
        if streams is not None and streams.tiles:
            self.memory_port = memory_port(streams, simulated=simulates_memory)
            if not simulates_memory:
                members |= dict(self.memory_port.outside.signature.members)
        super().__init__(members)
        self._slot = {slot: memory for memory in self.memories for slot in memory.slots}
        self.outputs = [self.design.memory(n).slots[0] for n in self.design.program.outputs]
        native = getattr(self, "buffers", None)
        self.ext_write_ports = {
            slot: _named(getattr(native, memory.name), ("wen", "waddr", "wdata"))
            for memory in self.memories
            if hasattr(getattr(native, memory.name, None), "wen")
            for slot in memory.slots
        }
        self.output_rports = {
            slot: _named(getattr(native, self._slot[slot].name), ("raddr", "rdata"))
            for slot in self.outputs
            if hasattr(getattr(native, self._slot[slot].name, None), "raddr")
        }
        self.output_rport = next(iter(self.output_rports.values()), {})
        self.read_latency = self._slot[self.outputs[0]].read_latency

    def memory(self, slot: Slot) -> MemoryPlan:
        """Memory of a kernel's buffer."""
        return self._slot[slot]

    def predicted_cycles(self, variables: Mapping[str, int] | None = None) -> list[int]:
        """Clock cycles of each kernel."""
        timeline = self.design.timeline(variables)
        return [end - start for start, end in zip(timeline.starts, timeline.ends, strict=True)]

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        plan = self.design.sequencer
        policy = sequencer_named(plan.policy)
        table: RunTable | None = None
        sequencer: SequencerComponent
        if self.design.repeats_cores:
            cores = self.design.cores
            waits = self.memory_port is not None
            runs = policy.waiting_component(cores) if waits else policy.run_component(cores, plan)
            sequencer = runs
            m.submodules.runs = table = RunTable(len(self.design.cores))
            m.d.comb += [table.following.eq(runs.following), table.advance.eq(runs.advance)]
        else:
            sequencer = policy.component(len(self.cores), plan)
        m.submodules.sequencer = sequencer
        for number, core in enumerate(self.cores):
            m.submodules[f"kernel{number}"] = core
            m.d.comb += [
                core.start.eq(sequencer.kernel_start[number]),
                sequencer.kernel_done[number].eq(core.done),
                sequencer.kernel_busy[number].eq(core.busy),
            ]
        busy = Signal()
        m.d.comb += busy.eq(sequencer.busy)
        self._shared: dict[tuple[str, str], Any] = {}
        for number, port in enumerate(self.ports):
            m.submodules[f"port{number}"] = port
            self._connect_outside(m, port)
            if port.serves.control:
                loop = self._add_loop(m, port.design, sequencer)
                self._connect_control(m, port.design, sequencer, busy, loop)
        sharing = self.design.sharing
        connect_shared(
            m,
            self.cores,
            share_multipliers=sharing.multipliers,
            held_operands=sharing.held_operands,
            selects=partial(self._selects, sequencer),
        )
        banks = self._add_banks(m, sequencer)
        streams = self._add_stream(m, sequencer)
        connected = MemoryRuns(m, self.design, self.cores, table, banks, streams)
        # The host moves elements of rows while others are computed.
        busy = Const(0) if plan.rows else busy
        for memory in self.design.built_memories:
            connected.connect(memory, busy, self._host_of, partial(self._selects_port, sequencer, memory))
        return m

    def _add_stream(self, m: Module, sequencer: Any) -> Any:
        """Memory port and loader of tiles; returns the writer of the memories."""
        plan, port = self.design.external, self.memory_port
        if plan is None or port is None:
            return None
        m.submodules.memory_port = port
        m.submodules.loader = loader = TileLoader(plan, self.design.arrays, len(self.design.cores))
        m.d.comb += [
            port.start.eq(sequencer.start),
            loader.start.eq(sequencer.start),
            loader.kernel_done.eq(Cat(sequencer.kernel_done).any()),
            loader.advance.eq(sequencer.advance),
            loader.following.eq(sequencer.following),
            sequencer.may_start.eq(loader.may_start),
            loader.valid.eq(port.valid),
            loader.data.eq(port.data),
            port.ready.eq(loader.ready),
        ]
        if port.writes:
            host, write = self._host_of_image(), port.memory_write
            m.d.comb += [
                write.valid.eq(host.wen),
                write.address.eq(host.waddr),
                write.data.eq(host.wdata),
                host.ready.eq(write.ready),
            ]
        if self._simulates_memory:
            m.submodules.external_memory = memory = simulated_memory(
                plan, image_beats(self.design), port.bus.signature
            )
            wiring.connect(m, port.bus, memory.bus)
            m.d.comb += memory.restart.eq(sequencer.start)
        else:
            self._connect_outside(m, port)
        return loader.arrays

    def _add_loop(self, m: Module, host: Any, sequencer: SequencerComponent) -> RunLoop | None:
        """The loop that starts runs by itself: the output and the input are its own while it does."""
        plan = self.design.loop
        if plan is None:
            return None
        m.submodules.loop = loop = RunLoop(
            self.design.host, {b.name: b for port in self.ports for b in port.serves.buffers}
        )
        wiring.connect(m, host.loop, loop.control)
        if plan.results is not None:
            wiring.connect(m, self._port_of(plan.results, "raddr"), loop.results)
        reader, writer = self._port_of(plan.output, "raddr"), self._port_of(plan.target, "wen")
        read = reader.signature.create(path=("loop_output",))
        m.d.comb += [
            read.raddr.eq(Mux(loop.active, loop.raddr, reader.raddr)),
            reader.rdata.eq(read.rdata),
            loop.rdata.eq(read.rdata),
        ]
        # A host writes words or elements, the loop elements.
        lanes = len(loop.wen)
        write = wiring.Signature(
            {"wen": Out(lanes), "waddr": Out(len(writer.waddr)), "wdata": Out(len(writer.wdata))}
        ).create(path=("loop_input",))
        repeats, wide = lanes // len(writer.wen), len(writer.wdata) // len(loop.wdata)
        m.d.comb += [
            write.wen.eq(Mux(loop.active, loop.wen, writer.wen.replicate(repeats))),
            write.waddr.eq(Mux(loop.active, loop.waddr, writer.waddr)),
            write.wdata.eq(Mux(loop.active, loop.wdata.replicate(wide), writer.wdata)),
        ]
        self._shared = {(plan.output, "raddr"): read, (plan.target, "wen"): write}
        return loop

    def _add_banks(self, m: Module, sequencer: SequencerComponent) -> Banks | None:
        """Registers that count the runs: each user of a memory with banks goes to the next one with each run."""
        most = max(memory.banks for memory in self.memories)
        if most == 1:
            return None
        pulses = {f"kernel{n}": start for n, start in enumerate(sequencer.kernel_start)}
        pulses |= {"next": sequencer.start & sequencer.ready, "latest": sequencer.done}
        counts = {}
        for name, pulse in pulses.items():
            # The host writes for the next run; all others are in the run that has started, or is done.
            count = Signal(range(most), name=f"{name}_bank", init=0 if name == "next" else most - 1)
            with m.If(pulse):
                m.d.sync += count.eq(count + 1)
            counts[name] = count
        # A word of the host is written a cycle later.
        written = Signal.like(counts["next"], name="written_bank")
        m.d.sync += written.eq(counts["next"])
        kernels = [Selection(bank=counts[f"kernel{n}"]) for n in range(len(self.cores))]
        return Banks(kernels, Selection(bank=written), Selection(bank=counts["latest"]))

    def _selects(self, sequencer: SequencerComponent, kernel: int, use: str) -> Value:
        """Flag that selects a kernel at shared hardware: its window, or that it is busy."""
        window = self.design.sequencer.window(kernel, use)
        flag: Value = self.cores[kernel].busy if window is None else sequencer.window[window]
        return flag

    def _selects_port(
        self, sequencer: SequencerComponent, memory: MemoryPlan, kernel: int, port: int | None
    ) -> Value:
        use = write_use(memory.name) if port is None else read_use(memory.name, port)
        return self._selects(sequencer, kernel, use)

    def _connect_outside(self, m: Module, port: HostPort | MemoryPort) -> None:
        for path, member, inner in port.outside.signature.flatten(port.outside):
            outer: Any = self
            for step in path:
                outer = outer[step] if isinstance(step, int) else getattr(outer, step)
            inward = member.flow is wiring.In
            m.d.comb += inner.eq(outer) if inward else outer.eq(inner)

    def _connect_control(
        self, m: Module, host: Any, sequencer: Any, busy: Value, loop: RunLoop | None
    ) -> None:
        ends = sequencer if loop is None else loop
        m.d.comb += [host.done.eq(ends.done), host.busy.eq(busy if loop is None else loop.busy)]
        if loop is not None:
            m.d.comb += [
                loop.start.eq(host.start),
                loop.ended.eq(sequencer.done),
                loop.running.eq(busy),
                sequencer.start.eq(loop.run),
            ]
        elif self.design.sequencer.rows:
            self._connect_paced(m, host, sequencer)
        elif self.design.sequencer.interval:
            m.d.comb += [sequencer.start.eq(host.start), host.ready.eq(sequencer.ready)]
        else:  # a start during a run is ignored
            m.d.comb += sequencer.start.eq(host.start & (~busy | sequencer.done))
        values = {variable.name: getattr(host.variables, variable.name) for variable in self.design.variables}
        if loop is not None and loop.loop.counter is not None:
            m.d.comb += loop.first.eq(values[loop.loop.counter])
            values[loop.loop.counter] = loop.position
        for number, core in enumerate(self.cores):
            m.d.comb += host.kernel_done[number].eq(core.done)
            for variable in core.plan.kernel.variables:
                if variable.name in values:
                    m.d.comb += getattr(core.variables, variable.name).eq(values[variable.name])

    def _connect_paced(self, m: Module, host: Any, sequencer: Any) -> None:
        """Let the sequencer count the elements that the host moves."""
        for buffer in host.buffers.signature.members:
            port = getattr(host.buffers, buffer)
            if hasattr(port, "moves"):
                m.d.comb += [
                    port.open.eq(getattr(sequencer, f"open_{buffer}")),
                    getattr(sequencer, f"moves_{buffer}").eq(port.moves),
                ]

    def _host_of_image(self) -> Any:
        """Interface to the image of the host port that writes it."""
        for port in self.ports:
            for buffer in port.serves.buffers:
                if buffer.role == IMAGE:
                    return getattr(port.design.buffers, buffer.name)
        raise AssertionError("every host port member is served")

    def _host_of(self, memory: MemoryPlan, member: str) -> Any:
        """Interface of the host to a buffer, or of the part that shares it with the host."""
        return self._shared.get((memory.name, member)) or self._port_of(memory.name, member)

    def _port_of(self, buffer: str, member: str) -> Any:
        """Interface to a buffer of the host port that has a member for it."""
        for port in self.ports:
            found = getattr(port.design.buffers, buffer, None)
            if hasattr(found, member):
                return found
        raise AssertionError("every host port member is served")


def _named(interface: Any, names: Sequence[str]) -> dict[str, Any]:
    return {name: getattr(interface, name) for name in names}


def _check_depths(plans: Sequence[HardwarePlan], depths: Mapping[Slot, int]) -> None:
    for (kernel, buffer), depth in depths.items():
        actual = plans[kernel].kernel.buffer(buffer).depth
        if depth != actual:
            raise InputError(
                f"buffer {buffer} of kernel {kernel} has {actual} elements, not {depth}",
                hint="leave buf_depths out: the kernels know their buffers",
            )
