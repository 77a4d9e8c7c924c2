"""Emission of the nodes of `tg2hdl_lower.plan.values`."""

from __future__ import annotations

from amaranth.hdl import Const, Value

from tg2hdl_lower.emit.datapath import Datapath, shape_of
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

__all__ = [
    "emit_address",
    "emit_constant",
    "emit_counter",
    "emit_first",
    "emit_lane_index",
    "emit_last",
    "emit_position",
    "emit_variable",
]


def emit_constant(d: Datapath, node: Constant) -> Value:
    """A number."""
    return Const(node.value, shape_of(node))


def emit_variable(d: Datapath, node: Variable) -> Value:
    """A port of the kernel."""
    return d.variables[node.variable.name]


def emit_counter(d: Datapath, node: Counter) -> Value:
    """The register of a loop."""
    return d.control.counters[node.axis].value


def emit_first(d: Datapath, node: FirstFlag) -> Value:
    """The register of a loop that is set in the first iteration."""
    return d.control.counters[node.axis].first


def emit_last(d: Datapath, node: LastFlag) -> Value:
    """The register of a loop that is set in the last iteration."""
    return d.control.counters[node.axis].last


def emit_address(d: Datapath, node: Address) -> Value:
    """A register with an adder."""
    return d.addresses.add(node, d.plan.leaves[node.leaf])


def emit_position(d: Datapath, node: WordPosition) -> Value:
    """A register of the address generator."""
    return d.addresses.position(node)


def emit_lane_index(d: Datapath, node: LaneIndex) -> Value:
    """Sum of the weighted positions."""
    stage = d.plan.placement(node.number).stage
    parts = zip(node.positions, node.weights, strict=True)
    terms = [_times(d.at(n, stage), weight) for n, weight in parts]
    return d.named(node, sum(terms, Const(node.offset)), "laneindex")


def _times(value: Value, factor: int) -> Value:
    """Product with a positive constant, which is no product to synthesis."""
    bits = [bit for bit in range(factor.bit_length()) if factor >> bit & 1]
    return sum((value.shift_left(bit) for bit in bits[1:]), value.shift_left(bits[0]))
