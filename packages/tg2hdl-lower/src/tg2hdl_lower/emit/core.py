"""Hardware of a kernel without its memories."""

from __future__ import annotations

from amaranth import Module
from amaranth.hdl import Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tg2hdl_lower.component import Component
from tg2hdl_lower.emit.arithmetic_lowering import ArithmeticLowering
from tg2hdl_lower.emit.control import build_control
from tg2hdl_lower.emit.memory_ports import writes_one_element
from tg2hdl_lower.emit.ports import ReadPort, ResourcePort, WritePort
from tg2hdl_lower.memory.host import variables_signature
from tg2hdl_lower.plan.hardware_plan import HardwarePlan

__all__ = ["KernelCore"]


class KernelCore(Component):
    """Control and datapath of a plan.

    Parameters
    ----------
    plan : HardwarePlan

    Attributes
    ----------
    reads, writes : dict of (buffer, port) to ReadPort or WritePort
        To the memories.
    products, units : tuple of ResourcePort
        To the multipliers and units that kernels share, by slot.

    Members
    -------
    start : In(1)
        One-cycle pulse while idle; where the plan has rows, it starts the next one.
    done : Out(1)
        One-cycle pulse, `plan.cycles()` cycles after `start`, or the cycles of a row.
    busy : Out(1)
        From the cycle after `start` to the one of `done`.
    variables : In(variables_signature)
        Run-time variables by name; stable while busy.
    variant : In
        Which of `plan.variants` runs, where there are several; stable while busy, from the cycle after `start` on.
    """

    def __init__(self, plan: HardwarePlan) -> None:
        self.plan = plan
        members: dict[str, wiring.Member] = {
            "start": In(1),
            "done": Out(1),
            "busy": Out(1),
            "variables": In(variables_signature(plan.kernel.variables)),
        }
        if plan.variants:
            members["variant"] = In(range(len(plan.variants)))
        super().__init__(members)
        self.reads = {(p.buffer, p.number): ReadPort(p) for p in plan.ports if p.reads}
        self.writes = {
            (p.buffer, p.number): WritePort(p, writes_one_element(plan, (p.buffer, p.number)))
            for p in plan.ports
            if not p.reads
        }
        self.products = tuple(ResourcePort(r, slot) for slot, r in enumerate(plan.products))
        self.units = tuple(ResourcePort(r, slot) for slot, r in enumerate(plan.shared_units))

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        variables: dict[str, Value] = {
            v.name: getattr(self.variables, v.name) for v in self.plan.kernel.variables
        }
        variant: Value | None = getattr(self, "variant", None)
        control = build_control(m, self.plan, self.start, variables, variant)
        ArithmeticLowering(
            m,
            self.plan,
            control,
            self.start,
            self.reads,
            self.writes,
            variables,
            self.products,
            self.units,
            variant,
        ).run()
        m.d.comb += [self.done.eq(control.done), self.busy.eq(control.busy)]
        return m
