"""The processor behind a serial line: commands are executed one after the other."""

from __future__ import annotations

from typing import Any

from amaranth import Cat, Module, Mux, ResetInserter, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory

from tg2hdl_lower import Component
from tg2hdl_top.ports import PortPlan, build_port
from tg2hdl_tpu.board.command import HEADER, INSTRUCTION_WORDS, LIMIT, PAYLOAD, REPLY, host_shape
from tg2hdl_tpu.config import Config
from tg2hdl_tpu.hardware.chip import RowMemory
from tg2hdl_tpu.hardware.core import TensorCore
from tg2hdl_tpu.hardware.records import PC_BITS
from tg2hdl_tpu.isa import INSTRUCTION_BITS, Trap

__all__ = ["UNITS", "BoardProcessor"]

UNITS = {"core": "tensor core", "external": "external memory", "port": "port uart", "commands": "commands"}
"""Titles of the submodules."""
_SETTLE = 8
"""Cycles from the last written instruction to the start, in which the program memory shows the first one."""


class BoardProcessor(Component):
    """A tensor core, its external memory in block RAM, and a host port.

    Members
    -------
    uart
        Of the host port ``uart``.
    """

    def __init__(self, config: Config, payload: int = PAYLOAD) -> None:
        self.config, self.payload = config, payload
        self.shape = host_shape(config, payload)
        self.port = build_port(PortPlan("uart", self.shape))
        super().__init__(dict(self.port.outside.signature.members))

    def elaborate(self, platform: object) -> Module:
        """Connect the parts, and execute commands."""
        m = Module()
        config, port = self.config, self.port
        abort = Signal()
        core, external = TensorCore(config), RowMemory(config)
        m.submodules.core = ResetInserter(abort)(core)
        m.submodules.external, m.submodules.port = external, port
        line = port.outside.uart
        m.d.comb += [line.rx.eq(self.uart.rx), line.divisor.eq(self.uart.divisor), self.uart.tx.eq(line.tx)]
        m.submodules.commands = commands = _Commands(config, self.payload, self.shape)
        wiring.connect(m, commands.host, port.design)
        own = ~core.running
        m.d.comb += [
            abort.eq(commands.abort),
            core.start.eq(commands.start),
            commands.done.eq(core.done),
            commands.status.eq(Cat(core.trap, core.pc, core.cycles)),
            core.write_en.eq(commands.write_en),
            core.write_address.eq(commands.address),
            core.write_data.eq(commands.instruction),
            external.running.eq(core.running),
            core.memory_ready.eq(external.ready),
            external.read_en.eq(Mux(own, commands.row_read, core.read_en)),
            external.read_address.eq(Mux(own, commands.address, core.read_address)),
            core.read_valid.eq(external.read_valid & core.running),
            core.read_data.eq(external.read_data),
            commands.row_valid.eq(external.read_valid & own),
            commands.row_in.eq(external.read_data),
            external.write_en.eq(Mux(own, commands.row_write, core.store_en)),
            external.write_address.eq(Mux(own, commands.address, core.store_address)),
            external.write_data.eq(Mux(own, commands.row, core.store_data)),
        ]
        return m


