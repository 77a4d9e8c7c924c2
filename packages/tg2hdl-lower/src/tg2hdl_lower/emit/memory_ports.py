"""Connects the ports of a kernel to the loads and stores of its plan."""

from __future__ import annotations

from collections.abc import Mapping

from amaranth import Mux
from amaranth.hdl import Cat, Const, Value

from tg2hdl_lower.emit.datapath import Datapath
from tg2hdl_lower.emit.ports import ReadPort, WritePort
from tg2hdl_lower.plan.accesses import Load, Store
from tg2hdl_lower.plan.hardware_plan import HardwarePlan

__all__ = ["connect_read_ports", "connect_write_ports", "writes_one_element"]


def connect_read_ports(d: Datapath, ports: Mapping[tuple[int, int], ReadPort]) -> None:
    """Drive the addresses of all read ports.

    Parameters
    ----------
    d : Datapath
    ports : mapping of (int, int) to ReadPort
        By buffer and number of the port.
    """
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
    """Drive all write ports.

    Parameters
    ----------
    d : Datapath
    ports : mapping of (int, int) to WritePort
        By buffer and number of the port.
    """
    for key, port in ports.items():
        stores = [n for n in d.plan.live() if isinstance(n, Store) and _port(d, n) == key]
        lanes = d.plan.layouts[key[0]].lanes
        width = port.element_width
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
        given = len(port.data) // width
        domain += [port.data.word_select(n, width).eq(value) for n, value in enumerate(data[:given])]


def writes_one_element(plan: HardwarePlan, key: tuple[int, int]) -> bool:
    """Whether the stores of a port, by buffer and number, put the element of any lane into all of them.

    Parameters
    ----------
    plan : HardwarePlan
    key : (int, int)
        Buffer and number of the port.
    """
    stores = (n for n in plan.live() if isinstance(n, Store))
    mine = (n for n in stores if (n.buffer, plan.placement(n.number).port) == key)
    return all(n.position is not None and not n.places for n in mine)


def _targets(d: Datapath, store: Store, lane: int, enable: Value) -> list[tuple[int, Value]]:
    """Lanes that an element may go to, each with its enable."""
    if store.position is None:
        return [(lane, enable)]
    chosen = d.at_issue(store, store.position)
    if store.places:
        return [(lane + place, enable & (chosen == place)) for place in store.places]
    return [(n, enable & (chosen == n)) for n in range(d.plan.layouts[store.buffer].lanes)]


def _port(d: Datapath, node: Load | Store) -> tuple[int, int]:
    return node.buffer, d.plan.placement(node.number).port
