"""A full-speed transceiver of USB from plain pins: bits, their stuffing and the ends of packets."""

from __future__ import annotations

from amaranth import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

__all__ = ["UsbReceiver", "UsbTransmitter"]

_STUFFED = 6
"""Ones after which a 0 follows (7.1.9 of the specification 2.0)."""


class UsbReceiver(wiring.Component):
    """Receives packets, in the domain ``usb`` of 48 MHz.

    Each change of the lines aligns the sampling: bits are taken in the middle of their four cycles.  Extra bits before
    the end of a packet are ignored, as hubs add some; a stuffed 1 cuts the packet, whose check fails then.

    Members
    -------
    dp, dn : In(1)
        The lines.
    blind : In(1)
        Receive nothing: the device sends.
    line : Out(2)
        `dp` and `dn` in the domain ``usb``.
    byte, valid, active : Out
        A byte of a packet, for one cycle; `active` from the synchronization to the end of the packet.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "dp": In(1, init=1),
                "dn": In(1),
                "blind": In(1),
                "line": Out(2, init=1),
                "byte": Out(8),
                "valid": Out(1),
                "active": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        dp, dn = self.line
        m.submodules.dp = FFSynchronizer(self.dp, dp, o_domain="usb", init=1)
        m.submodules.dn = FFSynchronizer(self.dn, dn, o_domain="usb")
        level, before, phase, strobe = Signal(init=1), Signal(init=1), Signal(2), Signal()
        m.d.comb += strobe.eq(phase == 2)
        m.d.usb += phase.eq(phase + 1)
        with m.If(dp != dn):
            m.d.usb += level.eq(dp)
            with m.If(dp != level):
                m.d.usb += phase.eq(1)
        # Without a difference the level stays; both lines are low at the end of a packet.
        value, ended = Signal(), ~dp & ~dn
        m.d.comb += value.eq(level == before)
        with m.If(strobe):
            m.d.usb += before.eq(level)

        zeros, ones, count, shift = Signal(range(6)), Signal(range(8)), Signal(3), Signal(8)
        m.d.comb += self.byte.eq(shift)
        m.d.usb += self.valid.eq(0)
        with m.If(strobe):
            with m.If(value):
                m.d.usb += [zeros.eq(0), ones.eq(ones + (ones != 7))]
            with m.Else():
                m.d.usb += [zeros.eq(zeros + (zeros != 5)), ones.eq(0)]
        with m.FSM(domain="usb"):
            with m.State("IDLE"):
                m.d.usb += count.eq(0)
                with m.If(strobe & value & (zeros == 5) & ~ended):
                    m.d.usb += self.active.eq(1)
                    m.next = "PACKET"
            with m.State("PACKET"), m.If(strobe):
                with m.If(ended):
                    m.d.usb += self.active.eq(0)
                    m.next = "IDLE"
                with m.Elif(ones != _STUFFED):
                    m.d.usb += [
                        shift.eq(Cat(shift[1:], value)),
                        count.eq(count + 1),
                        self.valid.eq(count == 7),
                    ]
                with m.Elif(value):
                    m.d.usb += self.active.eq(0)
                    m.next = "DAMAGED"
            with m.State("DAMAGED"), m.If(strobe & (ended | (value & (ones == 7)))):
                m.next = "IDLE"
        with m.If(self.blind):
            m.d.usb += [zeros.eq(0), self.active.eq(0), self.valid.eq(0)]
        return m


class UsbTransmitter(wiring.Component):
    """Sends packets, in the domain ``usb`` of 48 MHz.

    Members
    -------
    byte, valid, ready : In, In, Out
        A byte of a packet, taken when valid and ready; the packet ends where none is valid.
    dp, dn, drives : Out(1)
        The lines, and whether they are driven.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "byte": In(8),
                "valid": In(1),
                "ready": Out(1),
                "dp": Out(1, init=1),
                "dn": Out(1),
                "drives": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        phase, ones, left, shift = Signal(2), Signal(range(_STUFFED + 1)), Signal(range(9)), Signal(8)
        bit = Signal()
        m.d.usb += phase.eq(phase + 1)
        with m.FSM(domain="usb"):
            with m.State("IDLE"):
                m.d.usb += [self.drives.eq(0), self.dp.eq(1), self.dn.eq(0), ones.eq(0), phase.eq(0)]
                with m.If(self.valid):
                    m.d.usb += [shift.eq(0x80), left.eq(8)]
                    m.next = "SEND"
            with m.State("SEND"), m.If(phase == 0):
                m.d.comb += bit.eq(shift[0] & (ones != _STUFFED))
                m.d.usb += self.drives.eq(1)
                with m.If((left != 0) | (ones == _STUFFED)):
                    m.d.usb += ones.eq(ones + 1)
                    with m.If(~bit):
                        m.d.usb += [ones.eq(0), self.dp.eq(~self.dp), self.dn.eq(self.dp)]
                with m.If((left != 0) & (ones != _STUFFED)):
                    m.d.usb += [shift.eq(shift >> 1), left.eq(left - 1)]
                    with m.If((left == 1) & self.valid):
                        m.d.comb += self.ready.eq(1)
                        m.d.usb += [shift.eq(self.byte), left.eq(8)]
                with m.If((left == 0) & (ones != _STUFFED)):
                    m.d.usb += [self.dp.eq(0), self.dn.eq(0)]
                    m.next = "END"
            with m.State("END"), m.If(phase == 0):
                m.next = "REST"
            with m.State("REST"), m.If(phase == 0):
                m.d.usb += self.dp.eq(1)
                m.next = "RELEASE"
            with m.State("RELEASE"), m.If(phase == 0):
                m.d.usb += self.drives.eq(0)
                m.next = "IDLE"
        return m
