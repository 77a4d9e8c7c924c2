"""Which engine runs a kernel of the device, decided anew for each run."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy.typing as npt

from tg2hdl_backend.device_options import DeviceOptions
from tg2hdl_backend.program_simulation import ProgramRun, ProgramSimulation
from tg2hdl_sim import SimulationModel, estimate_engines
from tg2hdl_top import CompiledProgram

__all__ = ["KernelSession"]


class KernelSession:
    """A compiled kernel and the simulation of it that is open.

    Under ``engine=auto`` a run that is predicted to take longer than the patience of the options has no simulation; and
    when the runs have taken as long as opening it, the quickest engine for twice as many runs is looked for again.

    Parameters
    ----------
    compiled : CompiledProgram
        Of one kernel, all of whose buffers the host writes and reads.
    options : DeviceOptions
        With an engine other than ``golden``.
    """

    def __init__(self, compiled: CompiledProgram, options: DeviceOptions) -> None:
        self.compiled = compiled
        self.options = options
        self._model = SimulationModel(compiled.top)
        self._simulation: ProgramSimulation | None = None
        self._runs = 0
        self._opening = self._running = 0.0

    @property
    def engine(self) -> str:
        """Engine that ran last; ``golden`` before the first run."""
        return self._simulation.engine if self._simulation is not None else "golden"

    def run(self, inputs: Mapping[str, npt.NDArray[Any]], variables: Mapping[str, int]) -> ProgramRun | None:
        """Run once; None when it would take too long."""
        if self.options.engine == "auto":
            if self._seconds(variables) > self.options.patience:
                return None
            if self._running > self._opening:
                self.close()
        simulation = self._opened()
        started = time.perf_counter()
        run = simulation.run(inputs, variables)
        self._running += time.perf_counter() - started
        self._runs += 1
        return run

    def close(self) -> None:
        """End the simulation; the next run opens another one."""
        if self._simulation is not None:
            self._simulation.close()
        self._simulation = None

    def _opened(self) -> ProgramSimulation:
        if self._simulation is None:
            started = time.perf_counter()
            self._simulation = ProgramSimulation(
                self.compiled, self.options.engine, runs=2 * self._runs + 1, model=self._model
            )
            self._opening, self._running = time.perf_counter() - started, 0.0
        return self._simulation

    def _seconds(self, variables: Mapping[str, int]) -> float:
        """Predicted time of one run on the engine that is quickest for it (s)."""
        compiled = self.compiled
        reading = sum(compiled.memory(b).layout.words for b in compiled.program.outputs)
        cycles = compiled.load_cycles() + compiled.predicted_cycles(variables) + reading
        return estimate_engines(self._model, cycles)[0].seconds
