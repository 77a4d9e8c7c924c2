"""Parts of a model one after the other, joined by AXI4-Stream, in one simulation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from amaranth import Module
from amaranth.lib import wiring

from tg2hdl_ir import SimulationError
from tg2hdl_lower import Component, HostBuffer
from tg2hdl_sim import SimulationModel, open_simulation
from tg2hdl_top import Design, TopModule
from tg2hdl_top.ports.axi_stream import streamed

__all__ = ["Chain", "StreamedRuns", "packets", "simulate_chain"]

_SIGNALS = ("tdata", "tvalid", "tlast")


class Chain(Component):
    """Designs in a row: the packets of results of each are the packets of inputs of the next.

    Parameters
    ----------
    parts : sequence of Design
        With the port ``axi-stream``.

    Members
    -------
    s_axis, m_axis
        Of the first and of the last part.
    """

    def __init__(self, parts: Sequence[Design]) -> None:
        self._parts = [TopModule(part) for part in parts]
        first, last = self._parts[0].signature.members, self._parts[-1].signature.members
        super().__init__({"s_axis": first["s_axis"], "m_axis": last["m_axis"]})

    def elaborate(self, platform: object) -> Module:
        """Build the module."""
        m = Module()
        for number, part in enumerate(self._parts):
            m.submodules[f"part{number + 1}"] = part
        for one, other in pairwise(self._parts):
            m.d.comb += [getattr(other.s_axis, n).eq(getattr(one.m_axis, n)) for n in _SIGNALS]
            m.d.comb += one.m_axis.tready.eq(other.s_axis.tready)
        wiring.connect(m, wiring.flipped(self.s_axis), self._parts[0].s_axis)
        wiring.connect(m, wiring.flipped(self.m_axis), self._parts[-1].m_axis)
        return m


@dataclass(frozen=True)
class StreamedRuns:
    """Runs that follow each other as closely as the parts allow.

    Parameters
    ----------
    outputs : list of list of ndarray
        Flat results of each run.
    ends : list of int
        Cycles in which the last element of the results of each run was taken.
    """

    outputs: list[list[npt.NDArray[Any]]]
    ends: list[int]

    @property
    def interval(self) -> int:
        """Clock cycles from the end of the run before the last one to that of the last one."""
        return self.ends[-1] - self.ends[-2] if len(self.ends) > 1 else 0


def packets(design: Design) -> tuple[list[HostBuffer], list[HostBuffer]]:
    """Buffers in the packets in and out of a design."""
    return streamed(design.ports[0].serves)


def simulate_chain(
    parts: Sequence[Design],
    inputs: Sequence[dict[str, npt.NDArray[Any]]],
    *,
    engine: str = "auto",
    limit: int,
    progress: Callable[[str], None] | None = None,
) -> StreamedRuns:
    """Send the packets of inputs without a pause, and take the results at once.

    Parameters
    ----------
    parts : sequence of Design
    inputs : sequence of dict of str to ndarray
        Flat contents of the input buffers of each run, by name.
    engine : str
        Name of a simulation engine, or ``auto``.
    limit : int
        Clock cycles after which the runs must have ended.
    progress : callable, optional
        Called with a message before each slow step.

    Raises
    ------
    SimulationError
        When they have not.
    """
    given, found = packets(parts[0])[0], packets(parts[-1])[1]
    beats = [
        (int(bits), last)
        for run in inputs
        for bits, last in _with_last([b for x in given for b in x.dtype.array_to_bits(run[x.name])])
    ]
    size = sum(buffer.layout.depth for buffer in found)
    bits: list[int] = []
    ends: list[int] = []
    sent = 0
    model = SimulationModel(Chain(parts))
    with open_simulation(model, engine=engine, expected_cycles=limit, progress=progress) as simulation:
        simulation.set("m_axis__tready", 1)
        for cycle in range(limit):
            if sent < len(beats):
                simulation.set("s_axis__tdata", beats[sent][0])
                simulation.set("s_axis__tlast", int(beats[sent][1]))
            simulation.set("s_axis__tvalid", int(sent < len(beats)))
            sent += sent < len(beats) and bool(simulation.get("s_axis__tready"))
            if simulation.get("m_axis__tvalid"):
                bits.append(simulation.get("m_axis__tdata"))
                if simulation.get("m_axis__tlast"):
                    ends.append(cycle)
                    if len(ends) == len(inputs):
                        break
            simulation.step()
        else:
            raise SimulationError(
                f"{len(ends)} of {len(inputs)} runs have ended after {limit} cycles",
                hint="please report this with the model: a part of it waits forever",
            )
    runs = np.array(bits, np.uint64).reshape(len(inputs), size)
    cuts = np.cumsum([buffer.layout.depth for buffer in found])[:-1]
    return StreamedRuns(
        [
            [x.dtype.bits_to_array(part) for x, part in zip(found, np.split(run, cuts), strict=True)]
            for run in runs
        ],
        ends,
    )


def _with_last(values: list[Any]) -> list[tuple[Any, bool]]:
    return [(value, n == len(values) - 1) for n, value in enumerate(values)]
