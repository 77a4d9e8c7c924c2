"""Opens a device: a serial port, a socket, or a simulation of a folder that `tg2hdl build` wrote."""

from __future__ import annotations

import errno
import os
import secrets
import select
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import serial

from tg2hdl_host.arrays import read_arrays
from tg2hdl_host.description import read_files
from tg2hdl_host.device import Device
from tg2hdl_host.errors import ConnectionFailedError
from tg2hdl_host.link import Transport
from tg2hdl_host.served import TOKEN_VARIABLE, greet, token_of
from tg2hdl_host.spi import SPEED, open_spi
from tg2hdl_host.udp import UdpTransport

__all__ = ["SerialTransport", "connect"]

BAUD = 1_000_000
_SLICE = 0.02
"""Seconds that a port waits for a byte at a time where the system cannot wait for the port."""


class SerialTransport:
    """A serial port, or anything else that pyserial opens by a URL.

    Parameters
    ----------
    url : str
        Name of a port, such as ``/dev/ttyUSB0``, or a URL of pyserial.
    baud : int
        Bits per second.
    token : str, optional
        Sent first to `tg2hdl serve`, which lets only its own user connect.
    """

    def __init__(self, url: str, baud: int, token: str | None = None) -> None:
        self.name = url
        self._hint = "connect the cable, then call device.reconnect()"
        # A port that two programs read gives each of them a part of the answers.
        alone = {} if "://" in url else {"exclusive": True}
        try:
            self._port = serial.serial_for_url(url, baudrate=baud, timeout=0, do_not_open=True, **alone)
            try:
                self._port.open()
            except BaseException:
                self.close()
                raise
        except (OSError, ValueError) as error:
            taken = getattr(error, "errno", None) in (errno.EAGAIN, errno.EBUSY)
            raise ConnectionFailedError(
                f"another program has {url} open" if taken else f"cannot open {url}: {error}",
                stage="link",
                hint=f"end it, or close its device: `fuser {url}` names it"
                if taken
                else "check the name, the cable and the permissions",
            ) from None
        self._can_wait = _has_descriptor(self._port)
        if not self._can_wait:
            self._port.timeout = _SLICE
        # Linux then sets the latency timer of FTDI's bridges from 16 to 1 ms; others have no such mode.
        with suppress(AttributeError, NotImplementedError, ValueError, OSError):
            self._port.set_low_latency_mode(True)
        if token is not None:
            self._hint = "the simulation has ended: serve the folder again"
            try:
                greet(url, token, self.write, self.read)
            except BaseException:
                self.close()
                raise
        elif url.startswith("socket://"):
            self._hint = "if `tg2hdl serve DIR` runs there, give its folder: connect(url, DIR)"

    def write(self, data: bytes) -> None:
        """Send bytes."""
        self._guarded(lambda: self._port.write(data))

    def read(self, timeout: float) -> bytes:
        """Receive the bytes that have arrived; wait for the first one up to a time (s)."""
        # A timeout of the port is not changed: that configures it, which is a transfer to its bridge.
        if self._can_wait:
            ready = self._guarded(lambda: select.select([self._port], [], [], timeout)[0])
            return bytes(self._guarded(lambda: self._port.read(4096))) if ready else b""
        deadline = time.monotonic() + timeout
        while not (found := bytes(self._guarded(lambda: self._port.read(1)))):
            if time.monotonic() >= deadline:
                return b""
        return found + bytes(self._guarded(lambda: self._port.read(min(4096, self._port.in_waiting))))

    def close(self) -> None:
        """Close the port."""
        # pyserial does not close a socket whose other end is gone.
        connection = getattr(self._port, "_socket", None)
        self._port.close()
        if connection is not None:
            connection.close()

    def _guarded(self, action: Callable[[], Any]) -> Any:
        try:
            if not self._port.is_open:
                raise serial.SerialException("it is closed")
            return action()
        except (OSError, serial.SerialException) as error:
            raise ConnectionFailedError(
                f"{self.name} is gone: {error}", stage="link", hint=self._hint
            ) from None


def _has_descriptor(port: Any) -> bool:
    """Whether `select` takes a port, as on POSIX; a serial port of Windows has a handle."""
    try:
        port.fileno()
    except (AttributeError, OSError):  # io.UnsupportedOperation is one
        return False
    return True


def connect(
    device: str | PathLike[str],
    design: str | PathLike[str] | None = None,
    *,
    baud: int | None = None,
    timeout: float | None = None,
) -> Device:
    """Connect to a design on a board, or to a simulation of it.

    Parameters
    ----------
    device : str or path
        A serial port such as ``/dev/ttyUSB0``, a URL of pyserial such as ``socket://localhost:5000``, ``spi:0.0``
        for ``/dev/spidev0.0`` of Linux, ``udp:192.168.1.50`` for a design with the link ``udp`` (at port 21575), or
        ``simulate:DIR`` for the design in a folder that ``tg2hdl build`` wrote, behind its link.
    design : path, optional
        Such a folder, needed for the URL of ``tg2hdl serve DIR``: the device must hold this design, whose weights and
        memory image are loaded where they can be, and results have the model's structure.
    baud : int, optional
        Bits per second; those of the folder, else 1,000,000. SPI takes a tenth of the clock of the design.
    timeout : float, optional
        Seconds to wait for an answer; 1, and 60 for a simulation.

    Raises
    ------
    ConnectionFailedError
        When the device cannot be opened.
    LinkError
        When it does not answer.
    WrongDesignError
        When it holds another design than `design`.
    """
    try:
        device, design = fspath(device), None if design is None else fspath(design)
    except TypeError as error:
        raise ConnectionFailedError(
            f"a device and a design are named by text or a path: {error}",
            stage="link",
            hint="give e.g. '/dev/ttyUSB0' or 'simulate:DIR'",
        ) from None
    simulated = device.startswith("simulate:")
    given = device.removeprefix("simulate:") if simulated else design
    folder = None if given is None else Path(given)
    files = read_files(folder) if folder else None
    weights = None
    if folder and (folder / "weights.npz").is_file():
        weights = read_arrays(folder / "weights.npz")
    state = None
    if folder and (folder / "state.npz").is_file():
        state = read_arrays(folder / "state.npz")
    image = folder / "memory.img" if folder and (folder / "memory.img").is_file() else None
    token = secrets.token_hex(32) if simulated else None
    url, stop = _simulated(folder, token) if token and folder else (device, lambda: None)
    try:
        token = token or token_of(url, folder)
        timeout = timeout or (60.0 if token else 1.0)

        def opened() -> Transport:
            if url.startswith("spi"):
                return open_spi(url, baud or SPEED, token)
            if url.startswith("udp:"):
                return UdpTransport(url)
            return SerialTransport(url, baud or (files or {}).get("baud") or BAUD, token)

        return Device(
            opened(),
            reopen=None if simulated else opened,
            files=files,
            weights=weights,
            state=state,
            image=image,
            holds_image=simulated,
            timeout=timeout,
            on_close=stop,
        )
    except BaseException:
        stop()
        raise


def _simulated(folder: Path, token: str) -> tuple[str, Callable[[], None]]:
    """Start the simulation of a folder; returns its URL and a function that ends it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tg2hdl", "serve", str(folder)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {TOKEN_VARIABLE: token},
    )

    def stop() -> None:
        process.terminate()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()

    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(("socket://", "spi+socket://")):
            return line.strip(), stop
    stop()
    raise ConnectionFailedError(
        f"the simulation of {folder} does not start",
        stage="link",
        hint='it needs the compiler here: pip install "tg2hdl[sim]"',
    )
