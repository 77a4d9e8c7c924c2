"""Emission of the nodes of `tg2hdl_lower.plan.operations`."""

from __future__ import annotations

from functools import reduce
from operator import or_

from amaranth.hdl import Value

from tg2hdl_ir.plugins.descriptors import resolve
from tg2hdl_lower.emit.datapath import Datapath
from tg2hdl_lower.ops.resize import resized
from tg2hdl_lower.plan.operations import ConstantProduct, Op, Product, SharedUnitOp, UnitOp, UnitProduct
from tg2hdl_lower.sharing.units import build_constant_unit, build_unit

__all__ = ["connect_turns", "emit_constant_product", "emit_op", "emit_shared", "emit_unit"]


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


def emit_constant_product(d: Datapath, node: ConstantProduct) -> Value:
    """A unit that is built for its constant."""
    component = build_constant_unit(node.unit, node.constant)
    d.m.submodules[f"u{node.number}_{node.op}"] = component
    (source,) = node.sources
    d.m.d.comb += [component.en.eq(1), component.a.eq(d.at_issue(node, source))]
    return d.named(node, component.result, node.op)


def connect_turns(d: Datapath) -> None:
    """Operands of the slots: of the operation that starts in a cycle, an OR of those that are active."""
    for operand, users in d.turns.values():
        value = users[0][1]
        if len(users) > 1:
            width = len(operand)
            gated = [resized(d.m, v, width) & d.active(n).replicate(width) for n, v in users]
            value = reduce(or_, gated)
        d.m.d.comb += operand.eq(value)


def emit_shared(d: Datapath, node: Product | UnitProduct | SharedUnitOp) -> Value:
    """A slot of a multiplier or unit outside, which several operations may use in different cycles."""
    slot = d.plan.placement(node.number).port
    port = (d.products if isinstance(node, Product | UnitProduct) else d.shared)[slot]
    for name, number in zip("abc", node.sources, strict=False):
        turns = d.turns.setdefault((node.label, slot, name), (port.operand(name), []))
        turns[1].append((node, d.at_issue(node, number)))
    return d.named(node, port.result, node.op)
