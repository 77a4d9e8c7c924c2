"""Hardware of a kernel without its memories, and the stand-alone kernel with them."""

from __future__ import annotations

from amaranth import Module, Mux, Shape, Signal, unsigned
from amaranth.hdl import Value
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from tg2hdl_ir.analysis.ranges import bits_for
from tg2hdl_ir.nodes import KernelIR
from tg2hdl_lower.emit.arithmetic_lowering import ArithmeticLowering
from tg2hdl_lower.emit.control import build_control
from tg2hdl_lower.emit.datapath import PortSignals
from tg2hdl_lower.memory.kinds import extra_latency
from tg2hdl_lower.memory.layout import Layout
from tg2hdl_lower.plan.hardware_plan import HardwarePlan, MemoryPort
from tg2hdl_lower.planner import plan_kernel
from tg2hdl_lower.sharing.multipliers import Multiplier18, product_signature
from tg2hdl_lower.sharing.units import connect_pool, unit_signature

__all__ = ["CompiledKernel", "KernelCore", "address_width", "read_signature", "write_signature"]


def address_width(layout: Layout) -> int:
    """Bits of a word address."""
    return max(1, (layout.words - 1).bit_length())


def read_signature(port: MemoryPort) -> wiring.Signature:
    """Port of a kernel that reads words: `addr` and `en` out, `data` in after the read latency of the plan."""
    return wiring.Signature(
        {
            "addr": Out(address_width(port.layout)),
            "en": Out(1),
            "data": In(port.layout.lanes * port.dtype.bit_width),
        }
    )


def write_signature(port: MemoryPort) -> wiring.Signature:
    """Port of a kernel that writes words: `en` has a bit per lane."""
    return wiring.Signature(
        {
            "addr": Out(address_width(port.layout)),
            "en": Out(port.layout.lanes),
            "data": Out(port.layout.lanes * port.dtype.bit_width),
        }
    )


class KernelCore(wiring.Component):
    """Control and datapath of a plan.

    Parameters
    ----------
    plan : HardwarePlan

    Members
    -------
    start : In(1)
        One-cycle pulse while idle.
    done : Out(1)
        One-cycle pulse, `plan.cycles()` cycles after `start`.
    busy : Out(1)
        From the cycle after `start` to the one of `done`.
    read_B_P, write_B_P : Out(read_signature), Out(write_signature)
        Port P of buffer B.
    product_N : Out(product_signature)
        Multiplier N, which is outside so that kernels can share it.
    unit_N : Out(unit_signature)
        Shared unit N.
    var_NAME : In
        Run-time variable; stable while busy.
    """

    def __init__(self, plan: HardwarePlan) -> None:
        # A design may be inspected without being built.
        self._MustUse__silence = True
        self.plan = plan
        members: dict[str, wiring.Member] = {"start": In(1), "done": Out(1), "busy": Out(1)}
        for port in plan.ports:
            signature = read_signature(port) if port.reads else write_signature(port)
            members[self.port_name(port)] = Out(signature)
        for variable in plan.kernel.variables:
            width, is_signed = bits_for((min(variable.low, 0), variable.high))
            members[f"var_{variable.name}"] = In(Shape(width, is_signed))
        for number, widths in enumerate(plan.products):
            members[f"product_{number}"] = Out(product_signature(widths))
        for number, unit in enumerate(plan.shared_units):
            members[f"unit_{number}"] = Out(unit_signature(unit))
        super().__init__(members)

    @staticmethod
    def port_name(port: MemoryPort) -> str:
        """Name of the member for a port."""
        return f"{'read' if port.reads else 'write'}_{port.buffer}_{port.number}"

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        reads: dict[tuple[int, int], PortSignals] = {}
        writes: dict[tuple[int, int], PortSignals] = {}
        for port in self.plan.ports:
            interface = getattr(self, self.port_name(port))
            signals = PortSignals(interface.addr, interface.data, interface.en)
            (reads if port.reads else writes)[port.buffer, port.number] = signals
        variables: dict[str, Value] = {
            v.name: getattr(self, f"var_{v.name}") for v in self.plan.kernel.variables
        }
        control = build_control(m, self.plan, self.start, variables)
        products = [getattr(self, f"product_{n}") for n in range(len(self.plan.products))]
        shared = [getattr(self, f"unit_{n}") for n in range(len(self.plan.shared_units))]
        ArithmeticLowering(
            m, self.plan, control, self.start, reads, writes, variables, products, shared
        ).run()
        m.d.comb += [self.done.eq(control.done), self.busy.eq(control.busy)]
        return m


