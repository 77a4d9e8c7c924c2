"""Test doubles of the way between a host and a board."""

from __future__ import annotations

import time
from collections.abc import Callable

from tg2hdl_host.link import Transport

__all__ = ["UsbBridge"]


class UsbBridge:
    """A transport behind the USB bridge of a board, as FTDI's chips work.

    The bridge sends a packet of 62 bytes to the host when it is full, and one that is not full when the latency timer
    ends.  The timer starts with the first byte of a packet, which is the slowest case; the time of bytes on the line
    and of the bus is left out.

    Parameters
    ----------
    line : Transport
        The side of the board, whose answers are complete when `write` returns.
    latency : float
        Latency timer in seconds: 0.016 by default on most systems, 0.001 in the low-latency mode of Linux.
    clock, sleep : callable
        Seconds, and a function that waits for some.

    Attributes
    ----------
    waits : int
        Packets that the latency timer has sent.
    """

    PACKET = 62
    """Bytes of a packet: 64 with the two of the modem status."""

    def __init__(
        self,
        line: Transport,
        latency: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.name, self.waits = line.name, 0
        self._line, self._latency, self._clock, self._sleep = line, latency, clock, sleep
        self._held, self._ends = b"", 0.0  # an incomplete packet, and when the timer sends it

    def write(self, data: bytes) -> None:
        """Send bytes to the board."""
        self._line.write(data)
        while answer := self._line.read(0):
            if not self._held:
                self._ends = self._clock() + self._latency
            self._held += answer

    def read(self, timeout: float) -> bytes:
        """Full packets at once; another one after the latency timer, if that ends within the timeout (seconds)."""
        full = len(self._held) // self.PACKET * self.PACKET
        if full:
            found, self._held = self._held[:full], self._held[full:]
            self._ends = self._clock() + self._latency
            return found
        left = self._ends - self._clock() if self._held else timeout
        if (wait := min(left, timeout)) > 0:
            self._sleep(wait)
        if not self._held or left > timeout:
            return b""
        found, self._held = self._held, b""
        self.waits += 1
        return found

    def close(self) -> None:
        """Close the line."""
        self._line.close()
