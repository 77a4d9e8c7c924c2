"""The datapath of a plan: every node in order, then the ports of the memories."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from amaranth import Module
from amaranth.hdl import Value

from tg2hdl_lower.emit.accesses import (
    connect_read_ports,
    connect_write_ports,
    emit_fixed_lane,
    emit_load,
    emit_picked_lane,
    emit_replay,
)
from tg2hdl_lower.emit.addresses import AddressGenerators
from tg2hdl_lower.emit.control import Control
from tg2hdl_lower.emit.datapath import ArithResult, Datapath
from tg2hdl_lower.emit.operations import connect_turns, emit_constant_product, emit_op, emit_shared, emit_unit
from tg2hdl_lower.emit.ports import ReadPort, ResourcePort, WritePort
from tg2hdl_lower.emit.registers import add_accumulators, emit_register_read, emit_register_write
from tg2hdl_lower.emit.values import (
    emit_address,
    emit_constant,
    emit_counter,
    emit_first,
    emit_lane_index,
    emit_last,
    emit_position,
    emit_variable,
)
from tg2hdl_lower.plan.accesses import FixedLane, Load, PickedLane, Replay, Store
from tg2hdl_lower.plan.hardware_plan import HardwarePlan
from tg2hdl_lower.plan.node import Node
from tg2hdl_lower.plan.operations import ConstantProduct, Op, Product, SharedUnitOp, UnitOp, UnitProduct
from tg2hdl_lower.plan.registers import RegisterRead, RegisterWrite
from tg2hdl_lower.plan.values import (
    Address,
    Constant,
    Counter,
    FirstFlag,
    LaneIndex,
    LastFlag,
    Variable,
    WordPosition,
)

__all__ = ["ArithmeticLowering"]

EMITTERS: dict[type[Node], Callable[[Datapath, Any], Value | None]] = {
    Constant: emit_constant,
    Variable: emit_variable,
    Counter: emit_counter,
    FirstFlag: emit_first,
    LastFlag: emit_last,
    Address: emit_address,
    WordPosition: emit_position,
    LaneIndex: emit_lane_index,
    Load: emit_load,
    Replay: emit_replay,
    FixedLane: emit_fixed_lane,
    PickedLane: emit_picked_lane,
    Op: emit_op,
    UnitOp: emit_unit,
    ConstantProduct: emit_constant_product,
    SharedUnitOp: emit_shared,
    UnitProduct: emit_shared,
    Product: emit_shared,
    RegisterRead: emit_register_read,
    RegisterWrite: emit_register_write,
    # The ports of the memories collect all stores.
    Store: lambda d, node: None,
}


class ArithmeticLowering:
    """Emits the datapath of a plan.

    Parameters
    ----------
    reads, writes : dict of (buffer, port) to ReadPort or WritePort
    variables : dict of str to Value
        Run-time scalars.
    products, shared : sequence of ResourcePort
        Multipliers and shared units, by slot.
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
    ) -> None:
        self.writes = writes
        addresses = AddressGenerators(m, control, start, variables or {})
        result = ArithResult(counter_sigs={a: c.value for a, c in control.counters.items()})
        self.datapath = Datapath(
            m, plan, control, addresses, reads, variables or {}, products, shared, result
        )

    def run(self) -> ArithResult:
        """Add everything to the module."""
        datapath = self.datapath
        add_accumulators(datapath)
        for node in datapath.plan.live():
            value = EMITTERS[type(node)](datapath, node)
            if value is not None:
                datapath.result.signals[node.number] = value
        connect_turns(datapath)
        connect_read_ports(datapath, datapath.reads)
        connect_write_ports(datapath, self.writes)
        return datapath.result