class CompiledKernel(wiring.Component):
    """A kernel with its own memories, for tests and for use in other designs.

    Parameters
    ----------
    kernel_ir : HardwarePlan or KernelIR
        A KernelIR is planned with default options first.
    buf_infos : ignored
        The buffers are those of the kernel.

    Members
    -------
    start, done, busy
        As in `KernelCore`.
    buf_write_ports : dict of int to {"wen", "waddr", "wdata"}
        Host port of each buffer, for words while idle.
    buf_read_ports : dict of int to {"raddr", "rdata"}
        Host port of each buffer; data comes two cycles after the address.
    """

    def __init__(self, kernel_ir: HardwarePlan | KernelIR, buf_infos: object = None) -> None:
        # A design may be inspected without being built.
        self._MustUse__silence = True
        plan = plan_kernel(kernel_ir) if isinstance(kernel_ir, KernelIR) else kernel_ir
        self.plan = plan
        self.core = KernelCore(plan)
        members: dict[str, wiring.Member] = {"start": In(1), "done": Out(1), "busy": Out(1)}
        for idx, layout in plan.layouts.items():
            width = layout.lanes * plan.storage[idx].bit_width
            members |= {
                f"wen_{idx}": In(1),
                f"waddr_{idx}": In(address_width(layout)),
                f"wdata_{idx}": In(width),
                f"raddr_{idx}": In(address_width(layout)),
                f"rdata_{idx}": Out(width),
            }
        for variable in plan.kernel.variables:
            members[f"var_{variable.name}"] = In(self.core.signature.members[f"var_{variable.name}"].shape)
        super().__init__(members)
        self.buf_write_ports = {
            i: {k: getattr(self, f"{k}_{i}") for k in ("wen", "waddr", "wdata")} for i in plan.layouts
        }
        self.buf_read_ports = {
            i: {k: getattr(self, f"{k}_{i}") for k in ("raddr", "rdata")} for i in plan.layouts
        }

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        m.submodules.core = core = self.core
        m.d.comb += [core.start.eq(self.start), self.done.eq(core.done), self.busy.eq(core.busy)]
        for variable in self.plan.kernel.variables:
            name = f"var_{variable.name}"
            m.d.comb += getattr(core, name).eq(getattr(self, name))
        for idx, layout in self.plan.layouts.items():
            self._memory(m, idx, layout)
        for number, widths in enumerate(self.plan.products):
            m.submodules[f"multiplier_{number}"] = multiplier = Multiplier18(
                widths, self.plan.product_latency
            )
            port = getattr(core, f"product_{number}")
            m.d.comb += [multiplier.a.eq(port.a), multiplier.b.eq(port.b), port.result.eq(multiplier.result)]
        if self.plan.shared_units:
            m.submodules.units = units = Module()
            connect_pool(m, units, [core])
        return m

    def _memory(self, m: Module, idx: int, layout: Layout) -> None:
        width = self.plan.storage[idx].bit_width
        memory = Memory(shape=unsigned(layout.lanes * width), depth=layout.words, init=[])
        m.submodules[f"buffer_{idx}"] = memory
        ports = [p for p in self.plan.ports if p.buffer == idx]
        host = self.buf_write_ports[idx]
        write = memory.write_port(granularity=width if layout.lanes > 1 else None)
        address: Value = host["waddr"]
        data: Value = host["wdata"]
        enable: Value = host["wen"].replicate(layout.lanes)
        for port in (p for p in ports if not p.reads):
            kernel = getattr(self.core, KernelCore.port_name(port))
            address = Mux(self.busy, kernel.addr, address)
            data = Mux(self.busy, kernel.data, data)
            enable = Mux(self.busy, kernel.en, enable)
        m.d.comb += [write.addr.eq(address), write.data.eq(data), write.en.eq(enable)]
        readers: list[MemoryPort | None] = [p for p in ports if p.reads]
        output = self.buf_read_ports[idx]
        for number, reader in enumerate(readers or [None]):
            read = memory.read_port()
            kernel = getattr(self.core, KernelCore.port_name(reader)) if reader else None
            if number == 0:
                chosen = output["raddr"] if kernel is None else Mux(self.busy, kernel.addr, output["raddr"])
                m.d.comb += read.addr.eq(chosen)
            elif kernel is not None:
                m.d.comb += read.addr.eq(kernel.addr)
            behind: Value = read.data
            for stage in range(self.plan.read_latency - 1 + extra_latency(layout)):
                if number == 0 and stage == self.plan.read_latency - 1:
                    m.d.comb += output["rdata"].eq(behind)
                register = Signal(layout.lanes * width, name=f"rdata_{idx}_{number}_{stage}", reset_less=True)
                m.d.sync += register.eq(behind)
                behind = register
            if kernel is not None:
                m.d.comb += kernel.data.eq(behind)
            if number == 0 and not extra_latency(layout):
                m.d.comb += output["rdata"].eq(behind)
