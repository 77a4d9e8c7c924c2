"""Emission of the nodes of `tg2hdl_lower.plan.operations`."""

from __future__ import annotations

from amaranth.hdl import Value

from tg2hdl_ir.plugins.descriptors import resolve
from tg2hdl_lower.emit.datapath import Datapath
from tg2hdl_lower.plan.operations import Op, Product, SharedUnitOp, UnitOp
from tg2hdl_lower.sharing.units import build_unit

__all__ = ["emit_op", "emit_shared", "emit_unit"]


def emit_op(d: Datapath, node: Op) -> Value:
    """Combinational logic."""
    stage = d.plan.placement(node.number).stage
    operands = [d.at(n, stage) for n in node.sources]
    types = tuple(d.plan.nodes[n].dtype for n in node.sources)
    return d.named(node, resolve(node.lowering.build)(d.m, operands, types, node.dtype), node.op)


def emit_unit(d: Datapath, node: UnitOp) -> Value:
    """A unit of its own."""
    component = build_unit(node.unit)
    d.m.submodules[f"u{node.number}_{node.op}"] = component
    d.m.d.comb += component.en.eq(1)
    for port, number in zip("abc", node.sources, strict=False):
        d.m.d.comb += getattr(component, port).eq(d.at_issue(node, number))
    return d.named(node, component.result, node.op)


def emit_shared(d: Datapath, node: Product | SharedUnitOp) -> Value:
    """A slot of a multiplier or unit outside, which several operations may use in different cycles."""
    slot = d.plan.placement(node.number).port
    port = (d.products if isinstance(node, Product) else d.shared)[slot]
    drivers = [
        (port.operand(name), d.at_issue(node, number))
        for name, number in zip("abc", node.sources, strict=False)
    ]
    if (node.label, slot) not in d.connected:
        d.connected.add((node.label, slot))
        d.m.d.comb += [operand.eq(value) for operand, value in drivers]
    else:
        with d.m.If(d.active(node)):
            d.m.d.comb += [operand.eq(value) for operand, value in drivers]
    return d.named(node, port.result, node.op)
