"""Integer products on hardware multipliers between registers, which kernels can share."""

from __future__ import annotations

from collections.abc import Collection

from amaranth import Module, Signal, signed
from amaranth.hdl import Value
from amaranth.lib.wiring import In, Out

from tg2hdl_lower.component import Component
from tg2hdl_lower.dataflow.dataflow import Dataflow
from tg2hdl_lower.ops.multiplication import pieces_of
from tg2hdl_lower.ops.units import IntegerUnit
from tg2hdl_lower.plan.node import Node
from tg2hdl_lower.plan.operations import (
    ConstantProduct,
    DesignProduct,
    Op,
    Product,
    SharedUnitOp,
    UnitOp,
    UnitProduct,
    WideProduct,
)
from tg2hdl_lower.plan.placement import Schedule
from tg2hdl_lower.plan.resources import (
    SharedMultiplier,
    SharedResource,
    SharedUnit,
    UnitMultiplier,
    WideMultiplier,
)
from tg2hdl_lower.plan.values import Constant
from tg2hdl_lower.schedule.dependences import LOGIC_AND_UNITS, recurrent_nodes

__all__ = [
    "Multiplier18",
    "bind_constant_products",
    "bind_products",
    "bind_shared_units",
    "bind_unit_products",
    "bind_wide_products",
    "product_slots",
    "unit_slots",
]

_WIDEST = 18
_NARROWEST = 3


def bind_products(flow: Dataflow, latency: int) -> Dataflow:
    """Replace each multiplication that fits one hardware multiplier by a `Product`.

    Products of a recurrence stay combinational, since more cycles there would raise the II.

    Parameters
    ----------
    flow : Dataflow
    latency : int
        Cycles of a hardware multiplier.
    """
    recurrent = recurrent_nodes(flow.nodes.values())
    found = (n for n in flow.all(Op) if n.op == "mul" and n.number not in recurrent and not n.dtype.is_bool)
    return flow.with_nodes(
        {
            n.number: Product(n.number, n.leaf, n.dtype, n.interval, n.op, n.sources, latency)
            for n in found
            if _fits(*(flow.nodes[source] for source in n.sources))
        }
    )


def _fits(*factors: Node) -> bool:
    """Whether a product of these operands should use a hardware multiplier."""
    widths = [_signed_width(f) for f in factors]
    constant = any(isinstance(f, Constant) for f in factors)
    return not constant and max(widths) <= _WIDEST and min(widths) >= _NARROWEST


def _signed_width(node: Node) -> int:
    return node.width + (not node.signed)


def bind_constant_products(flow: Dataflow) -> Dataflow:
    """The same with a `ConstantProduct` for each product by a constant whose unit can be built for it."""
    changed: dict[int, Node] = {}
    for node in flow.all(UnitOp):
        if node.op != "mul" or node.unit.constant is None:
            continue
        factors = [flow.nodes[n] for n in node.sources]
        constant = next((f for f in factors if isinstance(f, Constant)), None)
        if constant is None:
            continue
        other = node.sources[0] if factors[1] is constant else node.sources[1]
        changed[node.number] = ConstantProduct(
            node.number, node.leaf, node.dtype, node.interval, node.op, (other,), node.unit, constant.value
        )
    return flow.with_nodes(changed)


def bind_wide_products(flow: Dataflow) -> Dataflow:
    """The same with a `WideProduct` for each product of integers whose ranges need fewer multipliers than its type."""
    recurrent = recurrent_nodes(flow.nodes.values(), LOGIC_AND_UNITS)
    changed: dict[int, Node] = {}
    for n in flow.all(UnitOp):
        if type(n) is not UnitOp or not isinstance(n.unit.factory, IntegerUnit) or n.op != "mul":
            continue
        first, second = sorted(n.sources, key=lambda source: _signed_width(flow.nodes[source]))
        limbs = pieces_of(_signed_width(flow.nodes[first])), pieces_of(_signed_width(flow.nodes[second]))
        product = WideProduct(n.number, n.leaf, n.dtype, n.interval, n.op, (first, second), limbs)
        if n.number not in recurrent and limbs[0] * limbs[1] < n.unit.area.dsp:
            changed[n.number] = product
    return flow.with_nodes(changed)


