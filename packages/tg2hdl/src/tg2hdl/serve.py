"""A simulated board: a socket whose bytes go through the serial line of a design in simulation."""

from __future__ import annotations

import select
import socket
from collections.abc import Callable
from pathlib import Path

from tg2hdl.simulated_line import SimulatedLine
from tg2hdl_backend.runner import expected_cycles
from tg2hdl_ir.errors import InputError
from tg2hdl_sim import SimulationModel, open_simulation
from tg2hdl_top import Design, TopModule

__all__ = ["open_line", "serve_folder"]

DIVISOR = 8
_MARGIN = 2000


def open_line(
    design: Design, engine: str = "auto", progress: Callable[[str], None] | None = None
) -> SimulatedLine:
    """Simulate a design behind a serial line.

    Raises
    ------
    InputError
        For a design without the port ``uart``.
    """
    if not any(port.kind == "uart" for port in design.ports):
        raise InputError(
            f"design {design.program.name} has no serial line", hint='compile with ports=("uart",)'
        )
    cycles = expected_cycles(design)
    simulation = open_simulation(
        SimulationModel(TopModule(design, simulates_memory=True)),
        engine=engine,
        expected_cycles=1000 * cycles,
        progress=progress,
    )
    return SimulatedLine(simulation, DIVISOR, patience=2 * cycles + _MARGIN)


def serve_folder(
    folder: Path,
    *,
    port: int = 0,
    engine: str = "auto",
    ready: Callable[[str], None],
    progress: Callable[[str], None] | None = None,
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
    line = open_line(Design.load(path), engine, progress)
    with socket.create_server(("127.0.0.1", port)) as server:
        ready(f"socket://127.0.0.1:{server.getsockname()[1]}")
        connection, _ = server.accept()
        with connection:
            _carry(connection, line)
    line.close()


def _carry(connection: socket.socket, line: SimulatedLine) -> None:
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
