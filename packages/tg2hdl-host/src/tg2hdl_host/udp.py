"""Packets in datagrams: a socket to the IP address of a design."""

from __future__ import annotations

import re
import select
import socket
from collections.abc import Iterator
from contextlib import suppress

from tg2hdl_host.errors import ConnectionFailedError

__all__ = ["PORT", "UdpTransport"]

PORT = 21575
"""Of a design."""
_MOST = 1472
"""Bytes of data in a datagram that an Ethernet frame carries."""
_END = b"\xc0"


class UdpTransport:
    """Sends whole packets in a datagram where they fit; the design answers the sender.

    Parameters
    ----------
    url : str
        ``udp:ADDRESS`` or ``udp:ADDRESS:PORT`` with the IPv4 address, or the name, of a design.

    Raises
    ------
    ConnectionFailedError
        When there is no such address, or no way to it.
    """

    def __init__(self, url: str) -> None:
        self.name = url
        found = re.fullmatch(r"udp:(?://)?([^:/\s]+)(?::(\d{1,5}))?", url)
        if not found or not 0 < (port := int(found[2] or PORT)) < 1 << 16:
            raise ConnectionFailedError(
                f"{url!r} names no address",
                stage="link",
                hint=f"give udp:ADDRESS, e.g. udp:192.168.1.50; the port is {PORT} unless given after a colon",
            )
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self._socket.connect((found[1], port))  # others are not heard
            self._socket.setblocking(False)
        except OSError as error:
            self._socket.close()
            raise ConnectionFailedError(
                f"cannot open {url}: {error}",
                stage="link",
                hint="give this computer an address in the same network, e.g. 192.168.1.1/24",
            ) from None

    def write(self, data: bytes) -> None:
        """Send bytes."""
        for part in _datagrams(data):
            try:
                select.select([], [self._socket], [], 1.0)
                self._socket.send(part)
            except (ConnectionError, BlockingIOError):
                pass  # an answer to a datagram before, or a full queue: as a datagram that was lost
            except (OSError, ValueError) as error:
                raise self._gone(error) from None

    def read(self, timeout: float) -> bytes:
        """Receive the datagrams that have arrived; wait for the first one up to a time (s)."""
        found = b""
        try:
            if select.select([self._socket], [], [], timeout)[0]:
                with suppress(BlockingIOError, ConnectionError):
                    while True:
                        found += self._socket.recv(1 << 16)
        except (OSError, ValueError) as error:
            raise self._gone(error) from None
        return found

    def close(self) -> None:
        """Leave the design to others, with an empty datagram."""
        with suppress(OSError):
            self._socket.send(b"")
        self._socket.close()

    def _gone(self, error: Exception) -> ConnectionFailedError:
        return ConnectionFailedError(
            f"{self.name} is gone: {error}",
            stage="link",
            hint="check the network, then call device.reconnect()",
        )


def _datagrams(data: bytes) -> Iterator[bytes]:
    """Parts of at most `_MOST` bytes that end with a packet, if one ends there."""
    while data:
        end = len(data) if len(data) <= _MOST else data.rfind(_END, 0, _MOST) + 1
        yield data[: end or _MOST]
        data = data[end or _MOST :]
