"""The bytes of a link to a simulated design, through the driver of its host port."""

from __future__ import annotations

from tg2hdl_ir import SimulationError
from tg2hdl_top.ports.packet_driver import PacketDriver
from tg2hdl_top.ports.packets import END

__all__ = ["PacketCounter", "PacketLine"]


class PacketCounter:
    """Counts the packets in a stream of bytes."""

    def __init__(self) -> None:
        self._begun = False

    def ended(self, data: bytes) -> int:
        """Packets that end in these bytes.

        Parameters
        ----------
        data : bytes
            The next ones of the stream.
        """
        count = 0
        for byte in data:
            count += self._begun and byte == END
            self._begun = byte != END
        return count


class PacketLine:
    """Sends and receives bytes with the driver of a link, one direction at a time.

    Parameters
    ----------
    driver : PacketDriver
        Of a design in simulation.
    """

    def __init__(self, driver: PacketDriver) -> None:
        self.name = "simulation"
        self._driver = driver
        self._open = 0  # requests without a reply
        self._sent, self._got = PacketCounter(), PacketCounter()

    def write(self, data: bytes) -> None:
        """Send bytes."""
        self._open += self._sent.ended(data)
        self._driver.send(data)

    def read(self, timeout: float = 0.0) -> bytes:
        """Receive until a packet has ended; nothing when none is to be expected."""
        if self._open <= 0:
            return b""
        try:
            data = self._driver.receive()
        except SimulationError:  # the request was lost or damaged
            self._open = 0
            return b""
        self._open = max(0, self._open - self._got.ended(data))
        return data

    def close(self) -> None:
        """End the simulation."""
        self._driver.simulation.close()
