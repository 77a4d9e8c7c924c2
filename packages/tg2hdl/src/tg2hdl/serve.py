"""A simulated board: a socket whose bytes go through the link of a design in simulation."""

from __future__ import annotations

import hmac
import json
import os
import secrets
import select
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread

from tg2hdl.packet_line import PacketLine
from tg2hdl.simulated_line import SimulatedLine
from tg2hdl_backend.runner import expected_cycles
from tg2hdl_host.served import TOKEN_VARIABLE, token_file
from tg2hdl_ir import InputError
from tg2hdl_sim import Simulation, SimulationModel, open_simulation
from tg2hdl_top import Design, TopModule
from tg2hdl_top.ports import PortPlan, link_kinds, open_driver
from tg2hdl_top.ports.packet_driver import PacketDriver
from tg2hdl_top.ports.spi import SpiDriver

__all__ = ["open_line", "serve_folder"]

DIVISOR = 8
_MARGIN = 2000
_PATIENCE = 5.0
"""Seconds that a client has for its token."""


def open_line(
    design: Design,
    engine: str = "auto",
    *,
    divisor: int = DIVISOR,
) -> SimulatedLine:
    """Simulate a design behind a serial line, whose bits take `divisor` clock cycles.

    Parameters
    ----------
    design : Design
        With the port ``uart``.
    engine : str, optional
        Name of the engine, or ``auto``.
    divisor : int, optional
        Clock cycles of a bit.

    Raises
    ------
    InputError
        For a design without the port ``uart``.
    """
    served = _link_of(design, "uart").serves
    longest = expected_cycles(design) - served.cycles + served.longest_start
    patience = 2 * longest + _MARGIN * divisor // DIVISOR
    return SimulatedLine(_simulated(design, engine), divisor, patience)


def _simulated(design: Design, engine: str) -> Simulation:
    model = SimulationModel(TopModule(design, simulates_memory=True))
    return open_simulation(model, engine=engine, expected_cycles=1000 * expected_cycles(design))


def _link_of(design: Design, *kinds: str) -> PortPlan:
    found = next((port for port in design.ports if port.kind in kinds), None)
    if found is None:
        line = "serial line" if kinds == ("uart",) else "link to its host"
        raise InputError(f"design {design.program.name} has no {line}", hint='compile with ports=("uart",)')
    return found


def serve_folder(
    folder: Path,
    *,
    port: int = 0,
    engine: str = "auto",
    ready: Callable[[str], None],
) -> None:
    """Simulate the design of a folder until its host disconnects.

    Parameters
    ----------
    port : int
        TCP port on this machine; any free one when 0.
    ready : callable
        Called with the URL for the host.
    """
    path = folder / "design.json"
    if not path.is_file():
        raise InputError(f"there is no {path}", hint="give the folder that `tg2hdl build` wrote")
    design = Design.load(path)
    plan = _link_of(design, *link_kinds())
    link: SimulatedLine | PacketLine | SpiDriver
    if plan.kind == "uart":
        link = open_line(design, engine)  # both directions at once
    else:
        driver = open_driver(plan, _simulated(design, engine))
        assert isinstance(driver, PacketDriver), "that of a link"
        link = driver if isinstance(driver, SpiDriver) else PacketLine(driver)
    with socket.create_server(("127.0.0.1", port)) as server, _Door(server, folder) as door:
        scheme = "spi+socket" if isinstance(link, SpiDriver) else "socket"
        ready(f"{scheme}://127.0.0.1:{server.getsockname()[1]}")
        with door.admitted() as connection:
            if isinstance(link, SpiDriver):
                while data := connection.recv(4096):
                    connection.sendall(bytes(map(link.exchange, data)))
            else:
                _carry(connection, link)
    (link.simulation if isinstance(link, SpiDriver) else link).close()


class _Door:
    """Admits the first client that knows the token, and tells the others who that is; see `tg2hdl_host.served`.

    The token is in a file of the folder that only its owner can read, unless the client itself started this process.
    """

    def __init__(self, server: socket.socket, folder: Path) -> None:
        self._server = server
        self._first: SimpleQueue[socket.socket] = SimpleQueue()
        self._user: str | None = None
        self._lock = Lock()
        self._file: Path | None = None
        self._token = os.environ.get(TOKEN_VARIABLE) or secrets.token_hex(32)
        if TOKEN_VARIABLE not in os.environ:
            self._file = token_file(folder, server.getsockname()[1])
            try:
                self._file.unlink(missing_ok=True)
                with open(os.open(self._file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
                    file.write(self._token + "\n")
            except OSError as error:
                raise InputError(
                    f"cannot write the token {self._file}: {error.strerror}",
                    hint="serve a copy of the folder that you can write to, or connect('simulate:DIR')",
                ) from None

    def __enter__(self) -> _Door:
        Thread(target=self._listen, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.unlink(missing_ok=True)

    def admitted(self) -> socket.socket:
        """The connection of the first client with the token."""
        return self._first.get()

    def _listen(self) -> None:
        with suppress(OSError):  # the server is closed
            while True:
                connection, _ = self._server.accept()
                Thread(target=self._ask, args=(connection,), daemon=True).start()

    def _ask(self, connection: socket.socket) -> None:
        with suppress(OSError):
            connection.settimeout(_PATIENCE)
            refusal = self._judge(_line(connection))
            connection.sendall(json.dumps(refusal).encode() + b"\n")
            if not refusal:
                connection.settimeout(None)
                self._first.put(connection)
                return
        connection.close()

    def _judge(self, line: bytes) -> dict[str, str]:
        """Why a client is refused; empty when it is not."""
        try:
            said = json.loads(line)
            token, who = str(said["token"]), str(said["who"])[:200]
        except (ValueError, KeyError, TypeError, RecursionError):
            token, who = "", ""
        if not hmac.compare_digest(token.encode(), self._token.encode()):
            return {
                "error": "the simulation needs the token of its folder",
                "hint": "give the folder: connect(url, DIR)",
            }
        with self._lock:
            if self._user is not None:
                return {
                    "error": f"the simulation is in use by {self._user}",
                    "hint": "end that program, or serve the folder once more: each simulation has one host",
                }
            self._user = who
        return {}


def _line(connection: socket.socket) -> bytes:
    """The first line of a client; cut where that is not a line of JSON."""
    found = b""
    while not found.endswith(b"\n") and len(found) < 4096 and found[:1] in (b"", b"{"):
        part = connection.recv(4096)
        if not part:
            break
        found += part
    return found


def _carry(connection: socket.socket, line: SimulatedLine | PacketLine) -> None:
    idle = True
    while True:
        readable, _, _ = select.select([connection], [], [], None if idle else 0)
        if readable:
            data = connection.recv(4096)
            if not data:
                return
            line.write(data)
        answer = line.read()
        idle = not answer
        if answer:
            connection.sendall(answer)
