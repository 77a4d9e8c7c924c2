"""The tensor core: row stage, pipeline, scratchpad, DMA and sequencer."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tg2hdl_ir.errors import UnsupportedError
from tg2hdl_tpu.config import ADDRESS_BITS, DMA_FIFO, Config
from tg2hdl_tpu.hardware.alu import Alu
from tg2hdl_tpu.hardware.dma import Channel, RowFifo
from tg2hdl_tpu.hardware.floats import FloatLane
from tg2hdl_tpu.hardware.host import HostPort, HostSignature
from tg2hdl_tpu.hardware.pre import Crossbar, MatrixUnit
from tg2hdl_tpu.hardware.records import PC_BITS, is_one_of, resolved_layout, row_layout
from tg2hdl_tpu.hardware.reduce import Reducer
from tg2hdl_tpu.hardware.sxu import Sxu
from tg2hdl_tpu.hardware.vmem import Vmem
from tg2hdl_tpu.isa import INSTRUCTION_BITS, OPCODES, Trap
from tg2hdl_tpu.vector_ops import PARTS, VECTOR_OPS

__all__ = ["TensorCore"]


def _any(values: list[Any]) -> Any:
    return reduce(or_, values)


class TensorCore(wiring.Component):
    """A machine without its external memory.

    Members
    -------
    start : In(1)
        Begin with the first instruction.
    done, trap, pc, cycles : Out
        `done` is high while the machine does not run; then the others tell how the last run ended.
    write_en, write_address, write_data : In
        Write the program while the machine does not run.
    running : Out(1)
    memory_ready : In(1)
        The external memory takes a request in each direction.
    read_en, read_address : Out; read_valid, read_data : In
        Rows of the external memory, in order.
    store_en, store_address, store_data : Out
    host : HostSignature
        Starts a run whose program and operands come while it runs.
    """

    def __init__(self, config: Config) -> None:
        for part in (part for part in PARTS if part != "float"):
            if getattr(config, part):
                raise UnsupportedError(
                    f"the hardware of `{part}` is not built yet", where="TensorCore", hint=f"use {part}=False"
                )
        self.config = config
        self.vmem = Vmem(config)
        self.sxu = Sxu(config)
        bits = config.row_bits
        super().__init__(
            {
                "start": In(1),
                "done": Out(1, init=1),
                "running": Out(1),
                "trap": Out(4),
                "pc": Out(PC_BITS),
                "cycles": Out(40),
                "write_en": In(1),
                "write_address": In(PC_BITS),
                "write_data": In(INSTRUCTION_BITS),
                "memory_ready": In(1),
                "read_en": Out(1),
                "read_address": Out(ADDRESS_BITS),
                "read_valid": In(1),
                "read_data": In(bits),
                "store_en": Out(1),
                "store_address": Out(ADDRESS_BITS),
                "store_data": Out(bits),
                "host": In(HostSignature(config)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        """Build the stages."""
        m = Module()
        config = self.config
        m.submodules.vmem, m.submodules.sxu = self.vmem, self.sxu
        sxu = self.sxu
        self.halting = halting = Signal()
        self.check = 1 + config.read_registers
        layout = row_layout(config)
        self.latency = {0: config.latency, 1: config.long_latency if config.float else config.latency}
        last = max(self.latency.values())
        self.ages = [Signal(layout, name=f"age{age}") for age in range(last + 1)]
        self.is_last = [self._at(age) for age in range(last + 1)]
        self.final = Signal(layout, name="final")
        m.d.comb += self.final.eq(self.ages[config.latency])
        if config.float:
            m.d.comb += self.final.writes.eq(
                self.ages[config.latency].writes & ~self.ages[config.latency].floats
            )
            with m.If(self.ages[config.long_latency].floats):
                m.d.comb += self.final.eq(self.ages[config.long_latency])
        self.load, self.store = Channel(config), Channel(config)
        m.submodules.load, m.submodules.store = self.load, self.store
        m.submodules.host = self.port = HostPort(config)
        wiring.connect(m, wiring.flipped(self.host), self.port.host)

        # The instruction in the row stage, and the one that waits for it.
        self.x, x_valid = Signal(resolved_layout(), name="x"), Signal()
        waiting, waiting_valid = Signal(resolved_layout(), name="q"), Signal()
        self.x_valid = x_valid
        free, self.stop = Signal(), Signal(4)
        self._rows(m, free)
        ready = Signal()
        m.d.comb += [ready.eq(~waiting_valid), sxu.ready.eq(ready)]
        with m.If(free):
            m.d.sync += x_valid.eq(0)
            with m.If(waiting_valid):
                m.d.sync += [self.x.eq(waiting), x_valid.eq(1), waiting_valid.eq(0)]
            with m.Elif(sxu.valid):
                m.d.sync += [self.x.eq(sxu.instruction), x_valid.eq(1)]
        with m.Elif(sxu.valid & ready):
            m.d.sync += [waiting.eq(sxu.instruction), waiting_valid.eq(1)]

        launch = Signal()
        m.d.comb += launch.eq(self.start | self.host.begin)
        data_trap = self._pipeline(m)
        self._dma(m)

        m.d.comb += [
            sxu.reset.eq(~self.running),
            sxu.start.eq(launch),
            sxu.halting.eq(halting),
            sxu.write_en.eq(self.write_en | self.port.write_en),
            sxu.write_address.eq(Mux(self.port.write_en, self.port.write_address, self.write_address)),
            sxu.write_data.eq(Mux(self.port.write_en, self.host.word, self.write_data)),
            sxu.bypass.eq(self.port.write_en),
            sxu.streaming.eq(self.port.streaming),
            sxu.known.eq(self.port.known),
        ]
        with m.If(sxu.halt & self.running):
            m.d.sync += [halting.eq(1), self.trap.eq(sxu.trap), self.pc.eq(sxu.trap_pc)]
        with m.If(self.stop != 0):
            m.d.sync += [halting.eq(1), self.trap.eq(self.stop), self.pc.eq(self.x.pc)]
        with m.If(data_trap != 0):
            m.d.sync += [halting.eq(1), self.trap.eq(data_trap), self.pc.eq(self.ages[self.check].pc)]
        with m.If((self.stop != 0) | (data_trap != 0)):
            m.d.sync += [x_valid.eq(0), waiting_valid.eq(0)]

        busy = [age.writes & ~self.is_last[n] for n, age in enumerate(self.ages) if n > 0]
        busy += [age.checked for age in self.ages[1 : self.check + 1]]
        idle = ~(
            x_valid | waiting_valid | self.load.active | self.store.active | self.port.active | _any(busy)
        )
        with m.If(self.running):
            m.d.sync += self.cycles.eq(self.cycles + 1)
            with m.If(halting & idle):
                m.d.sync += [self.running.eq(0), self.done.eq(1), halting.eq(0)]
        with m.Elif(launch):
            m.d.sync += [
                self.running.eq(1),
                self.done.eq(0),
                self.cycles.eq(0),
                self.trap.eq(0),
                halting.eq(0),
            ]
        return m

    def _at(self, age: int) -> Any:
        """Whether the row of an age is written in this cycle."""
        floats = self.ages[age].floats
        return (floats & int(age == self.latency[1])) | (~floats & int(age == self.latency[0]))

    # -- row stage

    def _in_flight(self, row: Any, mask: Any) -> Any:
        return _any([age.writes & (age.row == row) & (age.mask & mask).any() for age in self.ages[1:]])

    def _slot_taken(self, is_long: Any, row: Any, mask: Any) -> Any:
        """Another row is written in the same cycle, or one of the same words is written later."""
        found = []
        for mine, other in ((0, 1), (1, 0)):
            ahead = self.latency[other] - self.latency[mine]
            for number in range(1, ahead + 1):
                age = self.ages[number]
                taken: Any = age.writes & (age.floats == other) & (is_long == mine)
                if number < ahead:
                    taken = taken & (age.row == row) & (age.mask & mask).any()
                found.append(taken)
        return _any(found) if found else Const(0)

    @staticmethod
    def _covers(channel: Channel | HostPort, row: Any) -> Any:
        return channel.active & (row >= channel.row) & (row <= channel.last)

    def _arrives(self, row: Any) -> Any:
        return self._covers(self.load, row) | self._covers(self.port, row)

    def _rows(self, m: Module, free: Any) -> None:
        config, x, vmem = self.config, self.x, self.vmem
        bits = (config.vmem_rows - 1).bit_length()
        out = self.ages[0]
        done_rows, beat = Signal(10), Signal()

        is_weights, is_tile, is_lda = (x.opcode == OPCODES[name].code for name in ("weights", "tile", "lda"))
        is_load = x.opcode == OPCODES["load"].code
        is_dma = is_load | (x.opcode == OPCODES["store"].code)
        is_vector = x.opcode >= 32
        permute = is_vector & (x.pre == 3) & (x.xlu == 3)
        reads_b = (
            is_vector
            & ~x.constant
            & (permute | is_one_of(x.opcode, (o.name for o in VECTOR_OPS if o.reads_b)))
        )
        reads_c = is_one_of(x.opcode, (o.name for o in VECTOR_OPS if o.reads_c))

        # Addresses: the row, and the part of it.
        shift = Signal(4)
        size = config.rows * config.columns
        for pre, words in ((1, config.lanes), (2, 4 * config.lanes)):
            logs = [max(1, words // n).bit_length() - 1 for n in (config.rows, config.columns, size)]
            with m.If((x.pre == pre) & ~is_lda):
                m.d.comb += shift.eq(Mux(is_tile, logs[2], Mux(is_weights, logs[1], logs[0])))
        a_row, b_row, to_row = Signal(signed(28)), Signal(signed(34)), Signal(signed(28))
        m.d.comb += [a_row.eq(x.a >> shift), b_row.eq(x.b), to_row.eq(x.dst >> x.segment)]
        part = x.a & ((1 << shift) - 1)

        def outside(row: Any) -> Any:
            return (row >> bits) != 0

        mask, straight = Signal(config.lanes), Signal(config.lanes)
        with m.Switch(x.segment):
            for log in range(config.levels + 1):
                with m.Case(log):
                    width = config.lanes >> log
                    place = x.dst[:log] if log else Value.cast(0)
                    m.d.comb += mask.eq(((1 << width) - 1) << (place * width))
        m.d.comb += straight.eq(mask | (x.levels != 0).replicate(config.lanes))
        everything = Value.cast((1 << config.lanes) - 1)
        last = done_rows == x.count - 1
        writes = is_vector & (~x.accumulate | last)
        holds = reads_c & ~beat

        low = {name: value[:bits] for name, value in (("a", a_row), ("b", b_row), ("to", to_row))}
        a_mask = Mux(is_vector & (x.pre == 0), straight, everything)
        b_mask = Mux(permute, everything, straight)
        kept = writes & self._covers(self.store, low["to"])
        wait_c = self._in_flight(low["to"], straight) | self._arrives(low["to"])
        wait_a = self._in_flight(low["a"], a_mask) | self._arrives(low["a"])
        wait_b = reads_b & (self._in_flight(low["b"], b_mask) | self._arrives(low["b"]))
        is_long = is_one_of(x.opcode, (o.name for o in VECTOR_OPS if o.is_long))
        wait_w = (writes & self._arrives(low["to"])) | kept
        if config.float:
            wait_w = wait_w | (writes & self._slot_taken(is_long, low["to"], mask))
        blocked = Signal()
        m.d.comb += blocked.eq(Mux(holds, wait_c, wait_a | wait_b | wait_w))

        # DMA instructions go to their channel.
        first = Mux(is_load, x.dst, x.a)
        final, outer_final = Signal(signed(29)), Signal(signed(35))
        m.d.comb += [final.eq(first + x.count - 1), outer_final.eq(x.b + x.count - 1)]
        row_trap = outside(first) | outside(final)
        outer_trap = (x.b < 0) | (outer_final >= config.xmem_rows)
        meets = []
        for mine, other in ((is_load, self.store), (~is_load, self.load)):
            rows_meet = (first <= other.last) & (final >= other.row)
            outer_meet = (x.b <= other.outside_last) & (outer_final >= other.outside_first)
            meets.append(mine & other.active & (rows_meet | outer_meet))
        own_active = Mux(is_load, self.load.active, self.store.active)
        unchecked = _any([age.checked for age in self.ages[1 : self.check + 1]])
        hands_over = (
            self.x_valid
            & is_dma
            & ~row_trap
            & ~outer_trap
            & ~(_any(meets) | own_active | unchecked | self.port.active)
        )
        for channel, chosen in ((self.load, is_load), (self.store, ~is_load)):
            m.d.comb += [
                channel.start.eq(hands_over & chosen),
                channel.first.eq(first),
                channel.count.eq(x.count),
                channel.outside.eq(x.b),
            ]

        bad = Mux(
            is_vector,
            outside(to_row) | outside(a_row) | (reads_b & outside(b_row)),
            outside(a_row),
        )
        issues = Signal()
        m.d.comb += issues.eq(self.x_valid & ~is_dma & ~bad & ~blocked)
        finishing = issues & ~holds & (last | is_tile | is_lda)
        with m.If(self.x_valid & Mux(is_dma, row_trap, bad)):
            m.d.comb += self.stop.eq(Trap.VMEM)
        with m.Elif(self.x_valid & is_dma & outer_trap):
            m.d.comb += self.stop.eq(Trap.XMEM)
        m.d.comb += free.eq(~self.x_valid | finishing | hands_over)
        with m.If(issues):
            m.d.sync += beat.eq(holds)
            with m.If(~holds):
                m.d.sync += [
                    done_rows.eq(Mux(finishing, 0, done_rows + 1)),
                    x.a.eq(x.a + x.a_stride),
                ]
                with m.If(~x.constant):
                    m.d.sync += x.b.eq(x.b + x.b_stride)
                with m.If(~x.accumulate):
                    m.d.sync += x.dst.eq(x.dst + x.dst_stride)
        with m.If(~self.running | (self.stop != 0)):
            m.d.sync += [beat.eq(0), done_rows.eq(0)]

        real = issues & ~holds
        m.d.comb += [
            vmem.a_row.eq(Mux(holds, low["to"], low["a"])),
            vmem.b_row.eq(low["b"]),
            out.valid.eq(real & is_vector),
            out.writes.eq(real & writes),
            out.floats.eq((real & is_long) if config.float else 0),
            out.row.eq(low["to"]),
            out.mask.eq(mask),
            out.hold.eq(issues & holds),
            out.weights.eq(real & (is_weights | is_tile)),
            out.whole.eq(is_tile),
            out.index.eq(done_rows),
            out.lda.eq(real & is_lda),
            out.checked.eq(real & (permute | ((x.pre == 1) & ~is_lda))),
            out.part.eq(part),
            out.opcode.eq(Mux(is_lda, OPCODES["copy"].code, x.opcode)),
            out.pre.eq(Mux(is_lda, 3, x.pre)),
            out.xlu.eq(Mux(is_lda, 1, x.xlu)),
            out.k.eq(x.k),
            out.constant.eq(~reads_b),
            out.b.eq(Mux(x.constant, x.b, 0)),
            out.relu.eq(x.relu),
            out.accumulate.eq(x.accumulate),
            out.first.eq(done_rows == 0),
            out.reduce.eq(x.reduce),
            out.levels.eq(x.levels),
            out.pack.eq(x.pack),
            out.pc.eq(x.pc),
        ]
        uses_b = self.x_valid & reads_b & ~holds & ~kept
        self.port_b = [uses_b & (b_row[bits - 1] == bank) for bank in range(2)]

    # -- pipeline

    def _pipeline(self, m: Module) -> Any:
        config, vmem, check = self.config, self.vmem, self.check
        m.submodules.matrix = matrix = MatrixUnit(config)
        m.submodules.crossbar = crossbar = Crossbar(config)
        m.submodules.reducer = reducer = Reducer(config)
        trap = Signal(4)
        for age in range(len(self.ages) - 1):
            m.d.sync += self.ages[age + 1].eq(self.ages[age])
            with m.If(self.is_last[age]):
                m.d.sync += [self.ages[age + 1].writes.eq(0), self.ages[age + 1].floats.eq(0)]
            if age <= check:
                # A row that traps takes no effect, nor does a younger one.
                squashed = self.ages[age + 1]
                with m.If(trap != 0):
                    for name in ("valid", "writes", "hold", "weights", "lda", "checked"):
                        m.d.sync += squashed[name].eq(0)
        row_a, row_b = vmem.a_data, vmem.b_data
        if config.read_registers:
            row_a, row_b = Signal(config.row_bits), Signal(config.row_bits)
            m.d.sync += [row_a.eq(vmem.a_data), row_b.eq(vmem.b_data)]
        now = self.ages[check]
        held = Signal(config.row_bits)
        with m.If(now.hold):
            m.d.sync += held.eq(row_a)
        b = Mux(now.constant, Cat([now.b] * config.lanes), row_b)
        m.d.comb += [
            matrix.row.eq(row_a),
            matrix.segment.eq(now.part),
            matrix.bytes.eq(now.pre == 2),
            matrix.weights.eq(now.weights),
            matrix.whole.eq(now.whole),
            matrix.index.eq(now.index),
            matrix.load.eq(now.weights & (trap == 0)),
            crossbar.row.eq(row_a),
            crossbar.indices.eq(row_b),
            crossbar.mode.eq(now.xlu),
            crossbar.k.eq(now.k),
        ]
        with m.If(now.checked):
            m.d.comb += trap.eq(
                Mux(now.pre == 3, Mux(crossbar.overflow, Trap.INDEX, 0), Mux(matrix.overflow, Trap.INT8, 0))
            )

        passed: list[Any] = [Mux(now.pre == 3, crossbar.result, row_a), b, held]
        at = check
        for _ in range(config.pre_registers):
            registers = [Signal(config.row_bits, name=f"pre{at}_{n}") for n in range(3)]
            m.d.sync += [register.eq(value) for register, value in zip(registers, passed, strict=True)]
            passed = list(registers)
            at += 1
        control = before = self.ages[at]
        is_matrix = (control.pre == 1) | (control.pre == 2)
        a = Mux(is_matrix, matrix.result, passed[0])
        results = []
        for lane in range(config.lanes):
            m.submodules[f"lane{lane}"] = alu = Alu(config.alu_registers)
            part = slice(32 * lane, 32 * lane + 32)
            m.d.comb += [
                alu.a.eq(a[part]),
                alu.b.eq(passed[1][part]),
                alu.c.eq(passed[2][part]),
                alu.opcode.eq(control.opcode),
                alu.k.eq(control.k),
                alu.relu.eq(control.relu),
            ]
            results.append(alu.result)
        control = self.ages[at + config.alu_registers]
        m.d.comb += [
            reducer.row.eq(Cat(results)),
            reducer.valid.eq(control.valid),
            reducer.accumulate.eq(control.accumulate),
            reducer.first.eq(control.first),
            reducer.how.eq(control.reduce),
            reducer.levels.eq(control.levels),
            reducer.pack.eq(control.pack),
        ]
        # What `lda` reads is no write, and so may meet a float.
        result, word = Signal(config.row_bits), Signal(signed(32))
        m.d.sync += [result.eq(reducer.result), word.eq(reducer.result[:32])]
        if config.float:
            floats = []
            for lane in range(config.lanes):
                m.submodules[f"float{lane}"] = unit = FloatLane(config.float_stages)
                part = slice(32 * lane, 32 * lane + 32)
                m.d.comb += [unit.a.eq(a[part]), unit.b.eq(passed[1][part]), unit.opcode.eq(before.opcode)]
                floats.append(unit.result)
            with m.If(self.ages[config.long_latency - 1].floats):
                m.d.sync += result.eq(Cat(floats))
        final = self.final
        m.d.comb += [
            vmem.row.eq(final.row),
            vmem.data.eq(result),
            vmem.mask.eq(final.mask & final.writes.replicate(config.lanes)),
            self.sxu.word.eq(word),
            self.sxu.word_valid.eq(self.ages[config.latency].lda),
        ]
        m.d.comb += [
            self.port.mask.eq(vmem.mask),
            self.port.written_row.eq(final.row),
            self.port.written.eq(result),
        ]
        return trap

    # -- DMA

    def _dma(self, m: Module) -> None:
        config, load, store, vmem = self.config, self.load, self.store, self.vmem
        m.submodules.arriving = arriving = RowFifo(config.row_bits)
        m.submodules.leaving = leaving = RowFifo(config.row_bits)
        final = self.final
        everything = Value.cast((1 << config.lanes) - 1)
        bits = (config.vmem_rows - 1).bit_length()

        request = load.active & (load.left != 0) & (load.outstanding < DMA_FIFO) & self.memory_ready
        same_bank = final.writes & (final.row[-1] == load.row[bits - 1])
        put = arriving.ready & ~same_bank & ~self._in_flight(load.row[:bits], everything) & load.active
        m.d.comb += [
            self.read_en.eq(request),
            self.read_address.eq(load.address),
            arriving.push.eq(self.read_valid),
            arriving.row.eq(self.read_data),
            arriving.pop.eq(put),
            vmem.load_en.eq(put | self.port.put),
            vmem.load_row.eq(Mux(put, load.row, self.port.put_row)),
            vmem.load_data.eq(Mux(put, arriving.head, self.host.row)),
            self.port.busy.eq(put | (final.writes & (final.row[-1] == self.port.put_row[-1]))),
            load.request.eq(request),
            load.outside_done.eq(request),
            load.arrived.eq(put),
            load.row_done.eq(put),
            load.finish.eq(put & (load.row == load.last)),
        ]

        bank = store.row[bits - 1]
        port_free = ~Mux(bank, self.port_b[1], self.port_b[0])
        take = store.active & (store.left != 0) & (store.outstanding < DMA_FIFO) & port_free
        take = take & ~self._in_flight(store.row[:bits], everything)
        taken = Signal()
        row: Any = vmem.store_data
        m.d.sync += taken.eq(take)
        arrives: Any = taken
        if config.read_registers:
            row, arrives = Signal(config.row_bits), Signal()
            m.d.sync += [row.eq(vmem.store_data), arrives.eq(taken)]
        sent = leaving.ready & self.memory_ready & store.active
        m.d.comb += [
            vmem.store_en.eq(take),
            vmem.store_row.eq(store.row),
            leaving.push.eq(arrives),
            leaving.row.eq(row),
            leaving.pop.eq(sent),
            self.store_en.eq(sent),
            self.store_address.eq(store.address),
            self.store_data.eq(leaving.head),
            store.request.eq(take),
            store.row_done.eq(take),
            store.arrived.eq(sent),
            store.outside_done.eq(sent),
            store.finish.eq(sent & (store.left == 0) & (store.outstanding == 1)),
        ]
