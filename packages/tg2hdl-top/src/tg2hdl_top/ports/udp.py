"""The port ``udp``: requests and replies in packets, in datagrams over Ethernet."""

from __future__ import annotations

import struct
import zlib
from typing import Any

from amaranth import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from tg2hdl_ir import SimulationError
from tg2hdl_lower import HostShape
from tg2hdl_top.ports.packet_bridge import PacketBridge
from tg2hdl_top.ports.packet_driver import PacketDriver
from tg2hdl_top.ports.packet_port import LinkSettings, PacketPort
from tg2hdl_top.ports.packets import END
from tg2hdl_top.ports.rgmii import connect_rgmii
from tg2hdl_top.ports.udp_endpoint import ETHERNET_PINS, IP, PAYLOAD, UdpEndpoint
from tg2hdl_top.ports.udp_requests import ETHERNET, HEADERS, UDP_PORT

__all__ = ["UdpDriver", "UdpPort"]

_HOST_IP, _HOST_PORT = 0xC0A80101, 50000
_OWN, _HOST = bytes.fromhex("0254c0a80132"), bytes.fromhex("020000000001")


class UdpPort(PacketPort):
    """An Ethernet interface at one IP address, with the register map behind datagrams.

    It takes undamaged frames for its addresses only: ARP requests, echo requests of up to 81 bytes of data, and
    datagrams for port 21575, whose data is that of a serial line.  A reply goes to their sender.  A sender owns the
    design until it sends an empty datagram, or nothing for 2**`hold_bits` cycles; the datagrams of others are dropped.

    Members of `outside`: `eth` with GMII's `rxd`, `rx_dv`, `rx_er`, `txd` and `tx_en`, the strobes `rx_ce` and
    `tx_ce` of a slower interface, and `ip`, which a board ties to a constant.  The Ethernet address is 02:54 and those
    four bytes.
    """

    device = "udp:192.168.1.50"
    hold_bits = 28
    has_address = True
    has_ddr = True

    def __init__(self, serves: HostShape) -> None:
        super().__init__(serves, wiring.Signature({"eth": Out(ETHERNET_PINS)}))

    @classmethod
    def has_pins(cls, platform: Any) -> bool:
        """Whether the board has a gigabit PHY with its management."""
        if ("eth_rgmii", 0) not in platform.resources:
            return False
        return {"mdc", "mdio"} <= {pad.name for pad in platform.lookup("eth_rgmii", 0).ios}

    @classmethod
    def connect_pins(cls, m: Module, platform: Any, top: Any, settings: LinkSettings) -> None:
        """Connect the PHY, at 100 Mbit/s."""
        connect_rgmii(m, platform, top.eth)
        m.d.comb += top.eth.ip.eq(settings.ip)

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        m.submodules.bridge = bridge = PacketBridge(self.serves)
        wiring.connect(m, wiring.flipped(self.design), bridge.design)
        m.submodules.endpoint = endpoint = UdpEndpoint(self.hold_bits)
        wiring.connect(m, wiring.flipped(self.outside.eth), endpoint.eth)
        bridge.connect_link(m, endpoint)
        return m


class UdpDriver(PacketDriver):
    """Frame by frame.

    Attributes
    ----------
    patience : int
        Clock cycles besides those of runs after which a reply is missing.
    """

    patience = 100_000

    def __init__(self, serves: HostShape, simulation: Any) -> None:
        super().__init__(serves, simulation)
        self._frame = bytearray()  # as far as it has come
        self._frames: list[bytes] = []

    def send(self, data: bytes) -> None:
        """Send bytes in datagrams."""
        for first in range(0, len(data), PAYLOAD):
            self.transmit(_datagram(data[first : first + PAYLOAD]))

    def transmit(self, frame: bytes) -> None:
        """Send a frame, with its check; frames that come meanwhile are kept.

        Parameters
        ----------
        frame : bytes
            From the Ethernet address of the target on.
        """
        self.simulation.set("eth__rx_dv", 1)
        for byte in bytes(7 * (0x55,)) + b"\xd5" + frame:
            self.simulation.set("eth__rxd", byte)
            self._step()
        self.simulation.set("eth__rx_dv", 0)
        for _ in range(12):
            self._step()

    def receive(self) -> bytes:
        """Data of datagrams until a packet has ended."""
        found = b""
        while not found.endswith(bytes((END,))):
            frame = self.frame(2 * self.serves.longest_start + self.patience)
            if frame[23:24] == b"\x11":
                found += frame[HEADERS : ETHERNET + int.from_bytes(frame[16:18], "big")]
        return found

    def frame(self, limit: int) -> bytes:
        """The next frame from the design, without preamble and check.

        Parameters
        ----------
        limit : int
            Clock cycles that it may take until it begins.

        Raises
        ------
        SimulationError
            When none comes, or a damaged one.
        """
        if not self._frames and not self._frame:
            self.simulation.run_until("eth__tx_en", 1, limit=limit)
            self._frame.append(self.simulation.get("eth__txd"))
        while not self._frames:
            self._step()
        frame = self._frames.pop(0).partition(b"\xd5")[2]
        if zlib.crc32(frame[:-4]).to_bytes(4, "little") != frame[-4:]:
            raise SimulationError(
                f"the frame {frame.hex()} is damaged",
                where=type(self).__name__,
                hint="please report this with the design: the simulated port is wrong",
            )
        return frame[:-4]

    def _step(self) -> None:
        simulation = self.simulation
        simulation.step()
        if simulation.get("eth__tx_en"):
            self._frame.append(simulation.get("eth__txd"))
        elif self._frame:
            self._frames.append(bytes(self._frame))
            self._frame.clear()


def _datagram(data: bytes) -> bytes:
    """A frame with a datagram from the host, with its check."""
    size = 8 + len(data)
    head = struct.pack(">BBHHHBBHII", 0x45, 0, 20 + size, 0, 0x4000, 64, 17, 0, _HOST_IP, IP)
    total: int = sum(struct.unpack(">10H", head))
    check = 0xFFFF ^ ((total & 0xFFFF) + (total >> 16))
    head = head[:10] + check.to_bytes(2, "big") + head[12:]
    frame = _OWN + _HOST + b"\x08\x00" + head + struct.pack(">HHHH", _HOST_PORT, UDP_PORT, size, 0) + data
    frame += bytes(max(0, 60 - len(frame)))
    return frame + zlib.crc32(frame).to_bytes(4, "little")
