"""A simulation engine as a plugin: two engines in lockstep, whose ports are compared at every look.

A plugin package has the function `tg2hdl_simulators` below in the module that its entry point of the group ``tg2hdl``
names; then ``engine="lockstep"`` works everywhere.  The methods with a leading underscore are all that an engine
writes: they take indices of ports and memories, and words as rows of 32-bit chunks, least significant first.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tg2hdl_ir import SimulationError, SimulatorDef, UnsupportedError, hookimpl
from tg2hdl_sim import Simulation, SimulationModel
from tg2hdl_sim.amaranth_engine import open_amaranth
from tg2hdl_sim.costs import amaranth_build_seconds, amaranth_speed, levelized_available
from tg2hdl_sim.levelized.engine import open_levelized
from tg2hdl_sim.words import Chunks, to_ints


class Lockstep(Simulation):
    """Two simulations that do the same."""

    def __init__(self, model: SimulationModel, engines: list[Simulation]) -> None:
        super().__init__(model.elaboration, "lockstep")
        self.engines = engines

    def _both(self, method: str, *arguments: Any) -> list[Any]:
        return [getattr(engine, method)(*arguments) for engine in self.engines]

    @property
    def cycles(self) -> int:
        """Rising clock edges since the start or the last reset."""
        return self.engines[0].cycles

    def _close(self) -> None:
        self._both("close")

    def _reset(self) -> None:
        self._both("reset")

    def _set(self, port: int, value: Chunks) -> None:
        self._both("_set", port, value)

    def _get(self, port: int, chunks: int) -> Chunks:
        one, two = self._both("_get", port, chunks)
        if not np.array_equal(one, two):
            raise SimulationError(
                f"port {list(self.ports)[port]!r} is {to_ints(one)[0]} in {self.engines[0].engine} "
                f"and {to_ints(two)[0]} in {self.engines[1].engine}",
                where=f"{self.name}, cycle {self.cycles}",
                hint="one of the engines is wrong: report the design",
            )
        return one

    def _step(self, count: int) -> None:
        self._both("_step", count)

    def _run_until(self, port: int, value: Chunks, limit: int) -> int | None:
        one, two = self._both("_run_until", port, value, limit)
        return one if one == two else self._differ(f"{one} and {two} cycles")

    def _write_memory(self, memory: int, offset: int, chunks: Chunks) -> None:
        self._both("_write_memory", memory, offset, chunks)

    def _read_memory(self, memory: int, offset: int, count: int, chunks: int) -> Chunks:
        one, two = self._both("_read_memory", memory, offset, count, chunks)
        return one if np.array_equal(one, two) else self._differ(f"other words of memory {memory}")

    def _write_stream(self, *arguments: Any) -> None:
        self._both("_write_stream", *arguments)

    def _read_stream(self, *arguments: Any) -> Chunks:
        one, two = self._both("_read_stream", *arguments)
        return one if np.array_equal(one, two) else self._differ("other words of a stream")

    def _differ(self, what: str) -> Any:
        raise SimulationError(f"the engines give {what}", where=self.name, hint="report the design")


def open_lockstep(
    model: SimulationModel,
    *,
    vcd: Path | None = None,
    cache: bool = True,
    progress: Callable[[str], None],
) -> Lockstep:
    """Open a model; what an engine cannot do, it refuses."""
    if vcd is not None:
        raise UnsupportedError("two engines write no waveform", where=model.name, hint="use engine='auto'")
    engines = [open_amaranth(model, progress=progress), open_levelized(model, cache=cache, progress=progress)]
    return Lockstep(model, engines)


@hookimpl
def tg2hdl_simulators() -> list[SimulatorDef]:
    """Describe the engine; with a plugin package, name the functions by strings, so that nothing is imported early."""
    return [
        SimulatorDef(
            name="lockstep",
            description="Amaranth's simulator and the levelized engine, compared",
            available=levelized_available,
            open=open_lockstep,
            build_seconds=lambda cells: 1 + amaranth_build_seconds(cells),
            cycles_per_second=lambda cells: amaranth_speed(cells) / 1.1,
        )
    ]
