"""Requests in packets to accesses of the register map, and replies."""

from __future__ import annotations

from typing import Any

from amaranth import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tg2hdl_lower import HostShape
from tg2hdl_top.ports.byte_registers import COUNTERS, ByteRegisters
from tg2hdl_top.ports.packets import (
    OP_READ,
    OP_RUN,
    OP_SYNC,
    OP_WRITE,
    PacketReceiver,
    PacketSender,
)
from tg2hdl_top.register_map import AccessCode, RegisterMap

__all__ = ["BUFFER_BYTES", "CODE_SEQUENCE", "PacketBridge"]

BUFFER_BYTES = 2048
"""Requests that may be in flight, with their checks (bytes)."""
CODE_SEQUENCE = 0x80
"""Code of a reply to a request that has another number than the next one: nothing was done."""
_SEQUENCE = 8
"""CODE_SEQUENCE as kept in 4 bits; the codes of `AccessCode` have three."""


class PacketBridge(wiring.Component):
    """Executes requests in the order of their sequence numbers, and replies to each.

    A request with another number than the next one is answered with `CODE_SEQUENCE` and does nothing; the operation
    SYNC sets the number.  An access while the design runs waits for the end of the run.

    Parameters
    ----------
    serves : HostShape
    check_bits : int
        See `PacketReceiver`.

    Members
    -------
    byte_in, valid_in, broken : In
        A byte from the link, taken in the same cycle; or a damaged one.
    byte_out, valid_out, ready_out : Out, Out, In
        A byte for the link, taken when valid and ready.
    design : Out(serves.signature(by_element=True))
    """

    def __init__(self, serves: HostShape, *, check_bits: int = 8) -> None:
        self._serves, self._check_bits = serves, check_bits
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
        bits, runs = self._check_bits, RegisterMap(self._serves).packet_run
        m.submodules.receiver = receiver = PacketReceiver(
            BUFFER_BYTES, runs=runs is not None, check_bits=bits
        )
        m.submodules.sender = sender = PacketSender(bits)
        registers = ByteRegisters(m, self.design, self._serves)
        m.d.comb += [
            receiver.byte.eq(self.byte_in),
            receiver.valid.eq(self.valid_in),
            receiver.broken.eq(self.broken),
            registers.byte_in.eq(receiver.out),
            self.byte_out.eq(sender.byte),
            self.valid_out.eq(sender.byte_valid),
            sender.byte_ready.eq(self.ready_out),
        ]
        address, index, replies = registers.address, registers.index, Signal()
        m.d.comb += [registers.write.eq(~replies), registers.reads_memory.eq(replies)]
        head, expected, left, code = Signal(24), Signal(16), Signal(8), Signal(4)
        sequence, operation = head[:16], head[16:]
        outside, addressed, starts = Signal(), Signal(), Signal()
        # Address bits that must be 0, of the byte before: registered, so that no test is on the path of the block RAM.
        beyond = Signal(8)
        m.d.sync += beyond.eq(0)
        with m.If(beyond.any()):
            m.d.sync += outside.eq(1)
        is_read, is_run, paused = Signal(), Signal(), Signal()
        bad = code != 0
        pending, counts, stalled, last = self._counters(m, registers, receiver.dropped)
        here = receiver.available

        def take() -> None:
            m.d.comb += receiver.take.eq(1)
            m.d.sync += index.eq(index + 1)

        def after_word(then: str) -> None:
            """Go to the next word, or on."""
            m.d.sync += [address.eq(address + 4), left.eq(left - 1)]
            m.next = "LOOK"
            with m.If(left == 1):
                m.next = then

        with m.FSM(init="CLEAR"):
            with m.State("CLEAR"):  # the counters, which a reset leaves in the memory
                m.d.comb += [registers.reads_memory.eq(0), registers.clear.eq(1)]
                m.d.sync += Cat(index, registers.counter).eq(Cat(index, registers.counter) + 1)
                with m.If((index == 3) & (registers.counter == len(COUNTERS) - 1)):
                    m.d.sync += registers.counter.eq(0)
                    m.next = "HEADER"
            with m.State("HEADER"):
                m.d.sync += [code.eq(0), starts.eq(0)]
                with m.If(pending & ~addressed & (index == 0)):
                    m.d.comb += counts.eq(1)
                    m.d.sync += paused.eq(0)
                    m.next = "COUNT"
                with m.Elif(here):
                    take()
                    with m.If(addressed):
                        m.d.comb += registers.compare.eq(1)
                        with m.Switch(index):
                            for n in range(4):
                                with m.Case(n):
                                    part = address[8 * n : 8 * n + 8]
                                    m.d.sync += part.eq(receiver.out) if len(part) else []
                                    m.d.sync += beyond.eq(
                                        receiver.out[:2] if n == 0 else receiver.out[len(part) :]
                                    )
                    with m.Else():
                        m.d.comb += registers.fresh.eq(1)
                        m.d.sync += outside.eq(0)
                        with m.If(index == 3):
                            m.d.sync += left.eq(receiver.out)
                        with m.Else():
                            m.d.sync += head.eq(Cat(head[8:], receiver.out))
                    with m.If(index == 3):
                        m.d.sync += addressed.eq(~addressed)
                        with m.If(addressed):
                            m.next = "CHECK"
            with m.State("CHECK"):
                m.d.sync += is_read.eq(operation == OP_READ)
                gives = operation == OP_WRITE
                if runs:
                    m.d.sync += is_run.eq(operation == OP_RUN)
                    gives |= operation == OP_RUN
                m.d.sync += head[23].eq(1)
                m.next = "CHECKSUM"
                with m.If(gives & (left != 0)):
                    m.next = "DECODE"
                with m.If((operation == OP_SYNC) | (sequence == expected)):
                    m.d.sync += expected.eq(sequence + 1)
                    if runs:
                        with m.If(operation == OP_RUN):
                            with m.If(left != 0):
                                m.next = "LOOK"
                            m.d.sync += [address.eq(runs[0].address), outside.eq(0)]
                            with m.If(left != runs[0].words):
                                m.d.sync += code.eq(AccessCode.ORDER)
                            with m.If(left == 0):
                                m.d.sync += left.eq(runs[1].words)
                with m.Else():
                    m.d.sync += code.eq(_SEQUENCE)
            with m.State("LOOK"):
                m.next = "DECODE"
            with m.State("DECODE"):
                m.next = "PUT"
                with m.If(replies):
                    m.next = "GET"
                with m.If(starts):
                    m.next = "COMMIT"
                with m.If(~bad):
                    with m.If(outside):
                        m.d.sync += code.eq(AccessCode.ADDRESS)
                    with m.Elif(registers.waits):
                        m.d.comb += stalled.eq(1)
                        m.next = "DECODE"
                        with m.If(pending):
                            m.d.comb += counts.eq(1)
                            m.d.sync += paused.eq(1)
                            m.next = "COUNT"
                    with m.Elif(registers.refusal != 0):
                        m.d.sync += code.eq(registers.refusal)
                        registers.state.refuse(m, registers.refusal)
                    with m.Else():
                        m.d.comb += [registers.begin.eq(1), registers.fresh.eq(~is_run)]
            with m.State("PUT"), m.If(here & ~registers.full):
                take()
                m.d.comb += [registers.put.eq(~bad), registers.compare.eq(~is_run)]
                with m.If(index == 3):
                    m.next = "COMMIT"
            with m.State("COMMIT"):
                with m.If(~bad):
                    m.d.comb += registers.commit.eq(1)
                    with m.If(registers.is_register):
                        m.d.sync += code.eq(registers.verdict)
                after_word("CHECKSUM")
                if runs:
                    with m.If(is_run & (left == 1) & (code != _SEQUENCE)):
                        m.d.sync += [address.eq(registers.map.places["START"]), starts.eq(1), left.eq(1)]
                        m.next = "LOOK"
                    with m.If(starts):
                        m.d.sync += [address.eq(runs[1].address), left.eq(runs[1].words), starts.eq(0)]
                        m.next = "CHECKSUM"
            with m.State("CHECKSUM"):  # drops its four bytes, this one and those of the next state
                m.d.comb += receiver.take.eq(1)
                m.d.sync += replies.eq(1)
                m.next = "REPLY"
            with m.State("REPLY"):
                m.d.comb += [sender.data.eq(head[:8]), sender.valid.eq(1)]
                with m.If(sender.ready):
                    m.d.comb += receiver.take.eq(1)
                    m.d.sync += [head.eq(head >> 8), index.eq(index + 1)]
                    with m.If(index == 2):
                        m.d.sync += index.eq(0)
                        m.next = "CODE"
                        with m.If((is_read | is_run) & (left != 0) & (code != _SEQUENCE)):
                            m.next = "DECODE"
            with m.State("GET"):
                m.d.comb += [
                    sender.data.eq(Mux(bad, 0, registers.byte_out)),
                    sender.valid.eq(bad | registers.valid),
                ]
                with m.If(sender.ready):
                    m.d.comb += registers.get.eq(~bad)
                    m.d.sync += index.eq(index + 1)
                    with m.If(index == 3):
                        after_word("CODE")
            with m.State("CODE"):
                m.d.comb += [sender.data.eq(Cat(code[:3], Const(0, 4), code[3]))]
                m.d.comb += [sender.last.eq(1), sender.valid.eq(1)]
                with m.If(sender.ready):
                    m.d.sync += replies.eq(0)
                    m.next = "HEADER"
            with m.State("COUNT"):  # reads a byte of the counter
                m.d.comb += [registers.reads_memory.eq(0), stalled.eq(paused & registers.waits)]
                m.next = "TAKE"
            with m.State("TAKE"):
                m.d.comb += [registers.reads_memory.eq(0), stalled.eq(paused & registers.waits)]
                m.next = "ADD"
            with m.State("ADD"):
                m.d.comb += [registers.reads_memory.eq(0), stalled.eq(paused & registers.waits)]
                m.d.comb += registers.add.eq(1)
                m.d.sync += index.eq(index + 1)
                m.next = "COUNT"
                with m.If(last):
                    m.d.sync += index.eq(0)
                    m.next = "HEADER"
                    with m.If(paused):
                        m.next = "DECODE"
        return m

    def _counters(
        self, m: Module, registers: ByteRegisters, dropped: Value
    ) -> tuple[Signal, Signal, Signal, Signal]:
        """Signals: whether a counter has to be added to, that this begins, that an access waits, and the last byte."""
        started, drops, stalls = Signal(), Signal(8), Signal(4)
        pending, counts, stalled, last = Signal(), Signal(), Signal(), Signal()
        m.d.comb += last.eq((registers.index == 3) | ~registers.carry)
        waiting = dict(zip(COUNTERS, (started, drops, stalls), strict=True))
        m.d.comb += pending.eq(Cat(waiting.values()).any())
        with m.If(registers.state.starting):
            m.d.sync += started.eq(1)
        with m.If(dropped & ~drops.all()):
            m.d.sync += drops.eq(drops + 1)
        with m.If(stalled):
            m.d.sync += stalls.eq(stalls + 1)
        with m.If(counts):
            for n, (amount, now) in enumerate(zip(waiting.values(), (0, dropped, stalled), strict=True)):
                with m.If(amount.any()) if n == 0 else m.Elif(amount.any()):
                    m.d.sync += [registers.counter.eq(n), registers.amount.eq(amount), amount.eq(now)]
        with m.If(registers.add):
            m.d.sync += registers.amount.eq(registers.carry)
            with m.If(last):
                m.d.sync += registers.counter.eq(0)
        return pending, counts, stalled, last
