"""A UDP endpoint at an Ethernet interface: bytes of datagrams in and out, and answers to ARP and echo requests."""

from __future__ import annotations

from amaranth import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from tg2hdl_top.ports.ethernet import FrameReceiver, FrameSender, within
from tg2hdl_top.ports.packets import END
from tg2hdl_top.ports.udp_requests import ETHERNET, HEADERS, UdpRequests

__all__ = ["ETHERNET_PINS", "IP", "PAYLOAD", "UdpEndpoint"]

IP = 0xC0A80132
"""192.168.1.50, the address of a design unless a board ties it to another one."""
PAYLOAD = 1472
"""Bytes of data in the largest datagram."""
_MEMORY = 2048
ETHERNET_PINS = wiring.Signature(
    {
        **{"rxd": Out(8), "rx_dv": Out(1), "rx_er": Out(1), "rx_ce": Out(1, init=1)},
        **{"txd": In(8), "tx_en": In(1), "tx_ce": Out(1, init=1)},
        "ip": Out(32, init=IP),
    }
)
"""GMII as a PHY drives it, with strobes for a slower interface, and the IP address."""


class UdpEndpoint(wiring.Component):
    """Takes the datagrams of one sender at a time, and sends replies to it; a reply ends with `END`.

    Parameters
    ----------
    hold_bits : int
        As of `UdpRequests`.

    Members
    -------
    eth : In(ETHERNET_PINS)
    byte_in, valid_in : Out
        A byte of a datagram; it must be taken.
    byte_out, valid_out, ready_out : In, In, Out
        A byte of a reply, taken when valid and ready.
    """

    def __init__(self, hold_bits: int) -> None:
        self._hold_bits = hold_bits
        stream = {"byte_in": Out(8), "valid_in": Out(1), "byte_out": In(8), "valid_out": In(1)}
        super().__init__({"eth": In(ETHERNET_PINS), **stream, "ready_out": Out(1)})

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        eth = self.eth
        m.submodules.receiver = receiver = FrameReceiver()
        m.submodules.requests = requests = UdpRequests(self._hold_bits)
        m.submodules.sender = sender = FrameSender()
        m.d.comb += [
            receiver.data.eq(eth.rxd),
            receiver.valid.eq(eth.rx_dv),
            receiver.error.eq(eth.rx_er),
            receiver.strobe.eq(eth.rx_ce),
            requests.ip.eq(eth.ip),
            self.byte_in.eq(requests.out),
            self.valid_in.eq(requests.available),
            sender.strobe.eq(eth.tx_ce),
            eth.txd.eq(sender.data),
            eth.tx_en.eq(sender.valid),
        ]
        for name in ("byte", "place", "taken", "begins", "ends", "good"):
            m.d.comb += getattr(requests, name).eq(getattr(receiver, name))
        self._answer(m, requests, sender)
        return m

    def _answer(self, m: Module, requests: UdpRequests, sender: FrameSender) -> None:
        """Collect a datagram, and send it or a finished answer."""
        m.submodules.memory = memory = Memory(shape=8, depth=_MEMORY, init=[])
        write, read = memory.write_port(), memory.read_port()
        count, is_reply, slot = Signal(11, init=HEADERS), Signal(), Signal(2)
        m.d.comb += [
            self.ready_out.eq(~requests.replying & ~requests.write),
            write.en.eq(requests.write | self.valid_out & self.ready_out),
            write.addr.eq(Mux(requests.write, requests.address, count)),
            write.data.eq(Mux(requests.write, requests.data, self.byte_out)),
        ]
        waiting = Signal()
        m.d.comb += requests.replying.eq(waiting)
        with m.If(self.valid_out & self.ready_out):
            m.d.sync += count.eq(count + 1)
            with m.If((self.byte_out == END) | (count == HEADERS + PAYLOAD - 1)):
                m.d.sync += waiting.eq(1)

        busy = Signal()
        m.d.comb += sender.start.eq(~busy & sender.idle & (requests.answer | waiting))
        m.d.comb += sender.length.eq(Mux(requests.answer, requests.length, count))
        with m.If(sender.start):
            m.d.sync += [busy.eq(1), is_reply.eq(~requests.answer)]
            m.d.sync += slot.eq(Mux(requests.answer, requests.answer_slot, requests.owner_slot))
        with m.Elif(busy & sender.idle):
            m.d.sync += busy.eq(0)
            m.d.comb += requests.answered.eq(~is_reply)
            with m.If(is_reply):
                m.d.sync += [waiting.eq(0), count.eq(HEADERS)]

        place, upcoming = sender.place, sender.upcoming
        in_slot = ~is_reply | within(upcoming, 0, HEADERS)
        m.d.comb += read.addr.eq(Mux(in_slot, Cat(upcoming[:7], slot, Const(3, 2)), upcoming))
        # Lengths and checksums of a reply; that of UDP is left out.
        size, total, rest = Signal(11), Signal(11), Signal(17)
        m.d.sync += [
            size.eq(count - (HEADERS - 8)),
            total.eq(count - ETHERNET),
            rest.eq(requests.base[:16] + requests.base[16] + total),
        ]
        checksum = ~(rest[:16] + rest[16])
        m.d.comb += sender.byte.eq(read.data)
        with m.If(is_reply), m.Switch(place):
            for first, field in ((16, total), (24, checksum[:16]), (38, size), (40, Const(0, 16))):
                for n, part in enumerate((field[8:], field[:8])):
                    with m.Case(first + n):
                        m.d.comb += sender.byte.eq(part)
