"""The controller: reads an image in bursts that follow each other without a gap, refreshes, and writes single words."""

from __future__ import annotations

from typing import Any

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.hdl import Value
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from tg2hdl_top.external.memory_port import ADDRESS_BITS, MemoryPort
from tg2hdl_top.external.sdram.model import BURST, QUEUE, SdramModel

__all__ = ["SdramReadPort"]

ROW_BITS = 13
ALL_BANKS = AUTO_PRECHARGE = 1 << 10
"""Address bit of these commands."""
# ras_n, cas_n, we_n
ACTIVATE, READ, WRITE, PRECHARGE, REFRESH, MODE = 0b011, 0b101, 0b100, 0b010, 0b001, 0b000


class SdramReadPort(MemoryPort):
    """Streams an image out of an SDRAM.

    The page that follows is opened while a page is read.  Each run begins with a refresh at a fixed time after `start`,
    so that all runs take the same cycles.  A run that starts before the chip is initialized waits for it.

    Members
    -------
    outside : Out(Signature)
        The pins of the chip as `sdram` (its clock is that of the design), `memory_base` and `memory_failed`.
    """

    name = "sdram"
    writes = True
    model: SdramModel

    def __init__(self, model: SdramModel, beats: int) -> None:
        pins = {
            **{"cke": Out(1), "cs_n": Out(1), "ras_n": Out(1, init=1), "cas_n": Out(1, init=1)},
            **{"we_n": Out(1, init=1), "ba": Out(2), "a": Out(ROW_BITS), "dqm": Out(model.beat_bytes)},
            **{"dq_o": Out(model.bits), "dq_oe": Out(1), "dq_i": In(model.bits)},
        }
        super().__init__(model, beats, pins)

    def _place(self, word: Value) -> tuple[Value, Value, Value]:
        """Row, bank and column of a word."""
        columns = (self.model.columns - 1).bit_length()
        rows = (self.model.rows - 1).bit_length()
        return word[columns + 2 :][:rows], word[columns : columns + 2], word[:columns]

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m, model, pins, write = Module(), self.model, self.bus, self.memory_write
        cycles = model.cycles
        low = (model.beat_bytes - 1).bit_length()
        m.d.comb += [pins.cke.eq(1), pins.cs_n.eq(0), pins.dqm.eq(0)]
        # No register at the pins keeps its value, so that it can be part of its pad.
        m.d.sync += [Cat(pins.we_n, pins.cas_n, pins.ras_n).eq(0b111), pins.dq_o.eq(write.data)]
        m.d.sync += [pins.a.eq(0), pins.ba.eq(0)]

        power_up = 0 if model.initialized else cycles(model.power_up)
        wait = Signal(range(max(power_up, model.settle, BURST) + 1), init=power_up)
        # Whether `wait` is 0, from a register: the commands and their addresses depend on it.
        ready = Signal(init=power_up == 0)
        m.d.sync += ready.eq(wait <= 1)
        with m.If(wait != 0):
            m.d.sync += wait.eq(wait - 1)

        def pause(cycles: int) -> None:
            """Give the next command after so many cycles."""
            m.d.sync += [wait.eq(cycles - 1), ready.eq(cycles == 1)]

        def command(code: int, address: Any, bank: Any = 0, then: int = 1) -> None:
            """Give a command; the next one is given after so many cycles."""
            m.d.sync += [
                Cat(pins.we_n, pins.cas_n, pins.ras_n).eq(code),
                pins.a.eq(address),
                pins.ba.eq(bank),
            ]
            pause(then)

        interval = model.refresh_interval
        timer, due = Signal(range(interval), init=interval - 1), Signal()
        m.d.sync += timer.eq(Mux(timer == 0, interval - 1, timer - 1))
        with m.If(timer == 0):
            m.d.sync += due.eq(1)

        # A run begins once the commands under way have ended.
        pending, settle = Signal(), Signal(range(model.settle + 1))
        with m.If(settle != 0):
            m.d.sync += settle.eq(settle - 1)
        with m.If(self.start):
            m.d.sync += [pending.eq(1), settle.eq(model.settle)]

        words = Signal(ADDRESS_BITS - low)
        left = Signal(range(self.beats + 1))
        row, bank, column = self._place(words)
        # The page is opened ahead when a burst was read of the one before.
        next_row, next_bank, _ = self._place((words + (model.columns - BURST))[: len(words)])
        m.submodules.queue = queue = SyncFIFO(width=model.bits, depth=QUEUE)
        reserved, flight = Signal(range(QUEUE + 1)), Signal(model.cas_latency + 1 + BURST)
        data, taken = Signal(model.bits), Signal()
        rest = self.beats % BURST
        reads, done, short, last, ends_page, more = (Signal() for _ in range(6))
        # Constant for a cycle before each read.
        m.d.sync += [
            done.eq(left == 0),
            short.eq(left < BURST),
            last.eq(left <= BURST),
            ends_page.eq(column[3:].all()),
            more.eq(left > model.columns - column),
        ]
        count = Mux(short, rest, BURST)
        m.d.sync += [data.eq(pins.dq_i), flight.eq(flight >> 1)]
        m.d.sync += reserved.eq(reserved + Mux(reads, count, 0) - taken)
        room = Signal(init=1)  # not for the next cycle if there is a read in this one
        m.d.sync += room.eq(reserved <= QUEUE - BURST + taken)
        m.d.comb += [
            queue.w_data.eq(data),
            queue.w_en.eq(flight[0]),
            self.valid.eq(queue.r_rdy & ~self.outside.memory_failed),
            self.data.eq(queue.r_data),
            taken.eq(self.valid & self.ready),
            queue.r_en.eq(taken),
        ]

        # Whether the following page must be opened still; whether that is done in this cycle.
        opens, ahead = Signal(), Signal()
        m.d.sync += ahead.eq(0)
        with m.If(ahead):
            m.d.sync += [
                Cat(pins.we_n, pins.cas_n, pins.ras_n).eq(ACTIVATE),
                pins.a.eq(next_row),
                pins.ba.eq(next_bank),
            ]
        to_do = Signal(4, init=8)
        written = Signal(ADDRESS_BITS - low)
        m.d.comb += written.eq(self.outside.memory_base[low:] + write.address)
        written_row, written_bank, written_column = self._place(written)
        with m.If(ready), m.FSM(init="IDLE" if model.initialized else "POWER UP") as steps:
            with m.State("POWER UP"):
                command(PRECHARGE, ALL_BANKS, then=cycles(model.t_rp))
                m.next = "PREPARE"
            with m.State("PREPARE"):
                command(REFRESH, 0, then=cycles(model.t_rfc))
                m.d.sync += to_do.eq(to_do - 1)
                with m.If(to_do == 1):
                    m.next = "MODE"
            with m.State("MODE"):
                # Bursts of eight words are read, single words are written.
                command(MODE, 1 << 9 | model.cas_latency << 4 | 0b011, then=cycles(model.t_mrd))
                m.next = "IDLE"
            with m.State("IDLE"):
                with m.If(pending & (settle == 0)):
                    command(REFRESH, 0, then=cycles(model.t_rfc))
                    m.d.sync += [pending.eq(0), due.eq(0), timer.eq(interval - 1)]
                    m.d.sync += [words.eq(self.outside.memory_base[low:]), left.eq(self.beats)]
                    m.next = "OPEN"
                with m.Elif(due & ~pending):
                    command(REFRESH, 0, then=cycles(model.t_rfc))
                    m.d.sync += due.eq(0)
                with m.Elif(write.valid & ~pending):
                    command(ACTIVATE, written_row, written_bank, then=cycles(model.t_rcd))
                    m.next = "WRITE"
            with m.State("WRITE"):
                command(WRITE, written_column | AUTO_PRECHARGE, written_bank, then=model.write_cycles)
                m.d.comb += write.ready.eq(1)
                m.next = "IDLE"
            with m.State("OPEN"):
                command(ACTIVATE, row, bank, then=cycles(model.t_rcd))
                m.d.sync += opens.eq(1)
                m.next = "READ"
            with m.State("READ"):
                with m.If(done):
                    pause(cycles(model.t_rp))
                    m.next = "IDLE"
                with m.Elif(due):
                    command(PRECHARGE, ALL_BANKS, then=cycles(model.t_rp))
                    m.next = "REFRESH"
                with m.Elif(room):
                    closes = last | ends_page
                    command(READ, Cat(column, Const(0, 10 - len(column)), closes), bank, then=BURST)
                    arriving = Mux(short, (1 << rest) - 1, (1 << BURST) - 1)
                    m.d.comb += reads.eq(1)
                    m.d.sync += [
                        flight.eq((flight >> 1) | (arriving << (model.cas_latency + 1))),
                        words.eq(words + BURST),
                        left.eq(left - count),
                        ahead.eq(opens & more),
                        opens.eq(ends_page),
                    ]
            with m.State("REFRESH"):
                command(REFRESH, 0, then=cycles(model.t_rfc))
                m.d.sync += due.eq(0)
                m.next = "OPEN"
        # Driven since the row was opened: one register enables all pads, which is too slow for half a cycle.
        m.d.sync += pins.dq_oe.eq(steps.ongoing("WRITE"))
        self._failure(m, Const(0))
        return m
