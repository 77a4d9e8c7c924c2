"""Emission of the nodes of `tg2hdl_lower.plan.accesses`, and of the ports to the memories."""

from __future__ import annotations

from collections.abc import Mapping

from amaranth import Mux, Signal
from amaranth.hdl import Cat, Const, Value

from tg2hdl_lower.emit.datapath import Datapath
from tg2hdl_lower.emit.delay_lines import delayed
from tg2hdl_lower.emit.ports import ReadPort, WritePort
from tg2hdl_lower.plan.accesses import FixedLane, Load, PickedLane, Replay, Store

__all__ = [
    "connect_read_ports",
    "connect_write_ports",
    "emit_fixed_lane",
    "emit_load",
    "emit_picked_lane",
    "emit_replay",
]


def emit_load(d: Datapath, node: Load) -> Value:
    """The data of a port."""
    data = d.reads[node.buffer, d.plan.placement(node.number).port].data
    whole = d.plan.layouts[node.buffer].lanes == 1
    return data.as_signed() if whole and d.plan.storage[node.buffer].kind == "int" else data


def emit_replay(d: Datapath, node: Replay) -> Value:
    """A delay line after another word."""
    source = d.result.signals[node.source]
    return delayed(d.m, source, d.plan.delay_lines[node.number], f"v{node.number}_reuse")


def emit_fixed_lane(d: Datapath, node: FixedLane) -> Value:
    """Part of a word."""
    word = d.at(node.word, d.plan.placement(node.number).stage)
    return _element(d, node, word.word_select(node.lane, node.storage.bit_width))


def emit_picked_lane(d: Datapath, node: PickedLane) -> Value:
    """Multiplexer of parts of one word or of two."""
    stage, width = d.plan.placement(node.number).stage, node.storage.bit_width
    words = [d.at(n, stage) for n in node.words]
    position = d.at(node.position, stage)
    # Not word_select, which multiplies the number of the lane by its width.
    lane = Signal(width, name=f"v{node.number}_selected")
    with d.m.Switch(position.as_unsigned()):
        for value, word, number in node.choices:
            with d.m.Case(value):
                d.m.d.comb += lane.eq(words[word].word_select(number, width))
    return _element(d, node, lane)


def _element(d: Datapath, node: FixedLane | PickedLane, lane: Value) -> Value:
    return d.named(node, lane.as_signed() if node.storage.kind == "int" else lane, "lane")


def connect_read_ports(d: Datapath, ports: Mapping[tuple[int, int], ReadPort]) -> None:
    """Drive the addresses of all read ports."""
    for key, port in ports.items():
        loads = [n for n in d.plan.live() if isinstance(n, Load) and _port(d, n) == key]
        address: Value = Const(0)
        for n, load in enumerate(loads):
            word = d.at_issue(load, load.address)
            address = word if n == 0 else Mux(d.active(load), word, address)
        enable = Const(0, 1)
        for load in loads:
            enable = enable | d.active(load)
        domain = d.m.d.sync if key[0] in d.plan.port_registers.reads else d.m.d.comb
        domain += [port.addr.eq(address), port.en.eq(enable)]


def connect_write_ports(d: Datapath, ports: Mapping[tuple[int, int], WritePort]) -> None:
    """Drive all write ports."""
    for key, port in ports.items():
        stores = [n for n in d.plan.live() if isinstance(n, Store) and _port(d, n) == key]
        lanes = d.plan.layouts[key[0]].lanes
        width = len(port.data) // lanes
        address: Value = Const(0)
        data: list[Value] = [Const(0, width)] * lanes
        enables: list[Value] = [Const(0, 1)] * lanes
        for n, store in enumerate(stores):
            active = d.active(store)
            word = d.at_issue(store, store.address)
            address = word if n == 0 else Mux(active, word, address)
            for entry in store.lanes:
                enable = d.active_when(store, entry.gate)
                source = d.at_issue(store, entry.value)
                for lane, selected in _targets(d, store, entry.lane, enable):
                    data[lane] = source if n == 0 else Mux(active, source, data[lane])
                    enables[lane] = enables[lane] | selected
        domain = d.m.d.sync if key[0] in d.plan.port_registers.writes else d.m.d.comb
        domain += [port.addr.eq(address), port.en.eq(Cat(*enables))]
        domain += [port.data.word_select(n, width).eq(value) for n, value in enumerate(data)]


def _targets(d: Datapath, store: Store, lane: int, enable: Value) -> list[tuple[int, Value]]:
    """Lanes that an element may go to, each with its enable."""
    if store.position is None:
        return [(lane, enable)]
    chosen = d.at_issue(store, store.position)
    return [(n, enable & (chosen == n)) for n in range(d.plan.layouts[store.buffer].lanes)]


def _port(d: Datapath, node: Load | Store) -> tuple[int, int]:
    return node.buffer, d.plan.placement(node.number).port
