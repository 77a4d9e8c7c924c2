"""The names of the reference: a kernel with memories of its own, and the parts of its hardware."""

from __future__ import annotations

from amaranth import Module

from tg2hdl_ir import KernelIR
from tg2hdl_lower.component import Component
from tg2hdl_lower.emit.arithmetic_lowering import ArithmeticLowering
from tg2hdl_lower.emit.connect_memory import HostAccess, connect_memory
from tg2hdl_lower.emit.control import build_control, create_counters
from tg2hdl_lower.emit.core import KernelCore
from tg2hdl_lower.families import family_named
from tg2hdl_lower.memory.choose import plan_memory
from tg2hdl_lower.memory.host import HostShape
from tg2hdl_lower.memory.use import MemoryRole
from tg2hdl_lower.plan.hardware_plan import HardwarePlan
from tg2hdl_lower.planner import plan_kernel
from tg2hdl_lower.sharing.connect import connect_shared

__all__ = ["ArithmeticLowering", "CompiledKernel", "build_control", "create_counters"]


class CompiledKernel(Component):
    """A kernel with its own memories, for tests and for use in other designs.

    Rewrites are not validated here, as `tg2hdl_top.TopModule` and `tg2hdl_top.compile_program` do: compare a simulation
    with `tg2hdl_ir.golden.evaluate`.

    Parameters
    ----------
    kernel_ir : HardwarePlan or KernelIR
        A KernelIR is planned with default options first.
    buf_infos : ignored
        The buffers are those of the kernel.

    Attributes
    ----------
    host : HostShape
        Ports of the host.

    Members
    -------
    start, done, busy, kernel_done, variables, buffers
        As in `HostShape.signature`; buffer N is ``bN``.

    buf_write_ports : dict of int to {"wen", "waddr", "wdata"}
        Host port of each buffer, for words while idle.
    buf_read_ports : dict of int to {"raddr", "rdata"}
        Host port of each buffer; data comes `HostBuffer.latency` cycles after the address.
    """

    def __init__(self, kernel_ir: HardwarePlan | KernelIR, buf_infos: object = None) -> None:
        self.plan = plan = plan_kernel(kernel_ir) if isinstance(kernel_ir, KernelIR) else kernel_ir
        self.core = KernelCore(plan)
        family = family_named(plan.family)
        memories = []
        for idx in plan.layouts:
            ports = {port.reads for port in plan.ports if port.buffer == idx}
            role = MemoryRole(written=False in ports, in_place=len(ports) > 1)
            memories.append(plan_memory(f"b{idx}", [plan], ((0, idx),), role, family))
        self.memories = tuple(memories)
        self.host = HostShape.of(self.memories, plan.kernel.variables, [0])
        super().__init__(dict(self.host.signature().flip().members))
        host = {memory.slots[0][1]: getattr(self.buffers, memory.name) for memory in self.memories}
        self.buf_write_ports = {
            idx: {"wen": port.wen, "waddr": port.waddr, "wdata": port.wdata} for idx, port in host.items()
        }
        self.buf_read_ports = {idx: {"raddr": port.raddr, "rdata": port.rdata} for idx, port in host.items()}

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        m.submodules.core = core = self.core
        m.d.comb += [core.start.eq(self.start), self.done.eq(core.done), self.busy.eq(core.busy)]
        m.d.comb += self.kernel_done[0].eq(core.done)
        for variable in self.plan.kernel.variables:
            m.d.comb += getattr(core.variables, variable.name).eq(getattr(self.variables, variable.name))
        for memory in self.memories:
            port = getattr(self.buffers, memory.name)
            connect_memory(m, memory, [core], core.busy, HostAccess(port, port))
        connect_shared(m, [core])
        return m
