"""A test of the serial line by itself: all bytes sent must come back."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

from tg2hdl_host.errors import LinkError
from tg2hdl_host.link import Transport
from tg2hdl_host.protocol import Decoder, synchronize

__all__ = ["Loopback", "check_loopback"]

_PIECE = 256
"""Bytes in flight: bridges hold 512."""


@dataclass(frozen=True)
class Loopback:
    """Answer from the other end of a line.

    Parameters
    ----------
    is_design : bool
        Whether a design answers; else the bytes come back from the loop-back bitstream.
    count : int
        Bytes that came back unchanged.
    """

    is_design: bool
    count: int


def check_loopback(transport: Transport, *, count: int = 4096, timeout: float = 1.0) -> Loopback:
    """Send random bytes to the loop-back bitstream, and compare the answer; a design is recognized.

    Parameters
    ----------
    transport : Transport
    count : int
        Bytes.
    timeout : float
        Seconds without a byte after which no more is expected.

    Raises
    ------
    LinkError
        When nothing comes back, or something else.
    """
    request = b"\xc0\xc0" + synchronize().encode(random.randrange(1 << 16))
    found = _answer(transport, request, timeout)
    replies = Decoder().feed(found)
    if any(reply.operation == synchronize().operation | 0x80 for reply in replies):
        return Loopback(is_design=True, count=0)
    if not found:
        raise LinkError(
            f"nothing comes back from {transport.name}",
            stage="loop-back",
            hint="load the loop-back bitstream, which `tg2hdl loopback --board NAME -o DIR` makes; if it is loaded, "
            "the name of the port, the cable or the power is wrong",
        )
    wrong = sent = 0
    while sent < count and not wrong:
        piece = random.randbytes(min(_PIECE, count - sent))
        found = _answer(transport, piece, timeout)
        wrong = sum(a != b for a, b in zip(piece, found, strict=False)) + abs(len(piece) - len(found))
        sent += len(piece)
    if wrong:
        raise LinkError(
            f"{wrong} of {len(piece)} bytes come back changed from {transport.name}",
            stage="loop-back",
            hint="take a slower rate with --baud, another cable, or a port of the computer instead of a hub",
        )
    return Loopback(is_design=False, count=sent)


def _answer(transport: Transport, data: bytes, timeout: float) -> bytes:
    """As many bytes as were sent, or those that come."""
    transport.write(data)
    found, deadline = b"", time.monotonic() + timeout
    while len(found) < len(data) and (left := deadline - time.monotonic()) > 0:
        more = transport.read(left)
        if more:
            found, deadline = found + more, time.monotonic() + timeout
    return found
