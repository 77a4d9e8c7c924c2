"""Requests and replies as bytes; see the register map's page for the format."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

__all__ = [
    "BUFFER_BYTES",
    "MAX_WORDS",
    "SEQUENCE_CODE",
    "STALE_CODE",
    "Decoder",
    "Reply",
    "Request",
    "read",
    "run",
    "synchronize",
    "write",
]

_END, _ESC, _ESC_END, _ESC_ESC = 0xC0, 0xDB, 0xDC, 0xDD
_WRITE, _READ, _SYNC, _RUN = 1, 2, 3, 4
MAX_WORDS = 255
BUFFER_BYTES = 2000
"""Requests that may wait in the device; it holds 2,047 bytes."""
SEQUENCE_CODE = 0x80
STALE_CODE = 5
"""Code of a start with another number than that of the next run: nothing was started."""


@dataclass(frozen=True)
class Request:
    """A request.

    Parameters
    ----------
    operation, address, count : int
        `count` words of 32 bits.
    data : bytes
        Of a write.
    stage : str
        Its owner, for errors.
    answer : int
        Words of the reply.
    """

    operation: int
    address: int
    count: int
    data: bytes
    stage: str
    answer: int = 0

    @property
    def size(self) -> int:
        """Bytes that it takes in the device."""
        return 12 + len(self.data)

    def encode(self, sequence: int) -> bytes:
        """Bytes for the link."""
        body = sequence.to_bytes(2, "little") + bytes((self.operation, self.count))
        body += self.address.to_bytes(4, "little") + self.data
        body += zlib.crc32(body).to_bytes(4, "little")
        marked = body.replace(b"\xdb", b"\xdb\xdd").replace(b"\xc0", b"\xdb\xdc")
        return marked + b"\xc0"

    def answered_by(self, reply: Reply) -> bool:
        """Whether a reply has the form of one to this request."""
        length = 0 if reply.code == SEQUENCE_CODE else 4 * self.answer
        return reply.operation == self.operation | 0x80 and len(reply.data) == length


@dataclass(frozen=True)
class Reply:
    """An undamaged reply."""

    sequence: int
    operation: int
    data: bytes
    code: int


def write(address: int, data: bytes, stage: str) -> list[Request]:
    """Requests that write bytes from an address on; zeros fill the last word.

    Parameters
    ----------
    address : int
        Of the first byte; a multiple of 4.
    data : bytes
    stage : str
        Named in errors.
    """
    data += bytes(-len(data) % 4)
    parts = [data[n : n + 4 * MAX_WORDS] for n in range(0, len(data), 4 * MAX_WORDS)]
    return [
        Request(_WRITE, address + 4 * MAX_WORDS * n, len(part) // 4, part, stage)
        for n, part in enumerate(parts)
    ]


def read(address: int, size: int, stage: str) -> list[Request]:
    """Requests that read at least `size` bytes.

    Parameters
    ----------
    address : int
        Of the first byte; a multiple of 4.
    size : int
        Bytes.
    stage : str
        Named in errors.
    """
    words = -(-size // 4)
    parts = ((first, min(MAX_WORDS, words - first)) for first in range(0, words, MAX_WORDS))
    return [Request(_READ, address + 4 * first, count, b"", stage, count) for first, count in parts]


def run(number: int, data: bytes, size: int) -> Request:
    """The request that writes the words of the input, starts the run with a number, and reads the output's bytes.

    Parameters
    ----------
    number : int
        Of the run; the device executes each number once.
    data : bytes
        Words of the input; a multiple of 4 bytes.
    size : int
        Bytes of the output.
    """
    return Request(_RUN, number, len(data) // 4, data, "run", -(-size // 4))


def synchronize() -> Request:
    """The request that sets the number of the next one."""
    return Request(_SYNC, 0, 0, b"", "link")


class Decoder:
    """Finds the undamaged replies in a stream of bytes.

    Attributes
    ----------
    damaged : int
        Replies that were dropped.
    """

    def __init__(self) -> None:
        self._kept = bytearray()
        self.damaged = 0

    def feed(self, data: bytes) -> list[Reply]:
        """Replies that end in these bytes."""
        found = []
        self._kept += data
        *packets, rest = bytes(self._kept).split(b"\xc0")
        self._kept = bytearray(rest)
        for packet in packets:
            reply = _decode(packet)
            if reply is not None:
                found.append(reply)
            elif packet:
                self.damaged += 1
        return found

    def drop(self) -> None:
        """Forget the part of a reply that has come."""
        self._kept.clear()


def _decode(packet: bytes) -> Reply | None:
    first, *rest = packet.split(b"\xdb")
    body = bytearray(first)
    for part in rest:
        if part[:1] not in (b"\xdc", b"\xdd"):
            return None
        body += (b"\xc0" if part[:1] == b"\xdc" else b"\xdb") + part[1:]
    check = zlib.crc32(body[:-4]).to_bytes(4, "little")
    if len(body) < 8 or body[-4:] != check:
        return None
    return Reply(int.from_bytes(body[:2], "little"), body[2], bytes(body[3:-5]), body[-5])
