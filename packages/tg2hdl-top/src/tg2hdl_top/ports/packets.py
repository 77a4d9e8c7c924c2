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
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from tg2hdl_top.ports.crc32 import Crc32

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
_COUNTED = 4
"""Bytes up to the count."""


class PacketReceiver(wiring.Component):
    """Keeps the requests that came undamaged, until they are taken.

    Parameters
    ----------
    size : int
        Bytes that it holds; a power of two.
    runs : bool
        Whether RUN is a request.
    check_bits : int
        See `Crc32`: a link brings a byte in ``1 + 8 // check_bits`` cycles at most, or in each cycle with 8.

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

    def __init__(self, size: int, *, runs: bool = False, check_bits: int = 8) -> None:
        self._size, self._runs, self._check_bits = size, runs, check_bits
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
        # Bytes that are still missing: up to the count, and from then on to the end.
        missing = Signal(range(4 * 255 + HEADER + CHECK), init=_COUNTED)
        counted, begun = Signal(), Signal()
        m.submodules.check = check = Crc32(self._check_bits)

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
            check.byte.eq(plain),
            check.valid.eq(keep),
            check.start.eq(ends),
        ]
        has_data = Signal()
        with m.If(keep):
            m.d.sync += [begun.eq(1), missing.eq(missing - 1)]
            with m.If(full | (missing == 0)):
                m.d.sync += [bad.eq(1), missing.eq(0)]
            with m.Else():
                m.d.sync += head.eq(head + 1)
            with m.If(~counted & (missing == 2)):
                m.d.sync += has_data.eq(plain.matches(OP_WRITE, *(OP_RUN,) * self._runs))
            with m.If(~counted & (missing == 1)):
                size = HEADER + CHECK - _COUNTED + Mux(has_data, plain << 2, 0)
                m.d.sync += [counted.eq(1), missing.eq(size)]
        with m.If(wrong_escape | self.broken):
            m.d.sync += bad.eq(1)
        m.d.sync += self.dropped.eq(0)
        with m.If(ends):
            m.d.sync += [missing.eq(_COUNTED), counted.eq(0), begun.eq(0), bad.eq(0)]
            with m.If(counted & (missing == 0) & check.matches & ~bad & ~escaped):
                m.d.sync += done.eq(head)
            with m.Else():
                m.d.sync += [head.eq(done), self.dropped.eq(begun | bad)]

        settled = Signal()
        m.d.sync += settled.eq(~self.take)
        m.d.comb += [read.addr.eq(tail), self.out.eq(read.data), self.available.eq(settled & (tail != done))]
        with m.If(self.take):
            m.d.sync += tail.eq(tail + 1)
        return m


class PacketSender(wiring.Component):
    """Marks a reply and adds its check.

    Parameters
    ----------
    check_bits : int
        See `Crc32`.

    Members
    -------
    data, last, valid, ready : In, In, In, Out
        A byte of the reply, taken when valid and ready.
    byte, byte_valid, byte_ready : Out, Out, In
        A byte for the link, taken when valid and ready.
    """

    def __init__(self, check_bits: int = 8) -> None:
        self._check_bits = check_bits
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
        m.submodules.check = check = Crc32(self._check_bits)
        held, escape, left = Signal(8), Signal(), Signal(range(CHECK))
        plain, offered, taken = Signal(8), Signal(), Signal()
        special = (plain == END) | (plain == ESC)
        m.d.comb += [
            check.byte.eq(self.data),
            check.valid.eq(taken),
            taken.eq(offered & ~escape & self.byte_ready),
        ]
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
                m.d.comb += [plain.eq(self.data), offered.eq(self.valid & ~check.busy), self.ready.eq(taken)]
                with m.If(taken & self.last):
                    m.d.sync += left.eq(CHECK - 1)
                    m.next = "CHECK" if self._check_bits == 8 else "WAIT"
            if self._check_bits < 8:
                with m.State("WAIT"), m.If(~check.busy):
                    m.next = "CHECK"
            with m.State("CHECK"):
                m.d.comb += [check.drain.eq(1), plain.eq(check.check), offered.eq(~check.busy)]
                with m.If(taken):
                    m.d.sync += left.eq(left - 1)
                    with m.If(left == 0):
                        m.next = "END"
            with m.State("END"), m.If(~escape):
                m.d.comb += [self.byte.eq(END), self.byte_valid.eq(1), check.start.eq(1)]
                with m.If(self.byte_ready):
                    m.next = "DATA"
        return m
