"""Ethernet frames at a media-independent interface: preamble, padding and check (IEEE 802.3, clause 3)."""

from __future__ import annotations

from amaranth import Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tg2hdl_top.ports.crc32 import Crc32

__all__ = ["FrameReceiver", "FrameSender", "within"]

_PREAMBLE, _START = 0x55, 0xD5
_SMALLEST = 64
_LARGEST = 1518
"""Bytes of the largest frame, with its check."""
_CHECK, _GAP = 4, 12


def within(value: Signal, first: int, end: int) -> Value:
    """Whether a number is in a range, by the bits that its parts have in common: smaller than two comparisons.

    Parameters
    ----------
    value : Signal
    first, end : int
        The range is ``first <= value < end``.
    """
    patterns = []
    while first < end:
        bits = (first & -first or 1 << len(value)).bit_length() - 1
        while first + (1 << bits) > end:
            bits -= 1
        patterns.append(f"{first >> bits:0{len(value) - bits}b}" + "-" * bits)
        first += 1 << bits
    return value.matches(*patterns)


class FrameReceiver(wiring.Component):
    """Finds frames in the bytes of a PHY, and tells whether they came undamaged.

    Members
    -------
    data, valid, error, strobe : In
        GMII's RXD, RX_DV and RX_ER, looked at in cycles with `strobe`.
    begins : Out(1)
        A frame begins.
    byte, place, taken : Out
        A byte of a frame, its number, and whether there is one in this cycle; the check belongs to the frame.
    ends, good : Out(1)
        A frame has ended, with `place` bytes; whether its check and its size are right.
    """

    def __init__(self) -> None:
        inputs = {"data": In(8), "valid": In(1), "error": In(1), "strobe": In(1)}
        outputs = {"begins": Out(1), "byte": Out(8), "place": Out(11), "taken": Out(1), "ends": Out(1)}
        super().__init__(inputs | outputs | {"good": Out(1)})

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        m.submodules.crc = crc = Crc32(8)
        bad = Signal()
        m.d.comb += [self.byte.eq(self.data), crc.byte.eq(self.data), crc.valid.eq(self.taken)]
        with m.FSM():
            with m.State("IDLE"), m.If(self.strobe & self.valid):
                with m.If(self.data == _START):
                    m.d.comb += [self.begins.eq(1), crc.start.eq(1)]
                    m.d.sync += [self.place.eq(0), bad.eq(0)]
                    m.next = "FRAME"
                with m.Elif(self.data != _PREAMBLE):
                    m.next = "SKIP"
            with m.State("FRAME"), m.If(self.strobe):
                with m.If(self.valid):
                    m.d.comb += self.taken.eq(1)
                    m.d.sync += [
                        self.place.eq(self.place + 1),
                        bad.eq(bad | self.error | (self.place == _LARGEST)),
                    ]
                with m.Else():
                    m.d.comb += self.ends.eq(1)
                    m.d.comb += self.good.eq(crc.matches & ~bad & ~within(self.place, 0, _SMALLEST))
                    m.next = "IDLE"
            with m.State("SKIP"), m.If(self.strobe & ~self.valid):
                m.next = "IDLE"
        return m


class FrameSender(wiring.Component):
    """Sends a frame with preamble, padding and check, and keeps the gap after it.

    Members
    -------
    start, length : In
        Begin a frame of so many bytes, without its check, while `idle`.
    idle : Out(1)
    place, upcoming : Out
        Number of the byte that is sent; and of the one that `byte` must be in the next cycle.
    byte : In(8)
        The byte of `place`.
    data, valid, strobe : Out, Out, In
        GMII's TXD and TX_EN, which change after cycles with `strobe`.
    """

    def __init__(self) -> None:
        inputs = {"start": In(1), "length": In(11), "byte": In(8), "strobe": In(1)}
        outputs = {"idle": Out(1), "place": Out(11), "upcoming": Out(11), "data": Out(8), "valid": Out(1)}
        super().__init__(inputs | outputs)

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        m.submodules.crc = crc = Crc32(8)
        place, following, left = self.place, Signal.like(self.place), Signal.like(self.length)
        m.d.comb += following.eq(place + 1)
        out = Signal(8)
        m.d.comb += crc.byte.eq(out)
        with m.FSM() as fsm:
            with m.State("IDLE"):
                m.d.comb += self.idle.eq(1)
                m.d.sync += [place.eq(0), left.eq(self.length)]
                with m.If(self.start):
                    m.next = "PREAMBLE"
            with m.State("PREAMBLE"):
                m.d.comb += [out.eq(Mux(place == 7, _START, _PREAMBLE)), crc.start.eq(1)]
                with m.If(self.strobe & (place == 7)):
                    m.next = "DATA"
            with m.State("DATA"):
                m.d.comb += [out.eq(Mux(left.any(), self.byte, 0)), crc.valid.eq(self.strobe)]
                m.d.comb += self.upcoming.eq(Mux(self.strobe, following, place))
                ends = ~left[1:].any() & ~within(place, 0, _SMALLEST - _CHECK - 1)
                with m.If(self.strobe):
                    m.d.sync += left.eq(left - left.any())
                    with m.If(ends):
                        m.next = "CHECK"
            with m.State("CHECK"):
                m.d.comb += [out.eq(crc.check), crc.drain.eq(1), crc.valid.eq(self.strobe)]
                with m.If(self.strobe & (place == _CHECK - 1)):
                    m.next = "GAP"
            with m.State("GAP"), m.If(self.strobe & (place == _GAP)):
                m.next = "IDLE"
        with m.If(self.strobe & ~self.idle):
            m.d.sync += [self.data.eq(out), self.valid.eq(~fsm.ongoing("GAP")), place.eq(following)]
            last = fsm.ongoing("PREAMBLE") & (place == 7) | fsm.ongoing("DATA") & ends
            with m.If(last | fsm.ongoing("CHECK") & (place == _CHECK - 1)):
                m.d.sync += place.eq(0)
        return m
