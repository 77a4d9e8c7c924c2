"""A host of USB at full speed at the pins of a simulated design, from chapters 7 to 9 of the specification 2.0."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tg2hdl_ir import SimulationError
from tg2hdl_lower import HostShape
from tg2hdl_top.ports.packet_driver import PacketDriver
from tg2hdl_top.ports.packets import END

__all__ = [
    "ACK",
    "DATA0",
    "DATA1",
    "IN",
    "NAK",
    "OUT",
    "SETUP",
    "SOF",
    "STALL",
    "UsbDriver",
    "UsbHost",
    "crc5",
    "crc16",
]

OUT, IN, SOF, SETUP = 0x1, 0x9, 0x5, 0xD
DATA0, DATA1 = 0x3, 0xB
ACK, NAK, STALL = 0x2, 0xA, 0xE
BIT = 4
"""Cycles of 48 MHz."""
_RESET = 400
"""Bits of a reset; a real host takes 10 ms."""
_SILENCE = 18
"""Bits after which no answer comes (7.1.19)."""
_ATTEMPTS = 3
"""At a transaction, as hosts make."""
_GAP = 3
"""Bits between packets of the host (7.1.18)."""
_ADDRESS, _DATA_ENDPOINT, _PACKET = 5, 4, 64
_SLOWEST = 1024
"""Most bits between two attempts to read; a frame has 12,000."""


def crc5(value: int) -> int:
    """The check of the 11 bits of a token, lowest bit sent first (8.3.5.1)."""
    return _crc((value >> n & 1 for n in range(11)), 0b10100, 5)


def crc16(data: bytes) -> int:
    """The check of the data of a packet (8.3.5.2)."""
    return _crc((byte >> n & 1 for byte in data for n in range(8)), 0xA001, 16)


def _crc(bits: Iterable[int], polynomial: int, width: int) -> int:
    ones = (1 << width) - 1
    check = ones
    for bit in bits:
        check = check >> 1 ^ (polynomial if (check ^ bit) & 1 else 0)
    return check ^ ones


class UsbHost:
    """Transactions with a device.

    Parameters
    ----------
    simulation : Simulation
        Of a design with the port ``usb``.
    bit : int
        Cycles of the simulation in a bit.

    Attributes
    ----------
    waits : set of int
        Cycles between the packets of the host and the answers.
    """

    def __init__(self, simulation: Any, bit: int = BIT) -> None:
        self.simulation, self.bit = simulation, bit
        self.waits = set[int]()
        self._address = 0
        self._toggles = {"in": DATA0, "out": DATA0}

    # Packets

    def send(self, pid: int, payload: bytes = b"", *, stuff: bool = True) -> None:
        """Send a packet.

        Parameters
        ----------
        pid : int
            Its identifier, 4 bits.
        payload : bytes
            With its check.
        stuff : bool
            Whether a 0 follows six ones, as the standard wants it.
        """
        ones, level, packet = 0, 1, bytes((pid | (pid ^ 15) << 4,)) + payload
        for bit in (*(0,) * 7, 1, *(byte >> n & 1 for byte in packet for n in range(8))):
            level ^= not bit
            self._drive(level, 1 - level)
            ones = ones + 1 if bit else 0
            if ones == 6 and stuff:
                ones, level = 0, 1 - level
                self._drive(level, 1 - level)
        for line in ((0, 0), (0, 0), (1, 0)):
            self._drive(*line)

    def receive(self) -> tuple[int, bytes] | None:
        """Identifier and payload of the packet that comes, with its check; None when none comes."""
        simulation, waited = self.simulation, 0
        while not (simulation.get("usb__oe") and not simulation.get("usb__dp_out")):
            if waited > _SILENCE * self.bit:
                return None
            simulation.step()
            waited += 1
        self.waits.add(waited)
        simulation.step(self.bit // 2)
        bits, level, ones = list[int](), 1, 0
        while True:
            dp, dn = simulation.get("usb__dp_out"), simulation.get("usb__dn_out")
            self._expect(simulation.get("usb__oe"), "the device lets go of the lines within a packet")
            simulation.set("usb__dp", dp)
            simulation.set("usb__dn", dn)
            simulation.step(self.bit)
            if not dp and not dn:
                break
            self._expect(dp != dn, "both lines are high")
            bit, level = int(dp == level), dp
            if ones == 6:
                self._expect(not bit, "seven ones follow each other")
                ones = 0
                continue
            ones = ones + 1 if bit else 0
            bits.append(bit)
        self._expect(ones < 6, "the last six bits are ones without a stuffed 0")
        for line in (0, 1):
            self._expect(
                simulation.get("usb__dp_out") == line, "a packet does not end with two bits of SE0 and a J"
            )
            self._expect(
                not simulation.get("usb__dn_out"), "a packet does not end with two bits of SE0 and a J"
            )
            simulation.step(self.bit)
        self.idle(1)
        self._expect(not simulation.get("usb__oe"), "the device keeps the lines after a packet")
        self._expect(bits[:8] == [0] * 7 + [1], "a packet does not begin with a synchronization")
        self._expect(len(bits) % 8 == 0, "a packet has no whole bytes")
        packet = bytes(sum(bits[n + k] << k for k in range(8)) for n in range(8, len(bits), 8))
        pid = packet[0] & 15
        self._expect(packet[0] >> 4 == pid ^ 15, "the identifier of a packet is damaged")
        return pid, packet[1:]

    def idle(self, bits: int) -> None:
        """Leave the lines alone."""
        self._drive(1, 0, bits)

    def _drive(self, dp: int, dn: int, bits: int = 1) -> None:
        self.simulation.set("usb__dp", dp)
        self.simulation.set("usb__dn", dn)
        self.simulation.step(bits * self.bit)

    def _expect(self, holds: Any, otherwise: str) -> None:
        if not holds:
            raise SimulationError(
                otherwise,
                where=f"{type(self).__name__}, cycle {self.simulation.cycles}",
                hint="please report this with the design: the simulated port is wrong",
            )

    # Transactions

    def token(self, pid: int, endpoint: int) -> None:
        """Address an endpoint.

        Parameters
        ----------
        pid : int
            `SETUP`, `OUT` or `IN`.
        endpoint : int
            Number, 4 bits.
        """
        self.idle(_GAP)
        self._expect(not self.simulation.get("usb__oe"), "the device drives the lines without being asked")
        value = self._address | endpoint << 7
        self.send(pid, (value | crc5(value) << 11).to_bytes(2, "little"))

    def write(self, endpoint: int, pid: int, data: bytes, token: int = OUT) -> int | None:
        """Send data; the handshake that comes, or None.

        Parameters
        ----------
        endpoint : int
            Number, 4 bits.
        pid : int
            `DATA0` or `DATA1`.
        data : bytes
            Without its check.
        token : int
            `OUT`, or `SETUP` before a control transfer.
        """
        self.token(token, endpoint)
        self.idle(_GAP)
        self.send(pid, data + crc16(data).to_bytes(2, "little"))
        answer = self.receive()
        return answer and answer[0]

    def read(self, endpoint: int, *, acknowledge: bool = True) -> tuple[int, bytes]:
        """Ask for data: identifier, and data without its check.

        Parameters
        ----------
        endpoint : int
            Number, 4 bits.
        acknowledge : bool
            Whether data is answered by `ACK`.
        """
        self.token(IN, endpoint)
        answer = self.receive()
        self._expect(answer, "no answer to IN")
        assert answer is not None
        pid, payload = answer
        if pid not in (DATA0, DATA1):
            return pid, b""
        data, check = payload[:-2], payload[-2:]
        self._expect(crc16(data).to_bytes(2, "little") == check, f"the data {payload.hex()} is damaged")
        if acknowledge:
            self.idle(_GAP)
            self.send(ACK)
        return pid, data

    def control(
        self, kind: int, request: int, value: int, length: int = 0, data: bytes = b""
    ) -> bytes | None:
        """A control transfer; the data that comes, or None when the device refuses it.

        Parameters
        ----------
        kind, request, value : int
            First fields of the setup packet: 8, 8 and 16 bits.
        length : int
            At most so many bytes in.
        data : bytes
            Out, in a transfer without bytes in.
        """
        fields = ((kind, 1), (request, 1), (value, 2), (0, 2), (length or len(data), 2))
        setup = b"".join(field.to_bytes(size, "little") for field, size in fields)
        attempts = (self.write(0, DATA0, setup, SETUP) for _ in range(_ATTEMPTS))
        self._expect(ACK in attempts, "the device does not acknowledge SETUP")
        found, toggle = b"", DATA1
        while length:
            pid, part = self._until_ready(0)
            if pid == STALL:
                return None
            self._expect(pid == toggle, "the data toggles do not alternate")
            found, toggle = found + part, toggle ^ DATA0 ^ DATA1
            if len(part) < _PACKET or len(found) >= length:
                break
        if data and self.write(0, DATA1, data) != ACK:
            return None
        if length:
            return found if self.write(0, DATA1, b"") == ACK else None
        pid, part = self._until_ready(0)
        return b"" if (pid, part) == (DATA1, b"") else None

    def _until_ready(self, endpoint: int) -> tuple[int, bytes]:
        for _ in range(100):
            pid, data = self.read(endpoint)
            if pid != NAK:
                return pid, data
        raise SimulationError("the device only says NAK", where=type(self).__name__)

    def reset(self) -> None:
        """Reset the bus: the device has the address 0 then."""
        self._drive(0, 0, _RESET)
        self._address = 0
        self.idle(_GAP)

    def configure(self) -> None:
        """Reset the device, give it an address and select its configuration, as the host of a serial device does."""
        self._expect(self.simulation.get("usb__pullup"), "the device does not show itself")
        self.reset()
        device = self.control(0x80, 6, 0x0100, 18)
        self._expect(device is not None and len(device) == 18, "no descriptor of the device")
        self._expect(self.control(0x00, 5, _ADDRESS) == b"", "the device takes no address")
        self._address = _ADDRESS
        start = self.control(0x80, 6, 0x0200, 9)
        self._expect(start is not None and len(start) == 9, "no descriptor of the configuration")
        assert start is not None
        self._expect(self.control(0x00, 9, start[5]) == b"", "the device takes no configuration")
        coding = (115_200).to_bytes(4, "little") + bytes((0, 0, 8))
        self._expect(self.control(0x21, 0x20, 0, data=coding) == b"", "the device takes no line coding")
        self._expect(self.control(0x21, 0x22, 3) == b"", "the device takes no control lines")
        self._toggles = {"in": DATA0, "out": DATA0}

    # The serial line

    def send_bytes(self, data: bytes) -> None:
        """Send bytes through the data endpoint; a packet that the device does not acknowledge is repeated."""
        for first in range(0, len(data), _PACKET):
            for _ in range(1000):
                if self.write(_DATA_ENDPOINT, self._toggles["out"], data[first : first + _PACKET]) == ACK:
                    break
            else:
                self._expect(False, "the device does not take data")
            self._toggles["out"] ^= DATA0 ^ DATA1

    def receive_bytes(self, limit: int) -> bytes:
        """The next bytes from the data endpoint; none when none come within a number of cycles."""
        end, pause = self.simulation.cycles + limit, 1
        while self.simulation.cycles < end:
            pid, data = self.read(_DATA_ENDPOINT)
            if pid == self._toggles["in"]:
                self._toggles["in"] ^= DATA0 ^ DATA1
                if data:
                    return data
            else:
                self.idle(pause)
                pause = min(2 * pause, _SLOWEST)
        return b""


class UsbDriver(PacketDriver):
    """Transactions of USB, bit by bit."""

    opening = 12_000

    def __init__(self, serves: HostShape, simulation: Any) -> None:
        super().__init__(serves, simulation)
        self._host = UsbHost(simulation)
        self._configured = False

    def send(self, data: bytes) -> None:
        """Send bytes, to a device that has been configured before."""
        if not self._configured:
            self._host.configure()
            self._configured = True
        self._host.send_bytes(data)

    def receive(self) -> bytes:
        """Read until a packet has ended."""
        limit, found = 2 * self.serves.longest_start + 100_000, b""
        while not found.endswith(bytes((END,))):
            some = self._host.receive_bytes(limit)
            if not some:
                raise SimulationError(
                    "no reply",
                    where=type(self).__name__,
                    hint="please report this with the design: the simulated port is wrong",
                )
            found += some
        return found
