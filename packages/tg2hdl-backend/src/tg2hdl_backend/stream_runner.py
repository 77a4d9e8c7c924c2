"""Runs that follow each other, on any engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy.typing as npt

from tg2hdl_backend.netlist_size import design_model
from tg2hdl_backend.runner import expected_cycles
from tg2hdl_ir.errors import SimulationError
from tg2hdl_sim import open_simulation
from tg2hdl_top import Design, TopModule
from tg2hdl_top.streaming import Streamed, StreamingHost

__all__ = ["stream_on"]


def stream_on(
    design: Design, inputs: Sequence[Mapping[str, npt.NDArray[Any]]], engine: str = "auto"
) -> Streamed:
    """Run inputs one after the other, each as soon as it is written and the design is ready.

    Raises
    ------
    SimulationError
        When the runs take more than twice the time of runs that do not overlap.
    """
    limit = 2 * len(inputs) * expected_cycles(design)
    host = StreamingHost(design, inputs)
    model = design_model(design, TopModule(design))
    with open_simulation(model, engine=engine, expected_cycles=limit) as simulation:
        for cycle in range(limit):
            host.drive(simulation, cycle)
            if host.is_done:
                return host.streamed()
            simulation.step()
    raise SimulationError(
        f"{len(host.dones)} of {len(inputs)} runs are done after {limit} cycles",
        hint="give a larger limit if the work takes longer",
    )
