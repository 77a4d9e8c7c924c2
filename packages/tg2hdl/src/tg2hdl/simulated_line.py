"""A serial line to a simulated design, bit by bit in both directions at once."""

from __future__ import annotations

from collections import deque
from typing import Any

from tg2hdl.packet_line import PacketCounter
from tg2hdl_ir import SimulationError

__all__ = ["SimulatedLine"]

_AT_ONCE = 512
"""Received bytes after which `read` returns although more are coming."""


class SimulatedLine:
    """Sends and receives bytes through the members of the port ``uart``.

    Parameters
    ----------
    simulation : Simulation
        Of a design with this port.
    divisor : int
        Clock cycles of a bit: an even number of at least 8.
    patience : int
        Clock cycles without a byte in either direction after which nothing more is expected, although a request is
        open.
    """

    def __init__(self, simulation: Any, divisor: int, patience: int) -> None:
        self.name = "simulation"
        self._simulation, self._half_bit, self._patience = simulation, divisor // 2, patience
        self._bits: deque[int] = deque()
        self._in_bit = False  # half of a bit has been sent
        self._received = bytearray()
        self._byte, self._left = 0, 0  # bits of the byte that is received, and those that are missing
        self._wait = 0  # half bits until the next one is sampled
        self._open = 0  # requests without a reply
        self._sent, self._got = PacketCounter(), PacketCounter()
        simulation.set("uart__divisor", divisor)
        simulation.set("uart__rx", 1)

    def write(self, data: bytes) -> None:
        """Send bytes, after those that wait."""
        self._open += self._sent.ended(data)
        for byte in data:
            self._bits.extend((0, *((byte >> n) & 1 for n in range(8)), 1))

    def read(self, timeout: float = 0.0) -> bytes:
        """Advance until bytes have come and none is in flight; nothing when none is to be expected."""
        while self._bits or self._in_bit or self._left:
            self._advance()
            if len(self._received) >= _AT_ONCE:
                break
        if not self._received:
            if self._open <= 0:
                return b""
            try:
                self._simulation.run_until("uart__tx", 0, limit=self._patience)
            except SimulationError:
                self._open = 0
                return b""
            self._begin_byte()
            while not self._received:
                self._advance()
        data = bytes(self._received)
        self._received.clear()
        self._open = max(0, self._open - self._got.ended(data))
        return data

    def close(self) -> None:
        """End the simulation."""
        self._simulation.close()

    def _advance(self) -> None:
        """Send and receive for half a bit."""
        if self._in_bit:
            self._in_bit = False
        elif self._bits:
            self._simulation.set("uart__rx", self._bits.popleft())
            self._in_bit = True
        self._simulation.step(self._half_bit)
        self._wait -= 1
        if self._left and self._wait:
            return
        level = self._simulation.get("uart__tx")
        if not self._left:
            if level == 0:
                self._begin_byte()
            return
        self._left, self._wait = self._left - 1, 2
        if self._left:
            self._byte = self._byte >> 1 | level << 7
        else:
            self._received.append(self._byte)

    def _begin_byte(self) -> None:
        self._left, self._wait = 9, 3
