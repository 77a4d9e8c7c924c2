"""Hardware of a kernel without its memories."""

from __future__ import annotations

from typing import Any

from amaranth import Module, Shape, Signal
from amaranth.hdl import Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tg2hdl_ir.analysis.ranges import bits_for
from tg2hdl_ir.nodes import IRVariable
from tg2hdl_lower.emit.arithmetic_lowering import ArithmeticLowering
from tg2hdl_lower.emit.control import build_control
from tg2hdl_lower.emit.datapath import PortSignals
from tg2hdl_lower.memory.layout import Layout
from tg2hdl_lower.plan.hardware_plan import HardwarePlan, MemoryPort
from tg2hdl_lower.plan.resources import SharedResource
from tg2hdl_lower.sharing.connect import resource_signature

__all__ = ["KernelCore", "address_width", "read_signature", "write_signature"]


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
    product_N, unit_N : Out(resource_signature)
        Multiplier or unit of slot N, which is outside so that kernels can share it.
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
        for resources in (plan.products, plan.shared_units):
            for slot, resource in enumerate(resources):
                members[f"{resource.port}_{slot}"] = Out(resource_signature(resource))
        super().__init__(members)

    @staticmethod
    def port_name(port: MemoryPort) -> str:
        """Name of the member for a port."""
        return f"{'read' if port.reads else 'write'}_{port.buffer}_{port.number}"

    def variable(self, variable: IRVariable) -> Signal:
        """Input of a run-time variable."""
        signal: Signal = getattr(self, f"var_{variable.name}")
        return signal

    def resource_port(self, resource: SharedResource, slot: int) -> Any:
        """Interface to a shared resource."""
        return getattr(self, f"{resource.port}_{slot}")

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
        products = [self.resource_port(r, slot) for slot, r in enumerate(self.plan.products)]
        shared = [self.resource_port(r, slot) for slot, r in enumerate(self.plan.shared_units)]
        ArithmeticLowering(
            m, self.plan, control, self.start, reads, writes, variables, products, shared
        ).run()
        m.d.comb += [self.done.eq(control.done), self.busy.eq(control.busy)]
        return m
