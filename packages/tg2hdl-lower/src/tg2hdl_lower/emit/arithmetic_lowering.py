"""The datapath of a plan: every node in order, then the ports of the memories."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_

from amaranth import Module
from amaranth.hdl import Value

from tg2hdl_lower.emit.addresses import AddressGenerators
from tg2hdl_lower.emit.choice import VariantChoice
from tg2hdl_lower.emit.control import Control
from tg2hdl_lower.emit.datapath import Datapath
from tg2hdl_lower.emit.memory_ports import connect_read_ports, connect_write_ports
from tg2hdl_lower.emit.ports import ReadPort, ResourcePort, WritePort
from tg2hdl_lower.ops.bits import resized
from tg2hdl_lower.plan.emission import ArithResult
from tg2hdl_lower.plan.hardware_plan import HardwarePlan

__all__ = ["ArithmeticLowering"]


class ArithmeticLowering:
    """Emits the datapath of a plan.

    Parameters
    ----------
    m : Module
        Gets the datapath.
    plan : HardwarePlan
    control : Control
        Of `build_control`.
    start : Value
        A one-cycle pulse while idle.
    reads, writes : dict of (buffer, port) to ReadPort or WritePort
    variables : dict of str to Value
        Run-time scalars.
    products, shared : sequence of ResourcePort
        Multipliers and shared units, by slot.
    variant : Value, optional
        Number of the plan's variant that runs.
    """

    def __init__(
        self,
        m: Module,
        plan: HardwarePlan,
        control: Control,
        start: Value,
        reads: dict[tuple[int, int], ReadPort],
        writes: dict[tuple[int, int], WritePort],
        variables: dict[str, Value] | None = None,
        products: Sequence[ResourcePort] = (),
        shared: Sequence[ResourcePort] = (),
        variant: Value | None = None,
    ) -> None:
        self.writes = writes
        addresses = AddressGenerators(m, control, start, variables or {}, VariantChoice(plan, variant))
        result = ArithResult(counter_sigs={a: c.value for a, c in control.counters.items()})
        self.datapath = Datapath(
            m, plan, control, addresses, reads, variables or {}, products, shared, result
        )

    def run(self) -> ArithResult:
        """Add everything to the module."""
        datapath = self.datapath
        for number, accumulator in datapath.plan.accumulators.items():
            accumulator.add(datapath, number)
        for node in datapath.plan.live():
            value = node.emit(datapath)
            if value is not None:
                datapath.result.signals[node.number] = value
        _connect_turns(datapath)
        connect_read_ports(datapath, datapath.reads)
        connect_write_ports(datapath, self.writes)
        return datapath.result


def _connect_turns(d: Datapath) -> None:
    """Operands of the slots: of the operation that starts in a cycle, an OR of those that are active."""
    for operand, users in d.turns.values():
        value = users[0][1]
        if len(users) > 1:
            width = len(operand)
            gated = [resized(d.m, v, width) & d.active(n).replicate(width) for n, v in users]
            value = reduce(or_, gated)
        d.m.d.comb += operand.eq(value)
