"""Drives a design through packets, in a simulation."""

from __future__ import annotations

import zlib
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from tg2hdl_ir import SimulationError
from tg2hdl_lower import HostShape
from tg2hdl_top.ports.map_driver import MapDriver
from tg2hdl_top.ports.packets import END, ESC, ESC_END, ESC_ESC, OP_READ, OP_SYNC, OP_WRITE

__all__ = ["PacketDriver"]


class PacketDriver(MapDriver):
    """One request after the other; each link brings how bytes are sent and a reply is received."""

    def __init__(self, serves: HostShape, simulation: Any) -> None:
        super().__init__(serves, simulation)
        self._sequence = -1

    def store(self, address: int, words: Sequence[int]) -> int:
        """Write in requests of at most 255 words."""
        for first in range(0, len(words), 255):
            some = np.array(words[first : first + 255], "<u4")
            reply = self._ask(OP_WRITE, address + 4 * first, len(some), some.tobytes())
            if reply[-1]:
                return reply[-1]
        return 0

    def fetch(self, address: int, count: int) -> tuple[list[int], int]:
        """Read in requests of at most 255 words."""
        found: list[int] = []
        for first in range(0, count, 255):
            some = min(255, count - first)
            reply = self._ask(OP_READ, address + 4 * first, some)
            if reply[-1]:
                return found, reply[-1]
            found += np.frombuffer(reply[:-1], "<u4").tolist()
        return found, 0

    def _ask(self, operation: int, address: int, count: int, data: bytes = b"") -> bytes:
        if self._sequence < 0:
            self._sequence = 0
            self._ask(OP_SYNC, 0, 0)
        sequence, self._sequence = self._sequence, (self._sequence + 1) & 0xFFFF
        head = sequence.to_bytes(2, "little") + bytes((operation, count))
        body = head + address.to_bytes(4, "little") + data
        body += zlib.crc32(body).to_bytes(4, "little")
        marked = body.replace(bytes((ESC,)), bytes((ESC, ESC_ESC))).replace(
            bytes((END,)), bytes((ESC, ESC_END))
        )
        self.send(marked + bytes((END,)))
        *_, packet = filter(None, self.receive().split(bytes((END,))))
        reply = packet.replace(bytes((ESC, ESC_END)), bytes((END,))).replace(
            bytes((ESC, ESC_ESC)), bytes((ESC,))
        )
        if zlib.crc32(reply[:-4]).to_bytes(4, "little") != reply[-4:] or reply[:2] != body[:2]:
            raise SimulationError(
                f"the reply {reply.hex()} is damaged",
                where=type(self).__name__,
                hint="please report this with the design: the simulated port is wrong",
            )
        return reply[3:-4]

    @abstractmethod
    def send(self, data: bytes) -> None:
        """Send bytes."""

    @abstractmethod
    def receive(self) -> bytes:
        """Receive until a packet has ended."""
