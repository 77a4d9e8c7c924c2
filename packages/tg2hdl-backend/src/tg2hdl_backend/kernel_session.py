"""The engine of a kernel of the device, selected for each run."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy.typing as npt

from tg2hdl_backend.device_options import DeviceOptions
from tg2hdl_backend.netlist_size import design_model, least_cells, netlist_cells
from tg2hdl_backend.runner import Run, Runner, expected_cycles
from tg2hdl_sim import SimulationModel, estimate_engines
from tg2hdl_top import Design, TopModule

__all__ = ["OPEN_DESIGNS", "KernelSession"]

OPEN_DESIGNS = 8
"""Designs that are kept for the next run of their kernel; the least recently used one is freed."""

_open: list[KernelSession] = []
"""Sessions that hold a design, the one used last at the end."""


class KernelSession:
    """A planned kernel and the simulation of it that is open.

    Under ``engine=auto`` a run that is predicted to take longer than the patience of the options has no simulation, and
    only the plan decides this.  Once the runs have taken as long as opening a simulation, the engine is selected
    again, for twice as many runs.

    Parameters
    ----------
    design : Design
    options : DeviceOptions
        With an engine other than ``golden``.
    """

    def __init__(self, design: Design, options: DeviceOptions) -> None:
        self.design = design
        self.options = options
        self._model: SimulationModel | None = None
        self._simulation: Runner | None = None
        self._runs = 0
        self._opening = self._running = 0.0

    @property
    def model(self) -> SimulationModel:
        """The emitted design; made when it is not there."""
        if self._model is None:
            self._model = design_model(self.design, TopModule(self.design))
        if self in _open:
            _open.remove(self)
        _open.append(self)
        while len(_open) > OPEN_DESIGNS:
            _open[0].free()
        return self._model

    @property
    def engine(self) -> str:
        """Engine that ran last; ``golden`` before the first run."""
        return self._simulation.engine if self._simulation is not None else "golden"

    def run(self, inputs: Mapping[str, npt.NDArray[Any]], variables: Mapping[str, int]) -> Run | None:
        """Run once; None when it would take too long.

        Parameters
        ----------
        inputs : mapping of str to ndarray
            Flat arrays by name.
        variables : mapping of str to int
            Values by name.
        """
        if self.options.engine == "auto":
            if self._takes_too_long(variables):
                self.free()
                return None
            if self._running > self._opening:
                self._close()
        simulation = self._opened()
        started = time.perf_counter()
        run = simulation.run(inputs, variables)
        self._running += time.perf_counter() - started
        self._runs += 1
        return run

    def free(self) -> None:
        """Close the simulation and drop the design; the next run makes both again."""
        self._close()
        self._model = None
        if self in _open:
            _open.remove(self)

    def _close(self) -> None:
        if self._simulation is not None:
            self._simulation.close()
        self._simulation = None

    def _opened(self) -> Runner:
        model = self.model
        if self._simulation is None:
            started = time.perf_counter()
            self._simulation = Runner(self.design, self.options.engine, runs=2 * self._runs + 1, model=model)
            self._opening, self._running = time.perf_counter() - started, 0.0
        return self._simulation

    def _takes_too_long(self, variables: Mapping[str, int]) -> bool:
        """Whether no engine is predicted to finish in time, judged by the plan."""
        cycles = expected_cycles(self.design, variables)
        # The cells of units are counted only where the rest of the design leaves it open.
        return any(
            estimate_engines(sum(map(cells, self.design.kernels)), cycles)[0].seconds > self.options.patience
            for cells in (least_cells, netlist_cells)
        )
