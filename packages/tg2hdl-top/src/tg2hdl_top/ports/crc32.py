"""CRC-32 of bytes, computed with one or more bits a cycle."""

from __future__ import annotations

from amaranth import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Crc32"]

_POLYNOMIAL = 0xEDB88320
_RESIDUE = 0xDEBB20E3
"""State of the register after a message and its check."""
_ALL = 0xFFFFFFFF


class Crc32(wiring.Component):
    """CRC-32 (ISO-HDLC, that of Ethernet) of bytes, and the bytes of the check.

    The register shifts the check out.  ``amaranth.lib.crc`` outputs the whole check, which takes a counter and a
    multiplexer to send, and needs a serializer in front for fewer than 8 bits a cycle: more LUTs in all.

    Parameters
    ----------
    bits : int
        Bits that are processed in a cycle: 1, 2, 4 or 8.  With 8, a byte takes the cycle in which it comes; otherwise
        it takes ``8 // bits`` further cycles.

    Members
    -------
    start : In(1)
        Begin a message; bits that have not been processed are dropped.
    byte, valid : In
        A byte, only while not busy.
    drain : In(1)
        With `valid`: shift the check out by a byte instead of processing `byte`.  Stable while busy.
    check : Out(8)
        The next byte of the check.
    matches : Out(1)
        Whether the message so far ends with its check.
    busy : Out(1)
        A byte is being processed.
    """

    def __init__(self, bits: int) -> None:
        self._bits = bits
        super().__init__(
            {
                "start": In(1),
                "byte": In(8),
                "valid": In(1),
                "drain": In(1),
                "check": Out(8),
                "matches": Out(1),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        bits, crc = self._bits, Signal(32, init=_ALL)
        data, active = self.byte, self.valid
        if bits < 8:
            data, left = Signal(8), Signal(range(8 // bits + 1))
            active = left != 0
            with m.If(self.start):
                m.d.sync += left.eq(0)
            with m.Elif(self.valid):
                m.d.sync += [data.eq(self.byte), left.eq(8 // bits)]
            with m.Elif(active):
                m.d.sync += [data.eq(data >> bits), left.eq(left - 1)]
            m.d.comb += self.busy.eq(active)
        # Feedback of each bit; that of earlier bits in the same cycle may have reached the end of the register.
        feedback = Signal(bits)
        for n in range(bits):
            before = [feedback[k] for k in range(n) if _POLYNOMIAL >> (n - 1 - k) & 1]
            m.d.comb += feedback[n].eq(Cat(crc[n], data[n], before).xor() & ~self.drain)
        shifted = [
            Cat(
                crc[bits:][n : n + 1],
                (feedback[k] for k in range(bits) if _POLYNOMIAL >> (bits - 1 - k) >> n & 1),
            )
            for n in range(32)
        ]
        with m.If(self.start):
            m.d.sync += crc.eq(_ALL)
        with m.Elif(active):
            m.d.sync += crc.eq(Cat(values.xor() for values in shifted))
        m.d.comb += [self.check.eq(~crc[:8]), self.matches.eq(crc == _RESIDUE)]
        return m
