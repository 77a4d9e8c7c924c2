"""Rows that move between queues and scratchpad: the DMA channels of a core, and its host port."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal

from tg2hdl_tpu.hardware.dma import Channel, RowFifo
from tg2hdl_tpu.hardware.records import row_bits

__all__ = ["connect_channels"]


def connect_channels(m: Module, core: Any) -> None:
    """Move rows of both channels of a `TensorCore`, and those of its host port into the scratchpad.

    Parameters
    ----------
    m : Module
        Of the core.
    core : TensorCore
        With channels, scratchpad and host port.
    """
    config, load, store, vmem = core.config, core.load, core.store, core.vmem
    m.submodules.arriving = arriving = RowFifo(config.row_bits, ahead=bool(config.issue_registers))
    m.submodules.leaving = leaving = RowFifo(config.row_bits, ahead=bool(config.read_registers))
    bits = row_bits(config)
    waits = {name: _row_waits(m, core, name, channel) for name, channel in (("load", load), ("store", store))}

    request = load.active & load.more & load.room & core.memory_ready & ~core.read_waits
    # A row is put into the scratchpad when that is decided, or a cycle later.
    decided, pop = Signal(), Signal()
    ready, head, put, put_row, loads = arriving.ready, arriving.head, decided, load.row, load.active
    if config.issue_registers:
        put, put_row, loads = load.moved, load.before, load.moved
        stays, head = (
            Signal(name="row_stays"),
            Signal(config.row_bits, name="staged_row", reset_less=True),
        )
        ready = arriving.ready | stays
        m.d.sync += stays.eq(ready & ~decided)
        with m.If(~stays):
            m.d.sync += head.eq(arriving.head)
        m.d.comb += pop.eq(arriving.ready & ~stays)
        m.d.comb += arriving.comes.eq(core.read_valid)
        m.d.sync += arriving.push.eq(core.read_valid)
    else:
        m.d.comb += [pop.eq(decided), arriving.push.eq(core.read_valid)]
    m.d.comb += decided.eq(ready & ~waits["load"] & load.active)
    m.d.comb += [
        core.read_en.eq(request),
        core.read_address.eq(load.address),
        arriving.row.eq(core.read_data),
        arriving.pop.eq(pop),
        # The channel begins after the last row of the port, whose first may come before the run.
        vmem.loaded.eq(Cat(_to_bank(n, put, put_row[:bits]) for n in range(2)) | core.port.wants),
        vmem.load_row.eq(Mux(loads, put_row, core.port.put_row)),
        vmem.load_data.eq(Mux(loads, head, core.host.row)),
        core.port.busy.eq(Cat(core.flights.banks)),
        load.request.eq(request),
        load.outside_done.eq(request),
        load.arrived.eq(pop),
        load.row_done.eq(decided),
        load.finish.eq(decided & (load.row == load.last)),
    ]

    bank = store.row[bits - 1]
    port_free = ~Mux(bank, core.port_b[1], core.port_b[0])
    take = store.active & store.more & store.room & port_free & ~waits["store"]
    taken = Signal()
    m.d.sync += taken.eq(take)
    comes: Any = taken
    arrives: Any = taken
    if config.read_registers:
        comes, arrives = Signal(), Signal()
        m.d.sync += [comes.eq(taken), arrives.eq(comes)]
    sent = leaving.ready & core.memory_ready & store.active
    m.d.comb += [
        vmem.store_row.eq(store.row),
        leaving.comes.eq(comes),
        leaving.push.eq(arrives),
        leaving.row.eq(vmem.store_data),
        leaving.pop.eq(sent),
        core.store_en.eq(sent),
        core.store_address.eq(store.address),
        core.store_data.eq(leaving.head),
        store.request.eq(take),
        store.row_done.eq(take),
        store.arrived.eq(sent),
        store.outside_done.eq(sent),
        store.finish.eq(sent & ~store.more & (store.outstanding == 1)),
    ]


def _to_bank(number: int, wanted: Any, row: Any) -> Any:
    return wanted & (row[-1] == number)


def _row_waits(m: Module, core: Any, name: str, channel: Channel) -> Any:
    """Whether the next row of a channel is still to be written, or its bank is, for a row to write."""
    bits, flights = row_bits(core.config), core.flights
    row, loads = channel.row[:bits], channel is core.load
    if not core.config.issue_registers:
        return flights.hold(row) | (flights.writes & (flights.row[-1] == row[-1]) if loads else 0)
    # Known a cycle early, for the case that the channel moves a row in this cycle and that it does not.
    both = Signal(2, name=f"{name}_waits")
    m.d.sync += both.eq(Cat(flights.hold(r) for r in (row, channel.following[:bits])))
    meets = Mux(row[-1], flights.next_banks[1], flights.next_banks[0]) if loads else 0
    return Mux(channel.moved, both[1], both[0]) | meets
