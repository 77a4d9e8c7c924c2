"""The top level: kernels over shared memories, run one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy.typing as npt
from amaranth import Module, Signal
from amaranth.hdl import Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tg2hdl_ir.errors import InputError
from tg2hdl_lower import CompiledKernel, HardwarePlan, KernelCore
from tg2hdl_lower.emit.core import address_width
from tg2hdl_lower.sharing.multipliers import Multiplier18, pool_widths
from tg2hdl_lower.sharing.units import connect_pool
from tg2hdl_top.memory_ports import MemoryPorts
from tg2hdl_top.operands import HeldOperands, MuxedOperands
from tg2hdl_top.shared_memory import SharedMemory, Slot, memory_data, read_first, shared_memories

__all__ = ["SharedMemory", "TopModule"]


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
        self.memories = shared_memories(self.plans, connections, names or {})
        self._slot = {slot: memory for memory in self.memories for slot in memory.slots}
        _check_depths(self.plans, buf_depths or {})
        for slot, array in (contents or {}).items():
            self._slot[slot].contents = array
        self.outputs = list(outputs) if outputs is not None else [self._last_output()]
        for slot in self.outputs:
            self._slot[slot].output = True
        for memory in self.memories:
            memory.external = any(slot in memory.slots for slot in external) or (
                memory.contents is None and read_first(memory, self.plans)
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
            memory.data = memory_data(memory)

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
        ports = MemoryPorts(m, self.cores, self, self.read_latency)
        for memory in self.memories:
            ports.add(memory)
        return m

    def _connect_products(self, m: Module) -> None:
        """Multipliers: one set for all kernels, or one for each."""
        m.submodules.multipliers = pool = Module()
        groups = [self.cores] if self.share_multipliers else [[core] for core in self.cores]
        number = 0
        for cores in groups:
            choice = self._choice(m, cores)
            for slot, widths in enumerate(pool_widths(core.plan.products for core in cores)):
                ports = {
                    n: getattr(c, f"product_{slot}")
                    for n, c in enumerate(cores)
                    if slot < len(c.plan.products)
                }
                latency = self.plans[0].product_latency - choice.latency
                pool.submodules[f"m{number}"] = multiplier = Multiplier18(widths, latency)
                number += 1
                m.d.comb += [
                    multiplier.a.eq(choice.of({n: port.a for n, port in ports.items()})),
                    multiplier.b.eq(choice.of({n: port.b for n, port in ports.items()})),
                ]
                m.d.comb += [port.result.eq(multiplier.result) for port in ports.values()]
            choice.close()

    def _choice(self, m: Module, cores: list[KernelCore]) -> MuxedOperands | HeldOperands:
        busy = [core.busy for core in cores]
        return HeldOperands(m, busy) if HeldOperands.suit([c.plan for c in cores]) else MuxedOperands(busy)


def _any(flags: Any) -> Value:
    result: Value | None = None
    for flag in flags:
        result = flag if result is None else result | flag
    assert result is not None, "a design has at least one kernel"
    return result


def _check_depths(plans: list[HardwarePlan], depths: Mapping[Slot, int]) -> None:
    for (kernel, buffer), depth in depths.items():
        actual = plans[kernel].kernel.buffer(buffer).depth
        if depth != actual:
            raise InputError(
                f"buffer {buffer} of kernel {kernel} has {actual} elements, not {depth}",
                hint="leave buf_depths out: the kernels know their buffers",
            )
