"""The pins of a gigabit PHY (RGMII), used at 100 Mbit/s: a nibble in each cycle of the PHY's clock of 25 MHz.

At this rate a design may have any clock above 12.5 MHz, and pins need no delays: either side takes a nibble 20 ns after
it has changed.  The PHY is told over MDIO to offer nothing else (IEEE 802.3, clauses 22 and 28).
"""

from __future__ import annotations

from typing import Any

from amaranth import Array, Cat, ClockDomain, ClockSignal, Const, Module, Signal
from amaranth.lib import io, wiring
from amaranth.lib.fifo import AsyncFIFO
from amaranth.lib.wiring import In, Out

__all__ = ["Management", "Nibbles", "connect_rgmii"]

CLOCK = 25.0
"""MHz."""
_WRITES = ((9, 0x0000), (4, 0x0101), (0, 0x1200))
"""Registers of a PHY: not 1000BASE-T, only 100BASE-TX full duplex, negotiate again."""


class Nibbles(wiring.Component):
    """Nibbles in the domain ``phy`` from and to bytes in ``sync``.

    Members
    -------
    rx, rx_ctl, tx, tx_ctl : In, In, Out, Out
        Of the PHY.
    rxd, rx_dv, rx_ce, txd, tx_en, tx_ce
        As of `ETHERNET_PINS`.
    """

    def __init__(self) -> None:
        phy = {"rx": In(4), "rx_ctl": In(1), "tx": Out(4), "tx_ctl": Out(1)}
        receive = {"rxd": Out(8), "rx_dv": Out(1), "rx_ce": Out(1)}
        super().__init__({**phy, **receive, "txd": In(8), "tx_en": In(1), "tx_ce": Out(1)})

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        m.submodules.inward = inward = AsyncFIFO(width=9, depth=8, w_domain="phy", r_domain="sync")
        m.submodules.outward = outward = AsyncFIFO(width=9, depth=8, w_domain="sync", r_domain="phy")
        # A byte begins after the start of the frame: the PHY may leave out an odd number of nibbles before it.
        before, half = Signal(4), Signal()
        m.d.phy += before.eq(self.rx)
        m.d.comb += inward.w_data.eq(Cat(before, self.rx, self.rx_ctl))
        with m.FSM(domain="phy"):
            with m.State("IDLE"), m.If(self.rx_ctl):
                with m.If((self.rx == 0xD) & (before == 0x5)):
                    m.d.comb += inward.w_en.eq(1)
                    m.d.phy += half.eq(0)
                    m.next = "FRAME"
                with m.Elif(self.rx != 0x5):
                    m.next = "SKIP"
            with m.State("FRAME"):
                m.d.phy += half.eq(~half)
                m.d.comb += inward.w_en.eq(half | ~self.rx_ctl)
                with m.If(~self.rx_ctl):
                    m.next = "IDLE"
            with m.State("SKIP"), m.If(~self.rx_ctl):
                m.next = "IDLE"
        m.d.comb += [
            Cat(self.rxd, self.rx_dv).eq(inward.r_data),
            self.rx_ce.eq(inward.r_rdy),
            inward.r_en.eq(1),
        ]

        m.d.comb += [
            outward.w_data.eq(Cat(self.txd, self.tx_en)),
            outward.w_en.eq(1),
            self.tx_ce.eq(outward.w_rdy),
        ]
        second, high, byte = Signal(), Signal(4), outward.r_data
        m.d.comb += outward.r_en.eq(~second)
        m.d.phy += [second.eq(~second), self.tx.eq(high)]
        with m.If(~second):
            m.d.phy += [self.tx.eq(byte[:4]), high.eq(byte[4:8]), self.tx_ctl.eq(byte[8] & outward.r_rdy)]
        return m


