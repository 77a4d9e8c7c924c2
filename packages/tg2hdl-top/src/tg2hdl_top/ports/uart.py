"""The port ``uart``: requests and replies in packets on a serial line."""

from __future__ import annotations

from typing import Any

from amaranth import Module
from amaranth.lib import io, wiring
from amaranth.lib.wiring import In, Out

from tg2hdl_lower import HostShape
from tg2hdl_top.ports.packet_bridge import PacketBridge
from tg2hdl_top.ports.packet_driver import PacketDriver
from tg2hdl_top.ports.packet_port import LinkSettings, PacketPort
from tg2hdl_top.ports.packets import END
from tg2hdl_top.ports.uart_line import UartReceiver, UartTransmitter

__all__ = ["UartDriver", "UartPort"]

SIMULATED_DIVISOR = 8


class UartPort(PacketPort):
    """A serial line with the register map behind it.

    Members of `outside`: `uart` with `rx`, `tx` and `divisor`, the clock cycles of a bit (4 at least), which a board
    ties to a constant.
    """

    has_rate = True

    def __init__(self, serves: HostShape) -> None:
        line = wiring.Signature(
            {"rx": Out(1, init=1), "tx": In(1), "divisor": Out(16, init=SIMULATED_DIVISOR)}
        )
        super().__init__(serves, wiring.Signature({"uart": Out(line)}))

    @classmethod
    def has_pins(cls, platform: Any) -> bool:
        """Whether the board has a bridge at a serial line."""
        return ("uart", 0) in platform.resources

    @classmethod
    def connect_pins(cls, m: Module, platform: Any, top: Any, settings: LinkSettings) -> None:
        """Connect receiver and sender."""
        pads = {pad.name: "-" for pad in platform.lookup("uart", 0).ios}
        line = platform.request("uart", 0, dir=pads)
        m.submodules.rx = rx = io.Buffer("i", line.rx)
        m.submodules.tx = tx = io.Buffer("o", line.tx)
        m.d.comb += [
            top.uart.rx.eq(rx.i),
            tx.o.eq(top.uart.tx),
            top.uart.divisor.eq(settings.divisor),
        ]

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        line = self.outside.uart
        m.submodules.receiver = receiver = UartReceiver()
        m.submodules.transmitter = transmitter = UartTransmitter()
        m.submodules.bridge = bridge = PacketBridge(self.serves, check_bits=1)
        wiring.connect(m, wiring.flipped(self.design), bridge.design)
        m.d.comb += [
            receiver.rx.eq(line.rx),
            receiver.divisor.eq(line.divisor),
            line.tx.eq(transmitter.tx),
            transmitter.divisor.eq(line.divisor),
            bridge.byte_in.eq(receiver.byte),
            bridge.valid_in.eq(receiver.valid),
            bridge.broken.eq(receiver.broken),
            transmitter.byte.eq(bridge.byte_out),
            transmitter.valid.eq(bridge.valid_out),
            bridge.ready_out.eq(transmitter.ready),
        ]
        return m


class UartDriver(PacketDriver):
    """Bit by bit."""

    def send(self, data: bytes) -> None:
        """Send bytes with their start and stop bits."""
        for byte in data:
            for bit in (0, *((byte >> n) & 1 for n in range(8)), 1):
                self.simulation.set("uart__rx", bit)
                self.simulation.step(SIMULATED_DIVISOR)

    def receive(self) -> bytes:
        """Sample each bit in its middle."""
        limit, found = 2 * self.serves.cycles + 100_000, bytearray()
        while True:
            self.simulation.run_until("uart__tx", 0, limit=limit)
            self.simulation.step(SIMULATED_DIVISOR // 2)
            byte = 0
            for n in range(8):
                self.simulation.step(SIMULATED_DIVISOR)
                byte |= self.simulation.get("uart__tx") << n
            self.simulation.step(SIMULATED_DIVISOR)
            found.append(byte)
            if byte == END:
                return bytes(found)