class _Commands(wiring.Component):
    """Takes a command apart; two cycles for each word, which is far faster than a link."""

    def __init__(self, config: Config, payload: int, shape: Any) -> None:
        self.config, self.payload = config, payload
        bits, address = config.row_bits, max(config.imem_depth, config.xmem_rows).bit_length()
        inward, outward = wiring.In, wiring.Out
        super().__init__(
            {
                "host": inward(shape.signature(by_element=True)),
                "abort": outward(1),
                "start": outward(1),
                "done": inward(1),
                "status": inward(4 + PC_BITS + 40),
                "write_en": outward(1),
                "row_write": outward(1),
                "row_read": outward(1),
                "address": outward(address),
                "instruction": outward(INSTRUCTION_BITS),
                "row": outward(bits),
                "row_valid": inward(1),
                "row_in": inward(bits),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config, host, lanes = self.config, self.host, self.config.lanes
        size = self.payload
        m.submodules.command = command = Memory(shape=32, depth=len(HEADER) + size, init=[])
        m.submodules.reply = reply = Memory(shape=32, depth=REPLY + size, init=[])
        put, get = command.write_port(), command.read_port()
        answer, show = reply.write_port(), reply.read_port()
        given, shown = host.buffers.command, host.buffers.reply
        at, phase, word = Signal(range(len(HEADER) + size + 1)), Signal(), Signal(32)
        m.d.comb += [
            put.en.eq(given.wen),
            put.addr.eq(given.waddr),
            put.data.eq(given.wdata),
            get.addr.eq(at),
            word.eq(get.data),
            show.addr.eq(shown.raddr),
            shown.rdata.eq(show.data),
        ]
        header = {name: Signal(32, name=name) for name in HEADER}
        chain = Cat(header.values())
        busy, refused, limited = Signal(), Signal(), Signal()
        left, piece, to = (
            Signal(range(size + 1)),
            Signal(range(max(lanes, INSTRUCTION_WORDS))),
            Signal.like(at),
        )
        cycles = Signal(range(LIMIT + 1))
        m.d.comb += [host.busy.eq(busy), host.kernel_done[0].eq(host.done), answer.addr.eq(to)]
        used = header["instructions"][:16] * INSTRUCTION_WORDS + header["rows_written"][:16] * lanes
        wrong = Cat(
            _outside(header["program"], header["instructions"], config.imem_depth, size),
            _outside(header["write"], header["rows_written"], config.xmem_rows, size),
            _outside(header["read"], header["rows_read"], config.xmem_rows, size),
            used > size,
            header["rows_read"][:16] * lanes > size,
            header["limit"] > LIMIT,
        )
        trap, pc, ran = self.status[:4], self.status[4 : 4 + PC_BITS], self.status[4 + PC_BITS :]
        status = [
            Mux(limited, Trap.LIMIT, trap),
            pc,
            Mux(limited, header["limit"], ran[:32]),
            ran[32:],
            refused,
        ]
        m.d.sync += phase.eq(~phase & busy)

        def words_into(register: Signal, count: int, where: str, following: str, pulse: Signal) -> None:
            """Fill a register with words, write it, and go on to the next one."""
            with m.State(where):
                with m.If(left == 0):
                    m.next = following
                with m.Elif(phase):
                    m.d.sync += [register.eq(Cat(register[32:], word)), at.eq(at + 1), piece.eq(piece + 1)]
                    with m.If(piece == count - 1):
                        m.d.sync += piece.eq(0)
                        m.next = f"{where}_WRITE"
            with m.State(f"{where}_WRITE"):
                m.d.comb += pulse.eq(1)
                m.d.sync += [self.address.eq(self.address + 1), left.eq(left - 1), phase.eq(0)]
                m.next = where

        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += [at.eq(0), phase.eq(0), piece.eq(0), limited.eq(0)]
                with m.If(host.start):
                    m.d.sync += busy.eq(1)
                    m.next = "HEADER"
            with m.State("HEADER"), m.If(phase):
                m.d.sync += [chain.eq(Cat(chain[32:], word)), at.eq(at + 1)]
                with m.If(at == len(HEADER) - 1):
                    m.next = "CHECK"
            with m.State("CHECK"):
                m.d.sync += refused.eq(wrong.any())
                m.next = "BEGIN"
            with m.State("BEGIN"):
                m.d.sync += [self.address.eq(header["program"]), left.eq(header["instructions"]), phase.eq(0)]
                m.next = "PROGRAM"
                with m.If(refused):
                    m.d.sync += [header[name].eq(0) for name in ("limit", "rows_read")]
                    m.next = "SETTLE"
            words_into(self.instruction, INSTRUCTION_WORDS, "PROGRAM", "ROWS_BEGIN", self.write_en)
            with m.State("ROWS_BEGIN"):
                m.d.sync += [self.address.eq(header["write"]), left.eq(header["rows_written"]), phase.eq(0)]
                m.next = "ROWS"
            words_into(self.row, lanes, "ROWS", "SETTLE", self.row_write)
            with m.State("SETTLE"):
                m.d.sync += cycles.eq(cycles + 1)
                with m.If(cycles == _SETTLE):
                    m.d.sync += cycles.eq(0)
                    m.next = "READ_BEGIN"
                    with m.If(header["limit"] != 0):
                        m.d.comb += self.start.eq(1)
                        m.next = "RUN"
            with m.State("RUN"):
                m.d.sync += cycles.eq(cycles + 1)
                with m.If((cycles != 0) & self.done):
                    m.next = "READ_BEGIN"
                with m.Elif(cycles == header["limit"]):
                    m.d.sync += limited.eq(1)
                    m.next = "ABORT"
            with m.State("ABORT"):
                m.d.comb += self.abort.eq(1)
                m.next = "READ_BEGIN"
            with m.State("READ_BEGIN"):
                m.d.sync += [self.address.eq(header["read"]), left.eq(header["rows_read"]), to.eq(REPLY)]
                m.d.sync += cycles.eq(0)
                m.next = "READ"
            with m.State("READ"):
                with m.If(left == 0):
                    m.d.sync += to.eq(0)
                    m.next = "STATUS"
                with m.Else():
                    m.d.comb += self.row_read.eq(1)
                    m.next = "WAIT"
            with m.State("WAIT"), m.If(self.row_valid):
                m.d.sync += self.row.eq(self.row_in)
                m.next = "SHOW"
            with m.State("SHOW"):
                m.d.comb += [answer.en.eq(1), answer.data.eq(self.row[:32])]
                m.d.sync += [self.row.eq(self.row >> 32), to.eq(to + 1), piece.eq(piece + 1)]
                with m.If(piece == lanes - 1):
                    m.d.sync += [piece.eq(0), left.eq(left - 1), self.address.eq(self.address + 1)]
                    m.next = "READ"
            with m.State("STATUS"):
                m.d.comb += answer.en.eq(1)
                with m.Switch(to):
                    for n, value in enumerate(status):
                        with m.Case(n):
                            m.d.comb += answer.data.eq(value)
                m.d.sync += to.eq(to + 1)
                with m.If(to == REPLY - 1):
                    m.next = "DONE"
            with m.State("DONE"):
                m.d.comb += host.done.eq(1)
                m.d.sync += busy.eq(0)
                m.next = "IDLE"
        return m


def _outside(address: Signal, count: Signal, size: int, most: int) -> Any:
    """Whether some of `count` places from an address on do not exist."""
    return (count > most) | (address > size) | ((address[:24] + count[:24]) > size)
