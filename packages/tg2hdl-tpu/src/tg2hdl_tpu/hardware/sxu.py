"""The sequencer: fetch, loops, branches and address registers."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.memory import Memory, MemoryData
from amaranth.lib.wiring import In, Out

from tg2hdl_tpu.config import ADDRESS_BITS, ADDRESS_REGISTERS, LOOP_DEPTH, Config
from tg2hdl_tpu.hardware.records import PC_BITS, fields, is_one_of, resolved_layout
from tg2hdl_tpu.isa import INSTRUCTION_BITS, OPCODES, Trap, illegal

__all__ = ["Sxu"]

_LIMIT = 1 << (ADDRESS_BITS - 1)


class Sxu(wiring.Component):
    """Executes scalar instructions, and hands the others to the row stage.

    Members
    -------
    reset, start : In(1)
        `reset` is high while the machine does not run.  After `start` the first instruction is executed.
    halting : In(1)
        Execute nothing.
    ready : In(1)
        The row stage takes `instruction`.
    word_valid, word : In
        The word that `lda` waits for.
    bypass, streaming, known : In
        `write_data` comes from the host port; words are still to come, and those below `known` have been written.
    valid, instruction : Out
        For the row stage.
    halt, trap, trap_pc : Out
        Stop, with a trap or none.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        # The highest bit says that the word is an instruction of this machine.
        self.program = MemoryData(shape=INSTRUCTION_BITS + 1, depth=config.imem_depth, init=[])
        super().__init__(
            {
                "reset": In(1),
                "start": In(1),
                "halting": In(1),
                "ready": In(1),
                "word_valid": In(1),
                "word": In(signed(32)),
                "write_en": In(1),
                "write_address": In(PC_BITS),
                "write_data": In(INSTRUCTION_BITS),
                "bypass": In(1),
                "streaming": In(1),
                "known": In(PC_BITS),
                "valid": Out(1),
                "instruction": Out(resolved_layout()),
                "halt": Out(1),
                "trap": Out(4),
                "trap_pc": Out(PC_BITS),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Build fetch and execution."""
        m = Module()
        config = self.config
        m.submodules.program = memory = Memory(self.program)
        read, write = memory.read_port(), memory.write_port()
        bad = reduce(or_, [condition for condition, _ in illegal(fields(self.write_data), config)])
        m.d.comb += [
            write.addr.eq(self.write_address),
            write.data.eq(Cat(self.write_data, ~bad)),
            write.en.eq(self.write_en),
        ]
        word, valid, pc = Signal(INSTRUCTION_BITS + 1), Signal(), Signal(PC_BITS)
        fetched = Signal(PC_BITS)  # the address of what the memory shows
        target, redirect, consumed = Signal(PC_BITS), Signal(), Signal()
        following = Signal(PC_BITS)
        m.d.comb += read.addr.eq(following)
        m.d.sync += fetched.eq(following)
        # A word from the host port is executed in the next cycle; the memory shows it two cycles later.
        shown, passes = Signal(init=1), Signal()
        m.d.sync += shown.eq(~self.streaming | (following < self.known))
        m.d.comb += passes.eq(self.bypass & (self.write_address == fetched))
        # Before the start, the memory shows the first instruction.
        with m.If(self.reset & ~self.start):
            m.d.comb += following.eq(0)
            m.d.sync += valid.eq(0)
        with m.Elif(redirect):
            m.d.comb += following.eq(target)
            m.d.sync += valid.eq(0)
        with m.Elif((consumed | ~valid) & (shown | passes)):
            m.d.comb += following.eq(fetched + 1)
            m.d.sync += [word.eq(Mux(passes, write.data, read.data)), pc.eq(fetched), valid.eq(1)]
        with m.Elif(consumed):
            m.d.comb += following.eq(fetched)
            m.d.sync += valid.eq(0)
        with m.Else():
            m.d.comb += following.eq(fetched)

        i = fields(word)
        registers = Array([Signal(signed(ADDRESS_BITS), name=f"a{n}") for n in range(ADDRESS_REGISTERS)])
        a_register = registers[i.a_reg]
        loop_start = Array([Signal(PC_BITS, name=f"start{n}") for n in range(LOOP_DEPTH)])
        loop_left = Array([Signal(ADDRESS_BITS, name=f"left{n}") for n in range(LOOP_DEPTH)])
        depth = Signal(range(LOOP_DEPTH + 1))
        top = Signal(range(LOOP_DEPTH))
        m.d.comb += top.eq(depth - 1)

        rows = is_one_of(
            i.opcode, (n for n, o in OPCODES.items() if o.form in ("weights", "index", "dma", "lda"))
        )
        rows = rows | (i.opcode >= 32)
        is_lda = i.opcode == OPCODES["lda"].code
        is_dma = is_one_of(i.opcode, ("load", "store"))
        waits, waiting_register, waiting_pc = Signal(), Signal(3), Signal(PC_BITS)
        can, run = Signal(), Signal()
        outside, wrong = Signal(), Signal()
        m.d.comb += [
            can.eq(valid & ~self.halting & ~waits),
            outside.eq(pc >= config.imem_depth),
            wrong.eq(~word[-1]),
            run.eq(can & ~outside & ~wrong),
            self.valid.eq(run & rows),
        ]
        self._resolve(m, i, registers, is_dma, is_lda)
        m.d.comb += self.instruction.pc.eq(pc)

        trap = Signal(4)
        m.d.comb += [self.trap.eq(trap), self.trap_pc.eq(pc)]
        with m.If(can & outside):
            m.d.comb += trap.eq(Trap.PROGRAM)
        with m.Elif(can & wrong):
            m.d.comb += trap.eq(Trap.ILLEGAL)
        with m.If(self.valid & self.ready):
            m.d.comb += consumed.eq(1)
            m.d.sync += [waits.eq(is_lda), waiting_register.eq(i.dst_reg), waiting_pc.eq(pc)]
        fits = Signal()
        m.d.comb += fits.eq((self.word < _LIMIT) & (self.word >= -_LIMIT))
        # `lda` and `set` never write in the same cycle.
        total, sets, comes = Signal(signed(34)), Signal(), Signal()
        m.d.comb += [total.eq(a_register + i.b), comes.eq(waits & self.word_valid & ~self.halting)]
        with m.If(sets | comes):
            target_register = registers[Mux(waits, waiting_register, i.dst_reg)]
            m.d.sync += target_register.eq(Mux(waits, self.word, total))
        with m.If(comes):
            m.d.sync += waits.eq(0)
            with m.If(~fits):
                m.d.comb += [trap.eq(Trap.REGISTER), self.trap_pc.eq(waiting_pc)]
        with m.If(run & ~rows):
            loops = (loop_start, loop_left, depth, top)
            self._scalar(m, i, (total, sets), a_register, loops, trap, target, redirect, pc)
            m.d.comb += consumed.eq(1)
        m.d.comb += self.halt.eq((trap != 0) | (run & (i.opcode == OPCODES["halt"].code)))
        with m.If(self.reset):
            m.d.sync += [waits.eq(0), depth.eq(0), *(register.eq(0) for register in registers)]
        return m

    def _resolve(self, m: Module, i: Any, registers: Any, is_dma: Any, is_lda: Any) -> None:
        out = self.instruction
        for name in out.shape().members:
            if hasattr(i, name) and name not in ("dst", "a", "b"):
                m.d.comb += out[name].eq(getattr(i, name))
        row = i.b[:16]
        base = Mux(is_dma | i.constant, i.b, row)
        config = self.config
        is_tile, is_weights = (i.opcode == OPCODES[name].code for name in ("tile", "weights"))
        for pre, words in ((1, config.lanes), (2, 4 * config.lanes)):
            sizes = (config.rows, config.columns, config.rows * config.columns)
            logs = [max(1, words // size).bit_length() - 1 for size in sizes]
            with m.If(i.pre == pre):
                m.d.comb += out.shift.eq(Mux(is_tile, logs[2], Mux(is_weights, logs[1], logs[0])))
        m.d.comb += [
            out.dst.eq(i.dst + Mux(is_lda, 0, registers[i.dst_reg])),
            out.a.eq(i.a + registers[i.a_reg]),
            out.b.eq(base + Mux(i.constant, 0, registers[i.b_reg])),
            out.b_stride.eq(i.b[16:].as_signed()),
        ]

    def _scalar(
        self,
        m: Module,
        i: Any,
        sums: Any,
        source: Any,
        loops: Any,
        trap: Any,
        target: Any,
        redirect: Any,
        pc: Any,
    ) -> None:
        start, left, depth, top = loops
        total, sets = sums
        fits = Signal()
        m.d.comb += fits.eq((total < _LIMIT) & (total >= -_LIMIT))
        taken = {"jump": 1, "bz": source == 0, "bnz": source != 0, "bneg": source < 0}
        with m.Switch(i.opcode):
            with m.Case(OPCODES["set"].code):
                with m.If(fits):
                    m.d.comb += sets.eq(1)
                with m.Else():
                    m.d.comb += trap.eq(Trap.REGISTER)
            with m.Case(OPCODES["loop"].code):
                with m.If((depth == LOOP_DEPTH) | (total < 1) | ~fits):
                    m.d.comb += trap.eq(Trap.LOOP)
                with m.Else():
                    m.d.sync += [start[depth].eq(pc + 1), left[depth].eq(total), depth.eq(depth + 1)]
            with m.Case(OPCODES["end"].code):
                with m.If(depth == 0):
                    m.d.comb += trap.eq(Trap.LOOP)
                with m.Elif(left[top] != 1):
                    m.d.sync += left[top].eq(left[top] - 1)
                    m.d.comb += [target.eq(start[top]), redirect.eq(1)]
                with m.Else():
                    m.d.sync += depth.eq(depth - 1)
            for name, condition in taken.items():
                with m.Case(OPCODES[name].code):
                    m.d.comb += [target.eq(i.dst), redirect.eq(condition)]
