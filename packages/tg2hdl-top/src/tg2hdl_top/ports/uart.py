"""The port ``uart``: requests and replies in packets on a serial line."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from amaranth import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tg2hdl_ir.errors import SimulationError
from tg2hdl_lower.memory.host import HostShape
from tg2hdl_top.ports.base import HostPort
from tg2hdl_top.ports.map_driver import MapDriver
from tg2hdl_top.ports.packet_bridge import PacketBridge
from tg2hdl_top.ports.packets import END, ESC, ESC_END, ESC_ESC, OP_READ, OP_SYNC, OP_WRITE
from tg2hdl_top.ports.uart_line import UartReceiver, UartTransmitter

__all__ = ["UartDriver", "UartPort"]

SIMULATED_DIVISOR = 8


class UartPort(HostPort):
    """A serial line with the register map behind it.

    Members of `outside`: `uart` with `rx`, `tx` and `divisor`, the clock cycles of a bit (4 at least), which a board
    ties to a constant.
    """

    by_element = True
    needs_identity = True

    def __init__(self, serves: HostShape) -> None:
        line = wiring.Signature(
            {"rx": Out(1, init=1), "tx": In(1), "divisor": Out(16, init=SIMULATED_DIVISOR)}
        )
        super().__init__(serves, wiring.Signature({"uart": Out(line)}))

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        line = self.outside.uart
        m.submodules.receiver = receiver = UartReceiver()
        m.submodules.transmitter = transmitter = UartTransmitter()
        m.submodules.bridge = bridge = PacketBridge(self.serves)
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


class UartDriver(MapDriver):
    """One request after the other, bit by bit."""

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
        self._send(marked + bytes((END,)))
        reply = self._receive()
        if zlib.crc32(reply[:-4]).to_bytes(4, "little") != reply[-4:] or reply[:2] != body[:2]:
            raise SimulationError(f"the reply {reply.hex()} is damaged", where=type(self).__name__)
        return reply[3:-4]

    def _send(self, data: bytes) -> None:
        for byte in data:
            for bit in (0, *((byte >> n) & 1 for n in range(8)), 1):
                self.simulation.set("uart__rx", bit)
                self.simulation.step(SIMULATED_DIVISOR)

    def _receive(self) -> bytes:
        limit, found, escaped = 2 * self.serves.cycles + 100_000, bytearray(), False
        while True:
            self.simulation.run_until("uart__tx", 0, limit=limit)
            self.simulation.step(SIMULATED_DIVISOR // 2)
            byte = 0
            for n in range(8):
                self.simulation.step(SIMULATED_DIVISOR)
                byte |= self.simulation.get("uart__tx") << n
            self.simulation.step(SIMULATED_DIVISOR)
            if byte == END:
                return bytes(found)
            if byte == ESC:
                escaped = True
                continue
            found.append({ESC_END: END, ESC_ESC: ESC}[byte] if escaped else byte)
            escaped = False
