"""Packets on a serial peripheral interface: the host clocks bytes out and in at once."""

from __future__ import annotations

import importlib
import importlib.util
import re
import socket
import time
from collections.abc import Callable
from typing import Any

from tg2hdl_host.errors import ConnectionFailedError
from tg2hdl_host.served import greet

__all__ = ["SpiTransport", "open_spi"]

SPEED = 1_000_000
"""Bits per second unless given; a design takes a tenth of its clock."""
_IDLE = b"\xc0"
_FEWEST, _MOST = 16, 512
"""Idle bytes that are sent at once in order to hear more."""


class SpiTransport:
    """Sends and receives by exchanges; both sides say `END` where they have nothing to say.

    Parameters
    ----------
    exchange : callable
        ``(data: bytes) -> bytes``, as many as were sent.
    """

    def __init__(self, name: str, exchange: Callable[[bytes], bytes], close: Callable[[], None]) -> None:
        self.name, self._exchange, self._close = name, exchange, close
        self._heard = b""
        self._in_reply = False  # the bytes read last end in the middle of a reply

    def write(self, data: bytes) -> None:
        """Send bytes, and keep those that arrive meanwhile."""
        self._heard += self._guarded(data)

    def read(self, timeout: float) -> bytes:
        """The bytes that have come; sends idle bytes until some do, as long as this (seconds)."""
        deadline, count = time.monotonic() + timeout, _FEWEST
        while not self._heard.strip(_IDLE):
            if self._in_reply and self._heard:  # the end of a reply looks idle
                break
            if time.monotonic() > deadline:
                return b""
            self._heard = self._guarded(_IDLE * count)
            count = min(2 * count, _MOST)
        heard, self._heard = self._heard, b""
        self._in_reply = not heard.endswith(_IDLE)
        return heard

    def close(self) -> None:
        """Release the device."""
        self._close()

    def _guarded(self, data: bytes) -> bytes:
        try:
            return self._exchange(data)
        except OSError as error:
            raise ConnectionFailedError(
                f"{self.name} is gone: {error}", stage="link", hint="connect again"
            ) from None


def open_spi(url: str, speed: int, token: str | None = None) -> SpiTransport:
    """Open ``spi:BUS.CHIP``, a device of Linux by spidev, or the ``spi+socket://HOST:PORT`` of a simulation.

    Parameters
    ----------
    url : str
    speed : int
        Clock in Hz; a simulation ignores it.
    token : str, optional
        Of the simulation, see `token_of`.

    Raises
    ------
    ConnectionFailedError
        When it cannot be opened.
    """
    remote = re.fullmatch(r"spi\+socket://([^:/]+):(\d+)", url)
    local = re.fullmatch(r"spi:(?:/dev/spidev)?(\d+)\.(\d+)", url)
    try:
        if remote:
            return _simulated(url, remote[1], int(remote[2]), token)
        if local:
            return _spidev(url, int(local[1]), int(local[2]), speed)
    except OSError as error:
        raise ConnectionFailedError(
            f"cannot open {url}: {error}",
            stage="link",
            hint="check that SPI is enabled (on a Raspberry Pi: raspi-config), its numbers, and the permissions",
        ) from None
    raise ConnectionFailedError(
        f"{url!r} names no SPI device",
        stage="link",
        hint="give spi:BUS.CHIP, e.g. spi:0.0 for /dev/spidev0.0",
    )


def _spidev(url: str, bus: int, chip: int, speed: int) -> SpiTransport:
    if importlib.util.find_spec("spidev") is None:
        raise ConnectionFailedError(
            "the Python package spidev is not installed",
            stage="link",
            hint='pip install "tg2hdl-host[spi]" (Linux only)',
        )
    device: Any = importlib.import_module("spidev").SpiDev()
    device.open(bus, chip)
    device.max_speed_hz, device.mode = speed, 0

    def exchange(data: bytes) -> bytes:
        # Linux takes 4,096 bytes at once unless it is configured otherwise.
        parts = (data[n : n + 4096] for n in range(0, len(data), 4096))
        return b"".join(bytes(device.xfer2(list(part))) for part in parts)

    return SpiTransport(url, exchange, device.close)


def _simulated(url: str, host: str, port: int, token: str | None) -> SpiTransport:
    connection = socket.create_connection((host, port))

    def receive(seconds: float) -> bytes:
        connection.settimeout(max(0.01, seconds))
        return connection.recv(4096)

    if token is not None:
        try:
            greet(url, token, connection.sendall, receive)
        except BaseException:
            connection.close()
            raise
        connection.settimeout(None)

    def exchange(data: bytes) -> bytes:
        connection.sendall(data)
        found = b""
        while len(found) < len(data):
            part = connection.recv(len(data) - len(found))
            if not part:
                raise ConnectionResetError(
                    "the simulation has ended"
                    if token
                    else "`tg2hdl serve DIR` needs its folder: connect(url, DIR)"
                )
            found += part
        return found

    return SpiTransport(url, exchange, connection.close)
