"""Packets in a stream of bytes: where they begin and end, and their check.

A packet is followed by the byte END. In it END is sent as ESC ESC_END and ESC as ESC ESC_ESC (RFC 1055), so that a
receiver finds the next packet after any disturbance. Its last four bytes are the CRC-32 of those before, lowest byte
first. The bytes before:

    request   sequence (2)  operation (1)  count (1)  address (4)  data (4 x count, of WRITE and RUN)
    reply     sequence (2)  operation | 0x80 (1)  data (of READ and RUN)  code (1)

RUN writes the input, writes its address to START, and reads the output: for designs of one input and one output of at
most 255 words each. Its reply has the words of the output, zeros from the first access on that was refused.
"""

from __future__ import annotations

from amaranth import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.crc.catalog import CRC32_ISO_HDLC
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

__all__ = [
    "END",
    "ESC",
    "ESC_END",
    "ESC_ESC",
    "OP_READ",
    "OP_RUN",
    "OP_SYNC",
    "OP_WRITE",
    "PacketReceiver",
    "PacketSender",
]

END, ESC, ESC_END, ESC_ESC = 0xC0, 0xDB, 0xDC, 0xDD
OP_WRITE, OP_READ, OP_SYNC, OP_RUN = 1, 2, 3, 4
HEADER, CHECK = 8, 4


class PacketReceiver(wiring.Component):
    """Keeps the requests that came undamaged, until they are taken.

    Parameters
    ----------
    size : int
        Bytes that it holds; a power of two.
    runs : bool
        Whether RUN is a request.

    Members
    -------
    byte, valid : In
        A byte, taken in the same cycle.
    broken : In(1)
        A byte was damaged.
    out, available, take : Out, Out, In
        A byte of an undamaged request, without its marks and with its check; the next one is available two cycles
        after `take` at the earliest.
    dropped : Out(1)
        A request was dropped, for one cycle.
    """

    def __init__(self, size: int, *, runs: bool = False) -> None:
        self._size, self._runs = size, runs
        super().__init__(
            {
                "byte": In(8),
                "valid": In(1),
                "broken": In(1),
                "out": Out(8),
                "available": Out(1),
                "take": In(1),
                "dropped": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        m.submodules.memory = memory = Memory(shape=8, depth=self._size, init=[])
        write, read = memory.write_port(), memory.read_port()
        head, done, tail = (Signal(range(self._size), name=n) for n in ("head", "done", "tail"))
        escaped, bad = Signal(), Signal()
        count = Signal(range(HEADER + 4 * 255 + CHECK + 2))
        wanted = Signal.like(count, init=HEADER + CHECK)
        m.submodules.crc = crc = CRC32_ISO_HDLC(data_width=8).create()

        # Without the marks.
        keep, ends, plain = Signal(), Signal(), Signal(8)
        m.d.comb += [
            ends.eq(self.valid & (self.byte == END)),
            keep.eq(self.valid & (self.byte != END) & (self.byte != ESC)),
            plain.eq(Mux(escaped, Mux(self.byte == ESC_END, END, ESC), self.byte)),
        ]
        with m.If(self.valid):
            m.d.sync += escaped.eq(self.byte == ESC)
        wrong_escape = escaped & self.valid & (self.byte != ESC_END) & (self.byte != ESC_ESC)

        full = Signal()
        m.d.comb += [
            full.eq((head + 1)[: len(head)] == tail),
            write.addr.eq(head),
            write.data.eq(plain),
            write.en.eq(keep),
            crc.data.eq(plain),
            crc.valid.eq(keep),
            crc.start.eq(ends),
        ]
        with m.If(keep):
            m.d.sync += [head.eq(head + 1), count.eq(count + 1)]
            with m.If(full | (count == wanted)):
                m.d.sync += [bad.eq(1), head.eq(head), count.eq(count)]
        with m.If(wrong_escape | self.broken):
            m.d.sync += bad.eq(1)
        # The length follows from the operation and the count.
        operation = Signal(8)
        with m.If(keep & (count == 2)):
            m.d.sync += operation.eq(plain)
        with m.If(keep & (count == 3)):
            has_data = operation.matches(OP_WRITE, *(OP_RUN,) * self._runs)
            m.d.sync += wanted.eq(HEADER + CHECK + Mux(has_data, plain << 2, 0))
        m.d.sync += self.dropped.eq(0)
        with m.If(ends):
            m.d.sync += [count.eq(0), wanted.eq(HEADER + CHECK), bad.eq(0)]
            with m.If((count == wanted) & crc.match_detected & ~bad & ~escaped):
                m.d.sync += done.eq(head)
            with m.Else():
                m.d.sync += [head.eq(done), self.dropped.eq((count != 0) | bad)]

        settled = Signal()
        m.d.sync += settled.eq(~self.take)
        m.d.comb += [read.addr.eq(tail), self.out.eq(read.data), self.available.eq(settled & (tail != done))]
        with m.If(self.take):
            m.d.sync += tail.eq(tail + 1)
        return m


class PacketSender(wiring.Component):
    """Marks a reply and adds its check.

    Members
    -------
    data, last, valid, ready : In, In, In, Out
        A byte of the reply, taken when valid and ready.
    byte, byte_valid, byte_ready : Out, Out, In
        A byte for the link, taken when valid and ready.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "data": In(8),
                "last": In(1),
                "valid": In(1),
                "ready": Out(1),
                "byte": Out(8),
                "byte_valid": Out(1),
                "byte_ready": In(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        m.submodules.crc = crc = CRC32_ISO_HDLC(data_width=8).create()
        held, escape = Signal(8), Signal()
        check, left = Signal(32), Signal(range(CHECK))
        plain, offered, taken = Signal(8), Signal(), Signal()
        special = (plain == END) | (plain == ESC)
        m.d.comb += [crc.data.eq(self.data), taken.eq(offered & ~escape & self.byte_ready)]
        with m.If(escape):
            m.d.comb += [self.byte.eq(Mux(held == END, ESC_END, ESC_ESC)), self.byte_valid.eq(1)]
            with m.If(self.byte_ready):
                m.d.sync += escape.eq(0)
        with m.Else():
            m.d.comb += [self.byte.eq(Mux(special, ESC, plain)), self.byte_valid.eq(offered)]
            with m.If(taken):
                m.d.sync += [escape.eq(special), held.eq(plain)]
        with m.FSM():
            with m.State("DATA"):
                m.d.comb += [plain.eq(self.data), offered.eq(self.valid)]
                m.d.comb += [self.ready.eq(taken), crc.valid.eq(taken)]
                with m.If(taken & self.last):
                    m.next = "LOAD"
            with m.State("LOAD"):
                m.d.sync += [check.eq(crc.crc), left.eq(CHECK - 1)]
                m.next = "CHECK"
            with m.State("CHECK"):
                m.d.comb += [plain.eq(check[:8]), offered.eq(1)]
                with m.If(taken):
                    m.d.sync += [check.eq(check >> 8), left.eq(left - 1)]
                    with m.If(left == 0):
                        m.next = "END"
            with m.State("END"), m.If(~escape):
                m.d.comb += [self.byte.eq(END), self.byte_valid.eq(1), crc.start.eq(1)]
                with m.If(self.byte_ready):
                    m.next = "DATA"
        return m
