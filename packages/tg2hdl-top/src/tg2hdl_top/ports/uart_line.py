"""Bytes on a serial line: one start bit, eight data bits from the lowest on, one stop bit."""

from __future__ import annotations

from amaranth import Cat, Const, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

__all__ = ["UartReceiver", "UartTransmitter"]


class UartReceiver(wiring.Component):
    """Receives bytes.

    Members
    -------
    divisor : In(16)
        Clock cycles of a bit, at least 4.
    rx : In(1)
        The line.
    byte, valid : Out
        A byte, for one cycle.
    broken : Out(1)
        A byte without a stop bit, for one cycle.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "divisor": In(16),
                "rx": In(1, init=1),
                "byte": Out(8),
                "valid": Out(1),
                "broken": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        rx = Signal(init=1)
        m.submodules.synchronizer = FFSynchronizer(self.rx, rx, init=1)
        timer, left, shift = Signal(16), Signal(range(10)), Signal(8)
        m.d.comb += self.byte.eq(shift)
        m.d.sync += [self.valid.eq(0), self.broken.eq(0), timer.eq(timer - 1)]
        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += [timer.eq(self.divisor >> 1), left.eq(8)]
                with m.If(~rx):
                    m.next = "START"
            with m.State("START"), m.If(timer == 1):
                m.d.sync += timer.eq(self.divisor)
                with m.If(rx):  # a spike
                    m.next = "IDLE"
                with m.Else():
                    m.next = "DATA"
            with m.State("DATA"), m.If(timer == 1):
                m.d.sync += [timer.eq(self.divisor), left.eq(left - 1)]
                with m.If(left == 0):
                    m.d.sync += [self.valid.eq(rx), self.broken.eq(~rx)]
                    m.next = "WAIT"
                with m.Else():
                    m.d.sync += shift.eq(Cat(shift[1:], rx))
            with m.State("WAIT"), m.If(rx):  # the line is low during a break
                m.next = "IDLE"
        return m


class UartTransmitter(wiring.Component):
    """Sends bytes.

    Members
    -------
    divisor : In(16)
        Clock cycles of a bit.
    tx : Out(1)
        The line.
    byte, valid, ready : In, In, Out
        A byte is taken when valid and ready.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "divisor": In(16),
                "tx": Out(1, init=1),
                "byte": In(8),
                "valid": In(1),
                "ready": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        timer, left, shift = Signal(16), Signal(range(11)), Signal(10, init=0x3FF)
        m.d.comb += self.ready.eq(left == 0)
        m.d.sync += self.tx.eq(shift[0])
        with m.If(self.ready), m.If(self.valid):
            m.d.sync += [
                shift.eq(Cat(Const(0, 1), self.byte, Const(1, 1))),
                left.eq(10),
                timer.eq(self.divisor),
            ]
        with m.Elif(timer != 1):
            m.d.sync += timer.eq(timer - 1)
        with m.Else():
            m.d.sync += [timer.eq(self.divisor), left.eq(left - 1), shift.eq(Cat(shift[1:], Const(1, 1)))]
        return m
