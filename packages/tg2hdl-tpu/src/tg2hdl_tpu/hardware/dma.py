"""The two channels between external memory and scratchpad."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from tg2hdl_tpu.config import ADDRESS_BITS, DMA_FIFO, Config

__all__ = ["Channel", "RowFifo"]


class RowFifo(wiring.Component):
    """Rows that have arrived; a row is at the output in the cycle in which it arrives.

    Parameters
    ----------
    width : int
    ahead : bool
        `row` comes a cycle before `push`, announced by `comes`: then it needs no way around the memory.

    Members
    -------
    push, row, comes : In
        A row arrives.
    pop : In
        Takes the first row.
    head, ready : Out
        The first row, and whether there is one.
    """

    def __init__(self, width: int, *, ahead: bool = False) -> None:
        self.width, self.ahead = width, ahead
        inputs = {"push": In(1), "row": In(width), "comes": In(1), "pop": In(1)}
        super().__init__(inputs | {"head": Out(width), "ready": Out(1)})

    def elaborate(self, platform: Any) -> Module:
        """Build memory and counters."""
        m = Module()
        m.submodules.memory = memory = Memory(shape=self.width, depth=DMA_FIFO, init=[])
        read, write = memory.read_port(domain="comb"), memory.write_port()
        count, ready = Signal(range(DMA_FIFO + 1)), Signal()
        first, last = Signal(range(DMA_FIFO)), Signal(range(DMA_FIFO))
        passes = Const(0) if self.ahead else (count == 0) & self.pop
        written = self.comes if self.ahead else self.push & ~passes
        m.d.comb += [
            read.addr.eq(first),
            write.addr.eq(last),
            write.data.eq(self.row),
            write.en.eq(written),
            self.head.eq(read.data if self.ahead else Mux(count == 0, self.row, read.data)),
            self.ready.eq(ready if self.ahead else (count != 0) | self.push),
        ]
        taken = self.pop & ~passes
        # A row that is ahead is there in the next cycle.
        more = (count > 1) | ((count == 1) & self.push)
        m.d.sync += ready.eq(self.comes | Mux(taken, more, ready))
        m.d.sync += last.eq(last + written)
        with m.If(taken):
            m.d.sync += first.eq(first + 1)
        with m.If(taken ^ (self.push & ~passes)):
            m.d.sync += count.eq(Mux(taken, count - 1, count + 1))
        return m


class Channel(wiring.Component):
    """Registers of one channel.

    Members
    -------
    start, first, final, count, outside, outside_final : In
        A new transfer: rows of the scratchpad and of the external memory.
    row_done, outside_done, request, finish : In
        One row moved at the scratchpad, at the external memory; a row is on its way; the transfer ends.
    active : Out(1)
    row, last : Out
        The rows of the scratchpad that are left.
    address, outside_first, outside_last : Out
        The next row of the external memory, and all of the transfer.
    moved, before, following : Out
        A row moved at the scratchpad in the last cycle, and `row` in that cycle; the row after `row`.
    more, room : Out
        Requests are left; there is a place for one more row.
    outstanding : Out
        Rows on their way.
    """

    def __init__(self, config: Config) -> None:
        bits = (config.vmem_rows - 1).bit_length() + 1
        super().__init__(
            {
                "start": In(1),
                "first": In(bits),
                "final": In(bits),
                "count": In(10),
                "outside": In(ADDRESS_BITS),
                "outside_final": In(ADDRESS_BITS),
                "row_done": In(1),
                "outside_done": In(1),
                "request": In(1),
                "arrived": In(1),
                "finish": In(1),
                "active": Out(1),
                "row": Out(bits),
                "last": Out(bits),
                "moved": Out(1),
                "before": Out(bits),
                "following": Out(bits),
                "address": Out(ADDRESS_BITS),
                "outside_first": Out(ADDRESS_BITS),
                "outside_last": Out(ADDRESS_BITS),
                "more": Out(1),
                "room": Out(1),
                "outstanding": Out(range(DMA_FIFO + 1)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Build the counters."""
        m = Module()
        left = Signal(10)
        # Late signals only enable counters; they are neither added nor compared.
        m.d.sync += [self.moved.eq(self.row_done), self.before.eq(self.row)]
        with m.If(self.row_done):
            m.d.sync += [self.row.eq(self.row + 1), self.following.eq(self.following + 1)]
        with m.If(self.outside_done):
            m.d.sync += self.address.eq(self.address + 1)
        with m.If(self.request):
            m.d.sync += [left.eq(left - 1), self.more.eq(left != 1)]
        with m.If(self.request ^ self.arrived):
            m.d.sync += self.outstanding.eq(Mux(self.request, self.outstanding + 1, self.outstanding - 1))
            m.d.sync += self.room.eq(self.arrived | (self.outstanding != DMA_FIFO - 1))
        with m.If(self.finish):
            m.d.sync += self.active.eq(0)
        with m.If(self.start):
            m.d.sync += self.active.eq(1)
        with m.If(~self.active):
            # Until it starts, so that the first row is known a cycle before.
            m.d.sync += [
                self.row.eq(self.first),
                self.following.eq(self.first + 1),
                self.last.eq(self.final),
                self.address.eq(self.outside),
                self.outside_first.eq(self.outside),
                self.outside_last.eq(self.outside_final),
                left.eq(self.count),
                self.more.eq(self.count != 0),
                self.room.eq(1),
                self.outstanding.eq(0),
            ]
        return m
