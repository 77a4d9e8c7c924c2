"""The tensor core: row stage, pipeline, scratchpad, DMA and sequencer."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tg2hdl_tpu.config import ADDRESS_BITS, Config
from tg2hdl_tpu.hardware.alu import Alu, decoded, factor_of, operations
from tg2hdl_tpu.hardware.dma import Channel
from tg2hdl_tpu.hardware.flights import Flights, any_of
from tg2hdl_tpu.hardware.float_matrix import FloatMatrixUnit
from tg2hdl_tpu.hardware.floats import FloatLane
from tg2hdl_tpu.hardware.functions import FunctionLane
from tg2hdl_tpu.hardware.host import HostSignature, WordPort
from tg2hdl_tpu.hardware.pre import Crossbar, MatrixUnit
from tg2hdl_tpu.hardware.records import PC_BITS, is_one_of, resolved_layout, row_layout
from tg2hdl_tpu.hardware.reduce import Reducer
from tg2hdl_tpu.hardware.row_stage import prepare_rows, waiting_instructions
from tg2hdl_tpu.hardware.row_unit import RowUnit
from tg2hdl_tpu.hardware.sums import connect_sums
from tg2hdl_tpu.hardware.sxu import Sxu
from tg2hdl_tpu.hardware.transfers import connect_channels
from tg2hdl_tpu.hardware.vmem import Vmem
from tg2hdl_tpu.isa import INSTRUCTION_BITS, PRODUCTS, Trap

__all__ = ["TensorCore"]


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
    memory_ready, read_waits : In(1)
        The external memory takes a request in each direction; it does not take one to read in this cycle.
    read_en, read_address : Out; read_valid, read_data : In
        Rows of the external memory, in order.
    store_en, store_address, store_data : Out
    host : HostSignature
        Starts a run whose program and operands come while it runs.
    """

    def __init__(self, config: Config) -> None:
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
                "read_waits": In(1),
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
        age0 = Signal(row_layout(config), name="age0")
        self.flights = Flights(m, config, age0)
        self.ages = self.flights.ages
        self.load, self.store = Channel(config), Channel(config)
        m.submodules.load, m.submodules.store = self.load, self.store
        m.submodules.host = self.port = WordPort(config)
        wiring.connect(m, wiring.flipped(self.host), self.port.host)

        # The instruction in the row stage, and those that wait for it.
        self.x, x_valid = Signal(resolved_layout(), name="x"), Signal()
        free, self.stop = Signal(), Signal(4)
        following, comes, waiting = waiting_instructions(m, self, free)
        prepare_rows(m, self, x_valid, free, following)
        with m.If(free):
            m.d.sync += x_valid.eq(comes)

        launch = Signal()
        m.d.comb += launch.eq(self.start | self.host.begin)
        data_trap = self._pipeline(m)
        connect_channels(m, self)

        m.d.comb += [
            sxu.reset.eq(~self.running),
            sxu.start.eq(launch),
            sxu.halting.eq(halting),
            sxu.write_en.eq(self.write_en | self.port.write_en),
            sxu.write_address.eq(Mux(self.port.write_en, self.port.write_address, self.write_address)),
            sxu.write_data.eq(Mux(self.port.write_en, self.host.word, self.write_data)),
            sxu.bypass.eq(self.port.write_en),
            sxu.streaming.eq(self.port.streaming),
            sxu.known.eq(self.port.write_address),
        ]
        # Why it stopped is known a cycle later, unless an older row traps in this one.
        halted, reason = Signal(), Signal(len(self.trap) + len(self.pc))
        m.d.sync += [halted.eq(sxu.halt & self.running), reason.eq(Cat(sxu.trap, sxu.trap_pc))]
        with m.If(sxu.halt & self.running):
            m.d.sync += halting.eq(1)
        with m.If(halted):
            m.d.sync += Cat(self.trap, self.pc).eq(reason)
        with m.If(self.stop != 0):
            m.d.sync += [halting.eq(1), self.trap.eq(self.stop), self.pc.eq(self.r.pc)]
        with m.If(data_trap != 0):
            m.d.sync += [halting.eq(1), self.trap.eq(data_trap), self.pc.eq(self.ages[config.check].pc)]
        with m.If((self.stop != 0) | (data_trap != 0)):
            m.d.sync += [x_valid.eq(0), waiting.eq(0), halted.eq(0), *self.queue.clear()]

        moves = self.load.active | self.store.active | self.port.active | self.flights.remain | self.unchecked
        idle = ~(x_valid | waiting.any() | self.queue.any | moves)
        with m.If(self.running):
            m.d.sync += self.cycles.eq(self.cycles + 1)
            with m.If(halting & idle):
                # `halting` stays until the next start: a word behind the end may still be there.
                m.d.sync += [self.running.eq(0), self.done.eq(1)]
        with m.Elif(launch):
            m.d.sync += [
                self.running.eq(1),
                self.done.eq(0),
                self.cycles.eq(0),
                self.trap.eq(0),
                halting.eq(0),
            ]
        return m

    def _pipeline(self, m: Module) -> Any:
        config, vmem, check, ages = self.config, self.vmem, self.config.check, self.ages
        matrix = FloatMatrixUnit(config) if config.matrix_is_float else MatrixUnit(config)
        m.submodules.matrix = matrix
        m.submodules.crossbar = crossbar = Crossbar(config)
        m.submodules.reducer = reducer = Reducer(config)
        trap = Signal(4)
        effects = ["valid", "writes", "hold", "weights", "lda", "indices", "checked"]
        effects += ["outer", "preload"] if config.output_stationary else []
        for squashed in ages[1 : check + 2]:
            # A row that traps takes no effect, nor does a younger one.
            with m.If(trap != 0):
                for name in effects:
                    m.d.sync += squashed[name].eq(0)
        row_a, row_b = vmem.a_data, vmem.b_data
        at = 1 + config.read_registers
        read, now = ages[at], ages[check]
        with m.If(read.indices & (trap == 0)):
            words = [row_a[n : n + 32] for n in range(0, config.row_bits, 32)]
            m.d.sync += [s.eq(Cat(w[:16], w[16:].any())) for s, w in zip(self.indices, words, strict=True)]
        coming, group = ages[at - 1], Signal(7, name="group", reset_less=True)
        in_rows, in_columns = (coming.part >> (n.bit_length() - 1) for n in (config.columns, config.rows))
        m.d.sync += group.eq(Mux(coming.whole, coming.part, Mux(coming.weights, in_columns, in_rows)))
        m.d.comb += [
            vmem.constant.eq(ages[1].constant),
            vmem.word.eq(ages[1].b),
            matrix.row.eq(row_a),
            matrix.segment.eq(read.part),
            matrix.group.eq(group),
            matrix.bytes.eq(read.pre == 2),
            matrix.weights.eq(read.weights),
            matrix.whole.eq(read.whole),
            matrix.load_whole.eq(now.whole),
            matrix.trapped.eq(now.checked & matrix.overflow),
            crossbar.checked.eq(row_b),
        ]
        # The kind of check, and the row of the tile that takes weights: known a cycle early, except for a trap.
        loading = ages[check - 1]
        checks = Signal(2)
        m.d.sync += checks.eq(Mux((trap == 0) & loading.checked, Cat(loading.pre != 3, loading.pre == 3), 0))
        beyond, index = checks[0] & matrix.overflow, checks[1] & crossbar.overflow
        m.d.comb += trap.eq(Mux(beyond, Trap.FORMAT, Mux(index, Trap.INDEX, 0)))
        takes = loading.weights.replicate(config.rows) & Cat(
            loading.whole | (loading.index == i) for i in range(config.rows)
        )
        taking = Signal(config.rows)
        m.d.sync += taking.eq(Mux(trap == 0, takes, 0))
        m.d.comb += matrix.load.eq(taking)

        # A row that passes does so through the crossbar, or around it if it makes rows in parts.  Of the rows from
        # there and from the matrix unit, all but one are 0.
        passed, b = row_a, row_b
        factors: Any = None
        halves: dict[str, Any] = {}
        merge, crosses = max(config.pre_registers - 1, 0), max(config.pre_registers - 2, 0)
        used, drained = (now.pre == 1) | (now.pre == 2), []
        if config.output_stationary:
            used = used & ~now.drain
            drained = [connect_sums(m, config, matrix, ages, row_a, row_b)]
        m.d.comb += matrix.used.eq(used)
        for n in range(config.pre_registers + 1):
            if n == crosses - (config.pre_registers >= 3):
                # How it chooses is decided a cycle early.
                before = ages[at - 1]
                permutes = before.pre == 3
                m.d.comb += [crossbar.row.eq(passed), crossbar.indices.eq(b)]
                m.d.sync += [
                    crossbar.mode.eq(Mux(permutes, before.xlu, 0)),
                    crossbar.k.eq(Mux(permutes, before.k, 0)),
                    crossbar.used.eq(permutes),
                    crossbar.passes.eq(before.pre == 0),
                ]
                if config.crossings > 1:
                    m.d.comb += crossbar.part.eq(ages[at].cross)
                passed = None
            if n == crosses:
                halves = {"low": crossbar.low, "high": crossbar.high}
                halves |= {"straight": crossbar.straight} if config.crossings > 1 else {}
            if n == merge:
                if config.crossings > 1:
                    made = halves["low"] | halves["high"]
                    halves |= {"made": _collected(m, config, ages[at - 1], ages[at], made)}
                passed, halves = any_of([*halves.values(), matrix.result, *drained]), {}
            if n == max(config.pre_registers - 1, 0):
                # Factors of the lanes: operands, or powers of two for shifts.
                left, right, unsigned, plain = _shifts(m, ages, at)
                words = [slice(32 * lane, 32 * lane + 32) for lane in range(config.lanes)]
                factors = Cat(factor_of(b[word], left, right, plain) for word in words)
                tops = Cat(passed[word][-1] & ~unsigned for word in words)
                alone = Signal(reset_less=True)
                m.d.sync += alone.eq(~ages[at - 1].operand)
                b = Mux(alone, Const(0, config.row_bits), b)
            if n == config.pre_registers:
                break
            row = {"b": b} | halves | ({} if passed is None else {"passed": passed})
            if n == config.pre_registers - 1:
                # Registers of the multipliers, which the others cannot be: they are cleared.
                row |= {"factors": factors, "tops": tops}
            later = {k: Signal(len(value), name=f"pre{at}_{k}", reset_less=True) for k, value in row.items()}
            m.d.sync += [later[k].eq(value) for k, value in row.items()]
            passed, b, halves = later.get("passed"), later["b"], {k: later[k] for k in halves}
            factors, tops = later.get("factors"), later.get("tops")
            at += 1
        a = passed
        control = before = ages[at]
        # An old destination comes as an operand does, before the row that needs it.
        c = Signal(config.row_bits, name="old", reset_less=True)
        with m.If(before.hold):
            m.d.sync += c.eq(a)
        # Decoded once, in two steps; each lane has a register of its own.
        controls = operations(ages[max(at - 3, 0)].opcode, zero_points=config.zero_points)
        for step, name in ((2, "operations"), (1, "controls")):
            if at > step:
                later = Signal(len(controls), name=name, reset_less=True)
                m.d.sync += later.eq(controls)
                controls = later
            controls = decoded(controls, zero_points=config.zero_points) if step == 2 else controls
        results = []
        for lane in range(config.lanes):
            m.submodules[f"lane{lane}"] = alu = Alu(config.alu_registers, zero_points=config.zero_points)
            part = slice(32 * lane, 32 * lane + 32)
            m.d.comb += [
                alu.a.eq(a[part]),
                alu.b.eq(b[part]),
                alu.factor.eq(factors[part]),
                alu.top.eq(tops[lane]),
                alu.c.eq(c[part]),
                alu.next_control.eq(controls),
                alu.next_k.eq(ages[at - 1].k),
                alu.next_relu.eq(ages[at - 1].relu),
            ]
            results.append(alu.result)
        control = ages[at + config.alu_registers - reducer.early]
        if config.reductions > 1:
            # A row that is only accumulated is not combined over lanes.
            m.d.comb += reducer.combines.eq(control.writes)
        m.d.comb += [
            reducer.row.eq(Cat(results)),
            reducer.valid.eq(control.valid | control.lda),
            reducer.accumulate.eq(control.accumulate),
            reducer.first.eq(control.first),
            reducer.how.eq(control.reduce),
            reducer.levels.eq(control.levels),
            reducer.pack.eq(control.pack),
        ]
        # The row of `lda` is not written, and so may meet a slower row.
        result, word = Signal(config.row_bits), Signal(signed(32))
        m.d.sync += [result.eq(reducer.result), word.eq(reducer.result[:32])]
        for slow in self.flights.slow:
            if slow.kind == PRODUCTS:
                m.d.comb += [
                    matrix.b.eq(b),
                    matrix.adds.eq(before.operand),
                    matrix.mask.eq(before.mask),
                    matrix.relu.eq(before.relu),
                ]
                with m.If(slow.line[-2]):
                    m.d.sync += result.eq(matrix.sums)
                continue
            m.submodules[f"unit{slow.kind}"] = unit = self._unit(slow.kind, slow.latency - 1 - at)
            m.d.comb += [
                unit.start.eq(before.writes & (before.kind == slow.kind)),
                unit.a.eq(a),
                unit.b.eq(b),
                unit.opcode.eq(before.opcode),
            ]
            with m.If(slow.line[-2]):
                m.d.sync += result.eq(unit.result)
        m.d.comb += [
            vmem.row.eq(self.flights.row),
            vmem.written.eq(Cat(self.flights.banks)),
            vmem.data.eq(result),
            vmem.mask.eq(self.flights.mask),
            self.sxu.word.eq(word),
            self.sxu.word_valid.eq(ages[config.latency].lda),
        ]
        m.d.comb += [
            self.port.mask.eq(vmem.mask & self.flights.writes.replicate(config.lanes)),
            self.port.written_row.eq(self.flights.row),
            self.port.written.eq(result),
        ]
        return trap

    def _unit(self, kind: int, cycles: int) -> RowUnit:
        config = self.config
        stages = config.float_stages if kind == 1 else config.function_stages

        def lane() -> Any:
            if kind == 1:
                return FloatLane(stages)
            return FunctionLane(stages, functions=config.functions, divide=config.divide)

        parts = config.interval(kind)
        return RowUnit(lane, config.lanes, config.lanes // parts, stages, cycles - stages - parts + 1)


def _collected(m: Module, config: Config, before: Any, age: Any, made: Value) -> Value:
    """The parts of a permuted row that were made before `made`, in their lanes; `before` comes to be `age`."""
    found = Signal(config.row_bits - len(made), name="made", reset_less=True)
    with m.If(age.part_crosses):
        m.d.sync += found.eq(Cat(made, found)[: len(found)])
    permutes = Signal()
    m.d.sync += permutes.eq(before.pre == 3)
    return Cat(Const(0, len(made)), found & permutes.replicate(len(found)))


def _shifts(m: Module, ages: list[Any], at: int) -> list[Any]:
    """Whether the row at an age is shifted to the left, to the right, and to the right as unsigned words; or is not."""
    names = (("shl",), ("shr", "sra"), ("shr",), ("shl", "shr", "sra"))
    *decided, some = [is_one_of(ages[at - 1].opcode, shifts) for shifts in names]
    found = [Signal(name=f"shifts_{name}") for name in ("left", "right", "unsigned", "none")]
    m.d.sync += [register.eq(value) for register, value in zip(found, (*decided, ~some), strict=True)]
    return found