def bind_unit_products(flow: Dataflow, *, recurrent: bool = False) -> Dataflow:
    """The same with a `UnitProduct` for each product of a unit, those of recurrences only where `recurrent` says so.

    Parameters
    ----------
    flow : Dataflow
    recurrent : bool, default False
        Whether products of recurrences are moved too.
    """
    circular = () if recurrent else recurrent_nodes(flow.nodes.values(), LOGIC_AND_UNITS)
    return flow.with_nodes(
        {
            n.number: UnitProduct(n.number, n.leaf, n.dtype, n.interval, n.op, n.sources, n.unit)
            for n in flow.all(UnitOp)
            if n.op == "mul" and type(n) is UnitOp and n.number not in circular
        }
    )


def product_slots(flow: Dataflow, schedule: Schedule, latency: int) -> tuple[SharedResource, ...]:
    """Multipliers of a scheduled kernel, in the order of the nodes' ports.

    Parameters
    ----------
    flow : Dataflow
    schedule : Schedule
    latency : int
        Cycles of a hardware multiplier.
    """
    slots: dict[int, SharedResource] = {}
    for node in flow.all(DesignProduct):
        port = schedule.placements[node.number].port
        multiplier = _multiplier(node, flow, latency)
        slots[port] = slots.get(port, multiplier).merged(multiplier)
    return tuple(slots[n] for n in sorted(slots))


def _multiplier(node: DesignProduct, flow: Dataflow, latency: int) -> SharedResource:
    """The needs of a product."""
    if isinstance(node, UnitProduct):
        return UnitMultiplier(node.unit)
    a, b = (_signed_width(flow.nodes[n]) for n in node.sources)
    if isinstance(node, WideProduct):
        return WideMultiplier(node.limbs, (a, b), min(node.width, a + b))
    return SharedMultiplier((a, b), latency)


class Multiplier18(Component):
    """Signed product of at most 18 x 18 bits with the registers that hard multipliers have.

    Parameters
    ----------
    widths : (int, int)
        Bits of `a` and `b`.
    latency : int
        Cycles: an output register, one at the operands, a third before these, all others after the product.

    Members
    -------
    a, b : In(signed)
        Operands.
    result : Out(signed)
        Product, `latency` cycles later.
    """

    def __init__(self, widths: tuple[int, int], latency: int) -> None:
        self.latency = latency
        a, b = widths
        super().__init__({"a": In(signed(a)), "b": In(signed(b)), "result": Out(signed(a + b))})

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        a: Value = self.a
        b: Value = self.b
        for stage in range(min(self.latency - 1, 2)):
            next_a = Signal.like(self.a, name=f"a_{stage}", reset_less=True)
            next_b = Signal.like(self.b, name=f"b_{stage}", reset_less=True)
            m.d.sync += [next_a.eq(a), next_b.eq(b)]
            a, b = next_a, next_b
        product: Value = a * b
        for stage in range(max(1, self.latency - 2)):
            register = Signal.like(self.result, name=f"product_{stage}", reset_less=True)
            m.d.sync += register.eq(product)
            product = register
        m.d.comb += self.result.eq(product)
        return m


def bind_shared_units(flow: Dataflow, names: Collection[str]) -> Dataflow:
    """Move units of these names out of the kernel, except in recurrences, where another cycle would raise the II.

    Parameters
    ----------
    flow : Dataflow
    names : collection of str
        Of units that kernels share.
    """
    if not names:
        return flow
    circular = recurrent_nodes(flow.nodes.values(), LOGIC_AND_UNITS)
    return flow.with_nodes(
        {
            n.number: SharedUnitOp(n.number, n.leaf, n.dtype, n.interval, n.op, n.sources, n.unit)
            for n in flow.all(UnitOp)
            if n.unit.name in names
            and n.number not in circular
            and not isinstance(n, ConstantProduct | UnitProduct)
        }
    )


def unit_slots(flow: Dataflow, schedule: Schedule) -> tuple[SharedUnit, ...]:
    """Shared units of a scheduled kernel, in the order of the nodes' ports.

    Parameters
    ----------
    flow : Dataflow
        Nodes of a kernel.
    schedule : Schedule
        Their placement, with the port of each shared operation.
    """
    slots = {schedule.placements[n.number].port: SharedUnit(n.unit) for n in flow.all(SharedUnitOp)}
    return tuple(slots[port] for port in sorted(slots))
