"""The sequencer: fetch, loops, branches and address registers."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.memory import Memory, MemoryData
from amaranth.lib.wiring import In, Out

from tg2hdl_tpu.config import ADDRESS_BITS, ADDRESS_REGISTERS, Config
from tg2hdl_tpu.hardware.flights import any_of
from tg2hdl_tpu.hardware.loops import LoopStack
from tg2hdl_tpu.hardware.records import PC_BITS, fields, handed_layout, part_logs
from tg2hdl_tpu.instruction_checks import illegal
from tg2hdl_tpu.isa import GATHER, INSTRUCTION_BITS, PREDECODED, Trap, predecoded

__all__ = ["Sxu"]

_WORD = INSTRUCTION_BITS + 1 + len(PREDECODED)


def _known(word: Any, legal: Any) -> Value:
    """Decoded bits of a word of the program memory; one that is not an instruction is of no kind."""
    return Cat(legal, *(legal & bit for bit in predecoded(fields(word))))


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
    late : Out(1)
        With a trap of an instruction before; the instruction handed over in the last cycle is not executed.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        # The highest bits say whether the word is an instruction of this machine, and its kind.
        self.program = MemoryData(shape=_WORD, depth=config.imem_depth, init=[])
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
                "instruction": Out(handed_layout()),
                "halt": Out(1),
                "trap": Out(4),
                "trap_pc": Out(PC_BITS),
                "late": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Build fetch and execution."""
        m = Module()
        config = self.config
        m.submodules.program = memory = Memory(self.program)
        read, write = memory.read_port(), memory.write_port()
        conditions = [condition for condition, _ in illegal(fields(self.write_data), config)]
        wrongs: Any = Cat(any_of(conditions[n : n + 4]) for n in range(0, len(conditions), 4))
        written: list[Any] = [self.write_en, self.write_address, self.write_data, wrongs]
        if config.issue_registers:
            stage = [Signal(len(Value.cast(v)), name=f"written_{n}") for n, v in enumerate(written)]
            m.d.sync += [r.eq(v) for r, v in zip(stage, written, strict=True)]
            written = stage
        m.d.comb += [
            write.en.eq(written[0]),
            write.addr.eq(written[1]),
            write.data.eq(Cat(written[2], _known(written[2], ~written[3].any()))),
        ]
        entry, valid = Signal(_WORD + PC_BITS + 1), Signal()
        word, pc, outside = entry[:_WORD], entry[_WORD:-1], entry[-1]
        fetched = Signal(PC_BITS)  # the address of the word that the memory shows
        target, redirect, consumed = Signal(PC_BITS), Signal(), Signal()
        following = Signal(PC_BITS)
        m.d.comb += read.addr.eq(following)
        m.d.sync += fetched.eq(following)
        # A word from the host port is executed in the next cycle; the memory shows it two cycles later.  With registers
        # for the issue, only the memory has it, one more cycle later.
        streaming, known, shown, passes = Signal(), Signal(PC_BITS), Signal(), Signal()
        m.d.sync += [streaming.eq(self.streaming), known.eq(self.known)]
        m.d.comb += shown.eq(~streaming | (fetched < known))
        if config.issue_registers:
            # The next word is known a cycle early, for each address that may follow.
            known_before = Signal(signed(PC_BITS + 1))
            m.d.sync += known_before.eq(self.known - 1)
            shows_next = Signal()
            m.d.comb += shown.eq(shows_next & ~(self.start & self.streaming))
        else:
            m.d.comb += passes.eq(self.bypass & (self.write_address == fetched))
        idle, steps = self.reset & ~self.start, consumed | ~valid
        redirected, aim, repeats, start = redirect, target, Const(0), Signal(PC_BITS)
        if config.issue_registers:
            # But for `end`, a cycle later.
            redirected, aim, repeats = Signal(), Signal(PC_BITS, reset_less=True), Signal()
            m.d.sync += [redirected.eq(redirect & ~repeats), aim.eq(target)]
        shows = Cat(Mux(passes, write.data, read.data), fetched, fetched >= config.imem_depth)
        there = shown | passes
        found, comes_in, goes_on = shows, there, steps & there
        if config.issue_registers:
            # A place for the word that comes as the one before waits: then the address does not depend on that.
            # It takes the memory's word by a flag of its own: the multiplexer of `found` would be before it, too.
            spare, spared, takes = Signal.like(entry, reset_less=True), Signal(), Signal(init=1)
            with m.If(takes):
                m.d.sync += spare.eq(shows)
            found, comes_in, goes_on = Mux(spared, spare, shows), spared | there, there & ~spared
            keeps = ~idle & ~redirect & ~redirected & ~steps & comes_in
            m.d.sync += [spared.eq(keeps), takes.eq(~keeps)]
        # Before the start, the memory shows the first instruction.
        with m.If(idle):
            m.d.comb += following.eq(0)
        with m.Elif(repeats):
            m.d.comb += following.eq(start)
        with m.Elif(redirected):
            m.d.comb += following.eq(aim)
        with m.Else():
            m.d.comb += following.eq(Mux(goes_on, (fetched + 1)[:PC_BITS], fetched))
        if config.issue_registers:
            there_next = Mux(goes_on, fetched < known_before, fetched < known)
            there_next = Mux(repeats, start < known, Mux(redirected, aim < known, there_next))
            there_next = Mux(idle, known != 0, there_next)
            m.d.sync += shows_next.eq(~(self.streaming | streaming) | (there_next & ~self.start))
        m.d.sync += valid.eq(~idle & ~redirect & ~redirected & (~steps | comes_in))
        with m.If(steps):
            m.d.sync += entry.eq(found)

        i = fields(word)
        kind = dict(zip(PREDECODED, word[INSTRUCTION_BITS + 1 :], strict=True))
        registers = Array(Signal(signed(ADDRESS_BITS), name=f"a{n}") for n in range(ADDRESS_REGISTERS))
        a_register = registers[i.a_reg]
        waits, waiting_register, waiting_pc = Signal(), Signal(3), Signal(PC_BITS)
        can, run, wrong = Signal(), Signal(), Signal()
        m.d.comb += [
            can.eq(valid & ~self.halting & ~waits),
            wrong.eq(~word[INSTRUCTION_BITS]),
            run.eq(can & ~outside),
            self.valid.eq(run & kind["rows"] & ~self.late),
        ]
        m.d.comb += self.instruction.pc.eq(pc)
        with m.If(self.valid & self.ready):
            m.d.sync += [waits.eq(kind["lda"]), waiting_register.eq(i.dst_reg), waiting_pc.eq(pc)]
        # `lda` and `set` never write in the same cycle.
        total, comes = Signal(signed(34)), Signal()
        m.d.comb += comes.eq(waits & self.word_valid & ~self.halting)
        names = ("set", "loop", "end", "jump", "bz", "bnz", "bneg")
        does = {name: run & kind[name] for name in names}
        underflows = Signal()
        sums: Any = {"set": does["set"], "loop": does["loop"], "underflows": underflows}
        sums |= {"register": a_register, "constant": i.b, "to": i.dst_reg, "pc": pc}
        if config.issue_registers:
            # Registers are read in one cycle and summed in the next; who reads one then takes the sum.
            sums = {name: _registered(m, value, f"sum_{name}") for name, value in sums.items()}
            for name in ("a", "b", "dst"):
                selected = getattr(i, f"{name}_reg")
                passed = sums["set"] & (sums["to"] == selected)
                value = Mux(passed, total[:ADDRESS_BITS].as_signed(), registers[selected])
                m.d.comb += self.instruction[f"{name}_register"].eq(value)
            m.d.sync += sums["register"].eq(self.instruction.a_register)
        else:
            for name in ("a", "b", "dst"):
                m.d.comb += self.instruction[f"{name}_register"].eq(registers[getattr(i, f"{name}_reg")])
        self._resolve(m, i, kind)
        m.d.comb += total.eq(sums["register"] + sums["constant"])
        with m.If(sums["set"] | comes):
            target_register = registers[Mux(waits, waiting_register, sums["to"])]
            m.d.sync += target_register.eq(Mux(waits, self.word, total))
        with m.If(comes):
            m.d.sync += waits.eq(0)

        # A write is checked in the next cycle, in which nothing is handed to the row stage if it is wrong.
        checked, checks, loops, unbalanced = Signal(signed(34)), Signal(), Signal(), Signal()
        checked_pc, following_pc = Signal(PC_BITS), Signal(PC_BITS)
        # Registered too: whether bits at the top differ, of a sum or of a word, and whether some of a sum are set.
        differ, some = Signal(2), Signal(3)
        mixed, low = [], Cat(total[k : k + 4].any() for k in range(0, ADDRESS_BITS, 4))
        for value in (total, self.word):
            top = value[ADDRESS_BITS - 1 :]
            parts = [top[k : k + 4] for k in range(0, len(top) - 1, 3)]
            mixed.append(Cat(part.any() & ~part.all() for part in parts))
        of_sum, of_word = Cat(mixed[0][:2].any(), mixed[0][2:].any()), mixed[1].any()
        m.d.sync += differ.eq(Mux(waits, of_word, of_sum))
        m.d.sync += some.eq(Cat(low[k : k + 2].any() for k in range(0, len(low), 2)))
        fits, positive = ~differ.any(), ~checked[-1] & some.any()
        begins = checks & loops
        stack = LoopStack(
            m,
            begins,
            does["end"],
            count=checked,
            start=following_pc,
            reset=self.reset,
            executes=does["loop"] if config.issue_registers else None,
            soon=sums["loop"] if config.issue_registers else None,
        )
        m.d.comb += start.eq(stack.start)
        if config.issue_registers:
            # Whether the machine halts makes no difference to the fetched address.
            m.d.comb += repeats.eq(valid & kind["end"] & ~waits & stack.may_repeat)
        m.d.comb += underflows.eq(stack.underflows)
        wrong_sum = checks & ~(fits & (positive | ~loops))
        late = self.late
        m.d.comb += late.eq((unbalanced | stack.overflows | wrong_sum) & ~self.halting)
        branches = does["bz"] | does["bnz"] | does["bneg"]
        zero, negative, tested = Array([r == 0 for r in registers])[i.a_reg], a_register < 0, Const(1)
        unsettled: Any = Const(0)
        if config.issue_registers:
            # A cycle to look at the register, once it is written, and one to branch.
            values, (zero, negative, tested) = (
                (zero, negative),
                (Signal(name=n) for n in ("zero", "negative", "tested")),
            )
            m.d.sync += [Cat(zero, negative).eq(Cat(values)), tested.eq(branches & ~tested & ~sums["set"])]
            # Instructions that end the run wait for the trap of those before them.
            unsettled = sums["set"] | sums["loop"] | sums["underflows"]
        taken = (does["bz"] & zero) | (does["bnz"] & ~zero) | (does["bneg"] & negative)
        stays = stack.waits | (branches & ~tested) | ((kind["halt"] | wrong) & unsettled)
        m.d.comb += [
            # After a trap, nothing is executed, whatever is fetched.
            consumed.eq(run & Mux(kind["rows"], self.ready, ~stays)),
            redirect.eq(stack.repeats | does["jump"] | (taken & tested)),
            target.eq(Mux(does["end"], stack.start, i.dst)),
        ]
        m.d.sync += [
            checked.eq(Mux(waits, self.word, total)),
            checked_pc.eq(Mux(waits, waiting_pc, sums["pc"])),
            following_pc.eq(sums["pc"] + 1),
            checks.eq(sums["set"] | comes | sums["loop"]),
            loops.eq(sums["loop"]),
            unbalanced.eq(sums["underflows"]),
        ]
        m.d.comb += [
            self.trap_pc.eq(Mux(late, checked_pc, pc)),
            self.halt.eq(late | (((can & (outside | wrong)) | (run & kind["halt"])) & ~unsettled)),
        ]
        with m.If(late):
            m.d.comb += self.trap.eq(Mux(loops | unbalanced, Trap.LOOP, Trap.REGISTER))
        with m.Elif(outside):
            m.d.comb += self.trap.eq(Trap.PROGRAM)
        with m.Elif(wrong):
            m.d.comb += self.trap.eq(Trap.ILLEGAL)
        with m.If(self.reset):
            m.d.sync += [waits.eq(0), checks.eq(0), unbalanced.eq(0)]
            m.d.sync += [register.eq(0) for register in registers]
            if config.issue_registers:
                m.d.sync += [sums[name].eq(0) for name in ("set", "loop", "underflows")]
        return m

    def _resolve(self, m: Module, i: Any, kind: dict[str, Any]) -> None:
        out = self.instruction
        for name in out.shape().members:
            if hasattr(i, name) and name not in ("dst", "a", "b"):
                m.d.comb += out[name].eq(getattr(i, name))
        config = self.config
        for pre in (1, 2):
            logs = part_logs(config, pre)
            with m.If(i.pre == pre):
                chosen = Mux(kind["tile"], logs[2], Mux(kind["weights"], logs[1], logs[0]))
                m.d.comb += out.shift.eq(chosen)
        m.d.comb += [
            out.dst.eq(i.dst),
            out.a.eq(i.a),
            out.further.eq(i.count - 1),
            out.alone.eq((~i.opcode[5:].any() & ~kind["weights"]) | (i.count == 1)),
            out.gathers.eq(i.opcode[5:].any() & (i.pre != 3) & (i.xlu == GATHER)),
            # The register of a constant is a0.
            out.b.eq(Mux(kind["wide"], i.b, i.b[:16])),
            out.b_stride.eq(i.b[16:].as_signed()),
        ]


def _registered(m: Module, value: Any, name: str) -> Signal:
    register = Signal(Value.cast(value).shape(), name=name)
    m.d.sync += register.eq(value)
    return register
