"""The port ``spi``: requests and replies in packets on a serial peripheral interface."""

from __future__ import annotations

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from tg2hdl_ir import SimulationError
from tg2hdl_lower import HostShape
from tg2hdl_top.ports.packet_bridge import PacketBridge
from tg2hdl_top.ports.packet_driver import PacketDriver
from tg2hdl_top.ports.packet_port import PacketPort
from tg2hdl_top.ports.packets import END

__all__ = ["SpiDriver", "SpiPort"]

SIMULATED_HALF_BIT = 6
REPLIES = 2048
"""Bytes of replies that wait for the master."""


class SpiPort(PacketPort):
    """A slave of mode 0, most significant bit first, with the register map behind it.

    The clock is sampled: it is high and low for at least 5 cycles each, and `cs_n` for as long before the first edge.
    Where the design has nothing to say it sends END, and the master sends END to hear more: both are empty packets.  A
    byte that `cs_n` breaks off is not received.

    Members of `outside`: `spi` with `sclk`, `cs_n`, `mosi`, `miso`, and `miso_en`,
    which is high while the slave drives.
    """

    def __init__(self, serves: HostShape) -> None:
        line = wiring.Signature(
            {"sclk": Out(1), "cs_n": Out(1, init=1), "mosi": Out(1), "miso": In(1), "miso_en": In(1)}
        )
        super().__init__(serves, wiring.Signature({"spi": Out(line)}))

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        m.submodules.bridge = bridge = PacketBridge(self.serves, check_bits=4)
        wiring.connect(m, wiring.flipped(self.design), bridge.design)
        # A reply is sent when all of it is there: the master cannot wait in the middle.
        m.submodules.replies = replies = SyncFIFOBuffered(width=8, depth=REPLIES)
        whole, draining = Signal(range(REPLIES + 1)), Signal()
        m.d.comb += [
            replies.w_data.eq(bridge.byte_out),
            replies.w_en.eq(bridge.valid_out),
            bridge.ready_out.eq(replies.w_rdy),
        ]
        ends_in = replies.w_en & replies.w_rdy & (replies.w_data == END)
        ends_out = replies.r_en & replies.r_rdy & (replies.r_data == END)
        m.d.sync += whole.eq(whole + ends_in - ends_out)
        with m.If(ends_out):
            m.d.sync += draining.eq(0)
        with m.Elif(
            replies.level >= REPLIES // 2
        ):  # the longest reply; the rest of it comes faster than it is sent
            m.d.sync += draining.eq(1)
        self._shift(m, bridge, replies, (whole != 0) | draining)
        return m

    def _shift(self, m: Module, bridge: PacketBridge, replies: SyncFIFOBuffered, has_reply: Signal) -> None:
        line = self.outside.spi
        sclk, cs_n, mosi = Signal(), Signal(init=1), Signal()
        m.submodules.sclk = FFSynchronizer(line.sclk, sclk)
        m.submodules.cs_n = FFSynchronizer(line.cs_n, cs_n, init=1)
        m.submodules.mosi = FFSynchronizer(line.mosi, mosi)
        before, selected = Signal(), Signal()
        m.d.sync += [before.eq(sclk), selected.eq(~cs_n)]
        rises, falls, begins = Signal(), Signal(), Signal()
        m.d.comb += [
            rises.eq(selected & ~cs_n & sclk & ~before),
            falls.eq(selected & ~cs_n & ~sclk & before),
            begins.eq(~selected & ~cs_n),
        ]
        count, inward, outward, is_reply = Signal(3), Signal(8), Signal(8, init=END), Signal()
        m.d.comb += [
            bridge.byte_in.eq(inward),
            line.miso.eq(outward[7]),
            line.miso_en.eq(selected),
            replies.r_en.eq(rises & (count == 0) & is_reply),
        ]
        m.d.sync += bridge.valid_in.eq(rises & (count == 7))
        with m.If(rises):
            m.d.sync += [inward.eq(Cat(mosi, inward[:7])), count.eq(count + 1)]
        with m.Elif(begins | (falls & (count == 0))):
            here = replies.r_rdy & has_reply
            m.d.sync += [count.eq(0), is_reply.eq(here), outward.eq(Mux(here, replies.r_data, END))]
        with m.Elif(falls):
            m.d.sync += outward.eq(outward << 1)


class SpiDriver(PacketDriver):
    """A master, bit by bit."""

    def send(self, data: bytes) -> None:
        """Send bytes; bytes received meanwhile belong to no reply."""
        for byte in data:
            self.exchange(byte)

    def receive(self) -> bytes:
        """Send END until a reply has ended."""
        found = bytearray()
        limit = self.simulation.cycles + 2 * self.serves.longest_start + 100_000
        while self.simulation.cycles < limit:
            found.append(self.exchange(END))
            if found[-1] == END:
                if len(found) > 1:
                    return bytes(found)
                found.clear()
        raise SimulationError(
            "no reply",
            where=type(self).__name__,
            hint="please report this with the design: the simulated port is wrong",
        )

    def exchange(self, byte: int) -> int:
        """Send a byte and return the one that comes meanwhile."""
        simulation, found = self.simulation, 0
        simulation.set("spi__cs_n", 0)
        for n in reversed(range(8)):
            simulation.set("spi__mosi", (byte >> n) & 1)
            simulation.step(SIMULATED_HALF_BIT)
            found = found << 1 | simulation.get("spi__miso")
            simulation.set("spi__sclk", 1)
            simulation.step(SIMULATED_HALF_BIT)
            simulation.set("spi__sclk", 0)
        return found
