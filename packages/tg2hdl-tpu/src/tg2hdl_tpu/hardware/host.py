"""The host port: program and operands come in, and results go out, while the machine runs."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tg2hdl_tpu.config import Config
from tg2hdl_tpu.hardware.records import PC_BITS
from tg2hdl_tpu.isa import INSTRUCTION_BITS

__all__ = ["HostSignature", "WordPort"]


class HostSignature(wiring.Signature):
    """The signals of a host: one instruction and one row a cycle in, one row a cycle out.

    Members
    -------
    begin : Out(1)
        Start the machine.  The first word comes in the same cycle, from the second cycle after `done` on.
    first, count : Out
        With `begin`: the rows of the scratchpad that will come; none for 0.  Nothing reads one before it has come.
    word_valid, word_last, word : Out
        The next instruction, from address 0 on.
    row_valid, row, row_ready
        The next row; it is taken when `row_ready` is high.
    results : Out
        Writes to this row of the scratchpad and those above are results.
    result_mask, result_row, result : In
        Lanes that were written in the last cycle, their row, and its words.
    """

    def __init__(self, config: Config) -> None:
        bits = (config.vmem_rows - 1).bit_length()
        super().__init__(
            {
                "begin": Out(1),
                "first": Out(bits),
                "count": Out(bits + 1),
                "word_valid": Out(1),
                "word_last": Out(1),
                "word": Out(INSTRUCTION_BITS),
                "row_valid": Out(1),
                "row_ready": In(1),
                "row": Out(config.row_bits),
                "results": Out(bits),
                "result_mask": In(config.lanes),
                "result_row": In(bits),
                "result": In(config.row_bits),
            }
        )


class WordPort(wiring.Component):
    """Counts received words.

    Members
    -------
    host : HostSignature
    busy : In(2)
        This bank of the scratchpad cannot take a row in this cycle.
    mask, written_row, written : In
        Lanes that are written, their row, and its words.
    wants, put, put_row : Out
        Write `host.row` to this row of the scratchpad, in which bank, which takes it if `put` is high.
    active, row, last, moved, before : Out
        Rows that are still to come; whether one came in the last cycle, and `row` in that cycle.
    write_en, write_address : Out
        Where `host.word` belongs.
    streaming, known : Out
        Words are still to come, and those below `known` were there before this cycle.
    """

    def __init__(self, config: Config) -> None:
        bits = (config.vmem_rows - 1).bit_length()
        super().__init__(
            {
                "host": In(HostSignature(config)),
                "busy": In(2),
                "mask": In(config.lanes),
                "written_row": In(bits),
                "written": In(config.row_bits),
                "wants": Out(2),
                "put": Out(1),
                "put_row": Out(bits),
                "active": Out(1),
                "row": Out(bits + 1),
                "last": Out(bits + 1),
                "moved": Out(1),
                "before": Out(bits + 1),
                "write_en": Out(1),
                "write_address": Out(PC_BITS),
                "streaming": Out(1),
                "known": Out(PC_BITS),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Build the counters."""
        m = Module()
        host = self.host
        at, last, expects = Signal.like(self.row), Signal.like(self.last), Signal()
        # In which bank the next row belongs is known from registers.
        bank, of_bank = len(self.put_row) - 1, Signal(2)
        first = Mux(host.count != 0, Cat(~host.first[bank], host.first[bank]), 0)
        following, more = Signal.like(self.row), Signal()
        m.d.comb += [
            at.eq(Mux(host.begin, host.first, self.row)),
            last.eq(Mux(host.begin, host.first + host.count - 1, self.last)),
            expects.eq(Mux(host.begin, host.count != 0, self.active)),
            host.row_ready.eq(expects & ~Mux(at[bank], self.busy[1], self.busy[0])),
            self.wants.eq(Mux(host.begin, first, of_bank) & host.row_valid.replicate(2)),
            self.put.eq((self.wants & ~self.busy).any()),
            following.eq(at + self.put),
            more.eq(expects & ~(self.put & (at == last))),
            self.put_row.eq(at),
            self.write_en.eq(host.word_valid),
            self.write_address.eq(Mux(host.begin, 0, self.known)),
        ]
        m.d.sync += [
            self.row.eq(following),
            of_bank.eq(Mux(more, Cat(~following[bank], following[bank]), 0)),
            self.moved.eq(self.put),
            self.before.eq(at),
            self.last.eq(last),
            self.active.eq(more),
            self.known.eq(self.write_address + self.write_en),
            host.result_mask.eq(Mux(self.written_row >= host.results, self.mask, 0)),
            host.result_row.eq(self.written_row),
            host.result.eq(self.written),
        ]
        incomplete = Signal()
        m.d.comb += self.streaming.eq(host.begin | incomplete)
        m.d.sync += incomplete.eq(self.streaming & ~(host.word_valid & host.word_last))
        return m
