"""Requests in packets to accesses of the register map, and replies."""

from __future__ import annotations

from typing import Any

from amaranth import Cat, Const, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tg2hdl_lower import HostShape
from tg2hdl_top.ports.packets import (
    CHECK,
    HEADER,
    OP_READ,
    OP_RUN,
    OP_SYNC,
    OP_WRITE,
    PacketReceiver,
    PacketSender,
)
from tg2hdl_top.ports.register_file import RegisterFile
from tg2hdl_top.register_map import REGISTERS, AccessCode, RegisterMap

__all__ = ["BUFFER_BYTES", "CODE_SEQUENCE", "PacketBridge"]

BUFFER_BYTES = 2048
"""Requests that may be in flight, with their checks (bytes)."""
CODE_SEQUENCE = 0x80
"""Code of a reply to a request that has another number than the next one: nothing was done."""
_START = next(register.address for register in REGISTERS if register.name == "START")


class PacketBridge(wiring.Component):
    """Executes requests in the order of their sequence numbers, and replies to each.

    A request with another number than the next one is answered with `CODE_SEQUENCE` and does nothing; the operation
    SYNC sets the number.  An access while the design runs waits for the end of the run.

    Parameters
    ----------
    serves : HostShape

    Members
    -------
    byte_in, valid_in, broken : In
        A byte from the link, taken in the same cycle; or a damaged one.
    byte_out, valid_out, ready_out : Out, Out, In
        A byte for the link, taken when valid and ready.
    design : Out(serves.signature(by_element=True))
    """

    def __init__(self, serves: HostShape) -> None:
        self._serves = serves
        super().__init__(
            {
                "byte_in": In(8),
                "valid_in": In(1),
                "broken": In(1),
                "byte_out": Out(8),
                "valid_out": Out(1),
                "ready_out": In(1),
                "design": Out(serves.signature(by_element=True)),
            }
        )

    def connect_link(self, m: Module, link: Any) -> None:
        """Connect the bytes of a link, which has these members with the other directions.

        Parameters
        ----------
        m : Module
        link : Component
        """
        m.d.comb += [
            self.byte_in.eq(link.byte_in),
            self.valid_in.eq(link.valid_in),
            link.byte_out.eq(self.byte_out),
            link.valid_out.eq(self.valid_out),
            self.ready_out.eq(link.ready_out),
        ]

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        runs = RegisterMap(self._serves).packet_run
        m.submodules.receiver = receiver = PacketReceiver(BUFFER_BYTES, runs=runs is not None)
        m.submodules.sender = sender = PacketSender()
        m.submodules.registers = registers = RegisterFile(self._serves, waits=True)
        wiring.connect(m, wiring.flipped(self.design), registers.design)
        bus = registers.bus
        m.d.comb += [
            receiver.byte.eq(self.byte_in),
            receiver.valid.eq(self.valid_in),
            receiver.broken.eq(self.broken),
            registers.link_error.eq(receiver.dropped),
            self.byte_out.eq(sender.byte),
            self.valid_out.eq(sender.byte_valid),
            sender.byte_ready.eq(self.ready_out),
        ]
        header, expected = Signal(8 * HEADER), Signal(16)
        sequence, operation, count = header[:16], header[16:24], header[24:32]
        address = Signal.like(bus.address)
        outside = Signal()  # an address beyond the map
        left, skip = Signal(8), Signal(range(4 * 255 + CHECK + 1))
        number, word, code = Signal(range(max(HEADER, 5))), Signal(32), Signal(8)
        reply, reply_bytes = Signal(32), Signal(range(5))
        m.d.comb += [bus.address.eq(address), bus.data.eq(word)]
        is_run = operation == OP_RUN if runs else Const(0)
        here = receiver.available
        with m.FSM():
            with m.State("HEADER"):
                m.d.sync += [code.eq(0), outside.eq(0)]
                with m.If(here):
                    m.d.comb += receiver.take.eq(1)
                    m.d.sync += [header.eq(Cat(header[8:], receiver.out)), number.eq(number + 1)]
                    with m.If(number == HEADER - 1):
                        m.d.sync += number.eq(0)
                        m.next = "CHECK"
            with m.State("CHECK"):
                m.d.sync += [address.eq(header[32:]), left.eq(count), skip.eq(CHECK)]
                m.d.sync += outside.eq(header[32 + len(address) :].any() | header[32:34].any())
                m.next = "SKIP"
                with m.If(operation == OP_SYNC):
                    m.d.sync += expected.eq(sequence + 1)
                with m.Elif(sequence != expected):
                    m.d.sync += code.eq(CODE_SEQUENCE)
                    with m.If((operation == OP_WRITE) | is_run):
                        m.d.sync += skip.eq((count << 2) + CHECK)
                with m.Else():
                    m.d.sync += expected.eq(expected + 1)
                    with m.If((operation == OP_WRITE) & (count != 0)):
                        m.next = "GATHER"
                    if runs:
                        with m.If(is_run):
                            m.d.sync += [address.eq(runs[0].address), outside.eq(0)]
                            m.next = "GATHER"
                        with m.If(is_run & (count != runs[0].words)):
                            m.d.sync += [code.eq(AccessCode.ORDER), skip.eq((count << 2) + CHECK)]
                            m.d.sync += left.eq(runs[1].words)
                            m.next = "SKIP"
            with m.State("GATHER"), m.If(here):  # a word of a write
                m.d.comb += receiver.take.eq(1)
                m.d.sync += [word.eq(Cat(word[8:], receiver.out)), number.eq(number + 1)]
                with m.If(number == 3):
                    m.d.sync += number.eq(0)
                    m.next = "WRITE"
            with m.State("WRITE"):
                m.d.comb += [bus.valid.eq(~outside & (code == 0)), bus.write.eq(1)]
                with m.If(bus.ready | ~bus.valid):
                    with m.If(bus.valid):
                        m.d.sync += code.eq(bus.code)
                    with m.Elif(outside):
                        m.d.sync += code.eq(AccessCode.ADDRESS)
                    m.d.sync += [address.eq(address + 4), left.eq(left - 1)]
                    m.next = "GATHER"
                    with m.If(left == 1):
                        m.next = "SKIP"
                        if runs:
                            with m.If(is_run):
                                m.next = "START"
            if runs:
                with m.State("START"):
                    m.d.comb += [bus.valid.eq(code == 0), bus.write.eq(1)]
                    m.d.comb += [bus.address.eq(_START), bus.data.eq(header[32:])]
                    with m.If(bus.ready | ~bus.valid):
                        with m.If(bus.valid):
                            m.d.sync += code.eq(bus.code)
                        m.d.sync += [address.eq(runs[1].address), left.eq(runs[1].words)]
                        m.next = "SKIP"
            with m.State("SKIP"), m.If(here):  # the check, and the data of a request that is not executed
                m.d.comb += receiver.take.eq(1)
                m.d.sync += skip.eq(skip - 1)
                with m.If(skip == 1):
                    m.d.sync += [reply.eq(Cat(sequence, operation | 0x80)), reply_bytes.eq(3)]
                    m.next = "REPLY"
            with m.State("REPLY"):  # three bytes, or a word that was read
                m.d.comb += [sender.data.eq(reply[:8]), sender.valid.eq(1)]
                with m.If(sender.ready):
                    m.d.sync += [reply.eq(reply >> 8), reply_bytes.eq(reply_bytes - 1)]
                    with m.If(reply_bytes == 1):
                        m.next = "CODE"
                        with m.If(((operation == OP_READ) | is_run) & (left != 0) & (code != CODE_SEQUENCE)):
                            m.next = "READ"
            with m.State("READ"):
                m.d.comb += bus.valid.eq(~outside & (code == 0))
                with m.If(bus.ready | ~bus.valid):
                    m.d.sync += [reply.eq(0), reply_bytes.eq(4), address.eq(address + 4), left.eq(left - 1)]
                    with m.If(bus.valid):
                        m.d.sync += [reply.eq(bus.value), code.eq(bus.code)]
                    with m.Elif(outside):
                        m.d.sync += code.eq(AccessCode.ADDRESS)
                    m.next = "REPLY"
            with m.State("CODE"):
                m.d.comb += [sender.data.eq(code), sender.last.eq(1), sender.valid.eq(1)]
                with m.If(sender.ready):
                    m.next = "HEADER"
        return m
