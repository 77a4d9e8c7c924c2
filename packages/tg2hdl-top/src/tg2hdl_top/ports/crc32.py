"""CRC-32 of bytes, made with few bits in a cycle."""

from __future__ import annotations

from amaranth import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Crc32"]

_POLYNOMIAL = 0xEDB88320
_RESIDUE = 0xDEBB20E3
"""The register after bytes and their check."""
_ALL = 0xFFFFFFFF


class Crc32(wiring.Component):
    """CRC-32 (ISO-HDLC, that of Ethernet) of bytes; it also gives the bytes of the check.

    Parameters
    ----------
    bits : int
        Of a byte that are added in a cycle: 1, 2, 4 or 8.  A byte takes ``8 // bits`` cycles after the one in which it
        comes; with 8 it takes that cycle only.

    Members
    -------
    start : In(1)
        Begin; bits that are left are dropped.
    byte, valid : In
        A byte, while not busy.
    drain : In(1)
        Stable while busy: take the next byte of the check out, instead of adding one.
    check : Out(8)
        The next byte of the check.
    matches : Out(1)
        Whether the bytes ended with their check.
    busy : Out(1)
        A byte is being added.
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
        # The feedback of each bit, and those of the bits before it that have come to the end by then.
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
