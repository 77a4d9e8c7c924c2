"""AXI4-Stream of a design that computes row by row: elements come and go while others are computed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amaranth import Module, Signal

from tg2hdl_lower import HostBuffer
from tg2hdl_top.ports.elements import ElementReader, ElementWriter

__all__ = ["follow_rows", "send_rows", "take_rows"]


def take_rows(m: Module, host: Any, buffer: HostBuffer, source: Any, dropped: Signal) -> None:
    """Write the elements of packets, each of which is a frame.

    A packet that ends early is filled up with any elements, and one that goes on is dropped up to its end.

    Parameters
    ----------
    host : interface
        Of the design to the buffer.
    source : interface
        The stream.
    dropped : Signal
        Driven high for a cycle at the end of a packet of another length.
    """
    m.submodules[f"write_{buffer.name}"] = writer = ElementWriter(buffer)
    filling, dropping, moves, short = Signal(), Signal(), Signal(), Signal()
    m.d.comb += [
        source.tready.eq(dropping | (host.open & ~filling)),
        moves.eq(host.open & ~dropping & (filling | source.tvalid)),
        host.moves.eq(moves),
        writer.valid.eq(moves),
        writer.element.eq(source.tdata),
        host.wen.eq(writer.wen),
        host.waddr.eq(writer.waddr),
        host.wdata.eq(writer.wdata),
        short.eq(moves & ~filling & source.tlast & ~writer.last),
        dropped.eq(short | (dropping & source.tvalid & source.tlast)),
    ]
    with m.If(short):
        m.d.sync += filling.eq(1)
    with m.Elif(moves & writer.last):
        m.d.sync += [filling.eq(0), dropping.eq(~filling & ~source.tlast)]
    with m.Elif(dropping & source.tvalid & source.tlast):
        m.d.sync += dropping.eq(0)


def send_rows(m: Module, host: Any, buffer: HostBuffer, sink: Any) -> None:
    """Send the elements of all frames, each as a packet; parameters as of `take_rows`.

    Parameters
    ----------
    m, host, buffer, sink
        As of `take_rows`; `sink` is the stream of results.
    """
    m.submodules[f"read_{buffer.name}"] = reader = ElementReader(buffer)
    m.d.comb += [
        host.raddr.eq(reader.raddr),
        reader.rdata.eq(host.rdata),
        reader.open.eq(host.open),
        host.moves.eq(reader.moves),
        sink.tvalid.eq(reader.valid),
        sink.tdata.eq(reader.element),
        sink.tlast.eq(reader.last),
        reader.take.eq(sink.tready),
    ]


def follow_rows(
    simulation: Any, elements: list[int], kernels: int, results: int, limit: int
) -> tuple[tuple[int, ...], list[int]]:
    """Send a packet and take the results as they come.

    Parameters
    ----------
    simulation : Simulation
    elements : list of int
        Bits of the packet.
    kernels, results : int
        Cores, and elements of the results.
    limit : int
        Clock cycles.

    Returns
    -------
    ends : tuple of int
        Clock cycles from the first element to the end of the last run of each kernel.
    found : list of int
        Bits of the results.
    """
    place, cycle, begun, over = 0, 0, -1, False
    ends, found = [0] * kernels, list[int]()
    simulation.set("m_axis__tready", 1)
    while cycle <= limit and not (over and len(found) == results):
        offered: Mapping[str, int] = {
            "tvalid": place < len(elements),
            "tdata": elements[place] if place < len(elements) else 0,
            "tlast": place == len(elements) - 1,
        }
        for name, value in offered.items():
            simulation.set(f"s_axis__{name}", int(value))
        if offered["tvalid"] and simulation.get("s_axis__tready"):
            begun, place = cycle if begun < 0 else begun, place + 1
        if simulation.get("m_axis__tvalid"):
            found.append(simulation.get("m_axis__tdata"))
        for kernel in range(kernels):
            if simulation.get(f"status__kernel_done__{kernel}"):
                ends[kernel] = cycle - begun
        over = over or bool(simulation.get("status__done"))
        simulation.step()
        cycle += 1
    simulation.set("m_axis__tready", 0)
    return tuple(ends), found
