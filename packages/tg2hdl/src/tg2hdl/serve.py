"""A simulated board: a socket whose bytes go through the serial line or SPI of a design in simulation."""

from __future__ import annotations

import select
import socket
from collections.abc import Callable
from pathlib import Path

from tg2hdl.simulated_line import SimulatedLine
from tg2hdl_backend.runner import expected_cycles
from tg2hdl_ir.errors import InputError
from tg2hdl_sim import Simulation, SimulationModel, open_simulation
from tg2hdl_top import Design, TopModule
from tg2hdl_top.ports import PortPlan
from tg2hdl_top.ports.spi import SpiDriver

__all__ = ["open_line", "serve_folder"]

DIVISOR = 8
_MARGIN = 2000


def open_line(
    design: Design,
    engine: str = "auto",
    progress: Callable[[str], None] | None = None,
    *,
    divisor: int = DIVISOR,
) -> SimulatedLine:
    """Simulate a design behind a serial line, whose bits take `divisor` clock cycles.

    Raises
    ------
    InputError
        For a design without the port ``uart``.
    """
    _link_of(design, "uart")
    patience = 2 * expected_cycles(design) + _MARGIN * divisor // DIVISOR
    return SimulatedLine(_simulated(design, engine, progress), divisor, patience)


def _simulated(design: Design, engine: str, progress: Callable[[str], None] | None) -> Simulation:
    model = SimulationModel(TopModule(design, simulates_memory=True))
    return open_simulation(
        model, engine=engine, expected_cycles=1000 * expected_cycles(design), progress=progress
    )


def _link_of(design: Design, *kinds: str) -> PortPlan:
    found = next((port for port in design.ports if port.kind in kinds), None)
    if found is None:
        raise InputError(
            f"design {design.program.name} has no serial line", hint='compile with ports=("uart",)'
        )
    return found


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
    design = Design.load(path)
    port_plan = _link_of(design, "uart", "spi")
    link: SimulatedLine | SpiDriver
    if port_plan.kind == "spi":
        link = SpiDriver(port_plan.serves, _simulated(design, engine, progress))
    else:
        link = open_line(design, engine, progress)
    with socket.create_server(("127.0.0.1", port)) as server:
        scheme = "spi+socket" if isinstance(link, SpiDriver) else "socket"
        ready(f"{scheme}://127.0.0.1:{server.getsockname()[1]}")
        connection, _ = server.accept()
        with connection:
            if isinstance(link, SpiDriver):
                while data := connection.recv(4096):
                    connection.sendall(bytes(map(link.exchange, data)))
            else:
                _carry(connection, link)
    (link.simulation if isinstance(link, SpiDriver) else link).close()


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
