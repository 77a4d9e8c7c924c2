"""Runs and packets that follow each other, on any engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy.typing as npt

from tg2hdl_backend.netlist_size import design_model
from tg2hdl_backend.runner import expected_cycles
from tg2hdl_ir import SimulationError
from tg2hdl_sim import open_simulation
from tg2hdl_top import Design, TopModule
from tg2hdl_top.packet_streaming import PacketHost, Packets
from tg2hdl_top.streaming import Host, Streamed, StreamingHost

__all__ = ["packets_on", "stream_on"]


def stream_on(
    design: Design, inputs: Sequence[Mapping[str, npt.NDArray[Any]]], engine: str = "auto"
) -> Streamed:
    """Run inputs one after the other, each as soon as it is written and the design is ready.

    Parameters
    ----------
    design : Design
    inputs : sequence of mapping of str to ndarray
        Flat arrays by name, for each run.
    engine : str, default "auto"
        Name, or ``"auto"``.

    Raises
    ------
    SimulationError
        When the runs take more than twice the time of runs that do not overlap.
    """
    host = StreamingHost(design, inputs)
    _run(design, host, engine, 2 * len(inputs) * expected_cycles(design))
    return host.streamed()


def packets_on(
    design: Design,
    inputs: Sequence[Mapping[str, npt.NDArray[Any]]],
    engine: str = "auto",
    *,
    offers: Callable[[int], bool] = lambda cycle: True,
    takes: Callable[[int], bool] = lambda cycle: True,
    limit: int,
) -> Packets:
    """Send packets of AXI4-Stream one after the other, and take their results.

    Parameters
    ----------
    design : Design
        Its first host port is ``axi-stream``.
    offers, takes : callable
        Whether an element is offered, and one is taken, in a cycle; in each unless given.
    limit : int
        Clock cycles after which the design counts as hanging.

    Raises
    ------
    SimulationError
        When the results take longer.
    """
    host = PacketHost(design, inputs, offers, takes)
    _run(design, host, engine, limit)
    return host.packets()


def _run(design: Design, host: Host, engine: str, limit: int) -> None:
    model = design_model(design, TopModule(design))
    with open_simulation(model, engine=engine, expected_cycles=limit) as simulation:
        for cycle in range(limit):
            host.drive(simulation, cycle)
            if host.is_done:
                return
            simulation.step()
    raise SimulationError(
        f"{len(host.outputs)} of {len(host.inputs)} runs are done after {limit} cycles",
        hint="give a larger limit if the work takes longer",
    )