class Management(wiring.Component):
    """Resets a PHY, and writes its registers, at each address of the bus.

    Parameters
    ----------
    first : int
        Cycle that it begins with.

    Members
    -------
    reset, mdc, mdio, drives : Out(1)
        To the PHY; `mdio` counts while `drives`.
    """

    def __init__(self, first: int = 0) -> None:
        self._first = first
        super().__init__(dict.fromkeys(("reset", "mdc", "mdio", "drives"), Out(1)))

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        # 2**21 cycles are 13 ms at 160 MHz, and a bit of 64 cycles is one of 2.5 MHz: the limits of PHYs.
        time = Signal(25, init=self._first)
        with m.If(~time[-1]):
            m.d.sync += time.eq(time + 1)
        place, number, address = time[6:12], time[12:14], time[14:19]
        register = Array(Const(register, 5) for register, _ in _WRITES)[number]
        value = Array(Const(value, 16) for _, value in _WRITES)[number]
        # The last bit is sent first: 32 ones, start and write, address, register, turn-around, value.
        frame = Cat(value, Const(0b10, 2), register, address, Const(0b0101, 4), Const(0xFFFFFFFF, 32))
        m.d.comb += [
            self.reset.eq(time[21:] == 0),
            self.drives.eq((time[19:] == 1 << 4) & (number != len(_WRITES))),
            self.mdc.eq(time[5] & self.drives),
            self.mdio.eq(frame.bit_select(~place, 1)),
        ]
        return m


def connect_rgmii(m: Module, platform: Any, eth: Any) -> None:
    """Connect the PHY of a board to an interface of `ETHERNET_PINS`.

    Parameters
    ----------
    m : Module
        Top module of the board; gets the clock domain ``phy``.
    platform
        Of Amaranth, with a resource ``("eth_rgmii", 0)``.
    eth
        Interface of the design.
    """
    names = {pad.name for pad in platform.lookup("eth_rgmii", 0).ios}
    pads = platform.request("eth_rgmii", 0, dir=dict.fromkeys(names, "-"))
    control = "ctl" if "rx_ctl" in names else "ctrl"
    m.submodules.phy_pins = pins = Module()
    pins.submodules.rx_clk = clock = io.Buffer("i", pads.rx_clk)
    m.domains.phy = ClockDomain("phy", reset_less=True)
    m.d.comb += ClockSignal("phy").eq(clock.i)
    platform.add_clock_constraint(pads.rx_clk.io, CLOCK * 1e6)
    pins.submodules.nibbles = nibbles = Nibbles()
    receivers = {"rx": pads.rx_data, "rx_ctl": getattr(pads, f"rx_{control}")}
    senders = {"tx": pads.tx_data, "tx_ctl": getattr(pads, f"tx_{control}"), "tx_clk": pads.tx_clk}
    for name, pad in receivers.items():
        pins.submodules[name] = buffer = io.DDRBuffer("i", pad, i_domain="phy")
        pins.d.comb += getattr(nibbles, name).eq(buffer.i[1])  # in the middle of the cycle
    for name, pad in senders.items():
        pins.submodules[name] = buffer = io.DDRBuffer("o", pad, o_domain="phy")
        values = (0, 1) if name == "tx_clk" else (getattr(nibbles, name),) * 2
        pins.d.comb += [buffer.o[n].eq(value) for n, value in enumerate(values)]
    for name in ("rxd", "rx_dv", "rx_ce", "tx_ce"):
        pins.d.comb += getattr(eth, name).eq(getattr(nibbles, name))
    for name in ("txd", "tx_en"):
        pins.d.comb += getattr(nibbles, name).eq(getattr(eth, name))
    pins.d.comb += eth.rx_er.eq(0)  # RX_CTL ends a frame with an error
    pins.submodules.management = management = Management()
    pins.submodules.mdc = mdc = io.Buffer("o", pads.mdc)
    pins.submodules.mdio = mdio = io.Buffer("io", pads.mdio)
    pins.d.comb += [mdc.o.eq(management.mdc), mdio.o.eq(management.mdio), mdio.oe.eq(management.drives)]
    if "rst" in names:
        pins.submodules.rst = reset = io.Buffer("o", pads.rst)
        pins.d.comb += reset.o.eq(management.reset)
