"""Which engine runs a kernel of the device, decided anew for each run."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy.typing as npt

from tg2hdl_backend.device_options import DeviceOptions
from tg2hdl_backend.kernel_simulation import program_of_kernel
from tg2hdl_backend.netlist_size import least_cells, netlist_cells
from tg2hdl_backend.plan_cache import cached_plan, compile_kernel_program
from tg2hdl_backend.program_simulation import ProgramRun, ProgramSimulation
from tg2hdl_ir.nodes import KernelIR
from tg2hdl_sim import SimulationModel, estimate_engines
from tg2hdl_top import CompiledProgram, CompileOptions

__all__ = ["OPEN_DESIGNS", "KernelSession"]

OPEN_DESIGNS = 8
"""Designs that are kept for the next run of their kernel; what was not used for longest is freed."""

_open: list[KernelSession] = []
"""Sessions that hold a design, the one used last at the end."""


class KernelSession:
    """A planned kernel and the simulation of it that is open.

    Under ``engine=auto`` a run that is predicted to take longer than the patience of the options has no simulation, and
    the plan alone decides it; when the runs have taken as long as opening a simulation, the quickest engine for
    twice as many runs is looked for again.

    Parameters
    ----------
    kernel : KernelIR
        All of its buffers are written and read by the host.
    options : DeviceOptions
        With an engine other than ``golden``.
    compile_options : CompileOptions
    """

    def __init__(self, kernel: KernelIR, options: DeviceOptions, compile_options: CompileOptions) -> None:
        self.kernel = kernel
        self.options = options
        self.compile_options = compile_options
        self.program = program_of_kernel(kernel)
        self.plan = cached_plan(kernel, compile_options)
        self._compiled: CompiledProgram | None = None
        self._model: SimulationModel | None = None
        self._simulation: ProgramSimulation | None = None
        self._runs = 0
        self._opening = self._running = 0.0

    @property
    def compiled(self) -> CompiledProgram:
        """The design; made when it is not there."""
        if self._compiled is None:
            self._compiled = compile_kernel_program(self.kernel, self.compile_options)
            self._model = SimulationModel(self._compiled.top)
        if self in _open:
            _open.remove(self)
        _open.append(self)
        while len(_open) > OPEN_DESIGNS:
            _open[0].free()
        return self._compiled

    @property
    def engine(self) -> str:
        """Engine that ran last; ``golden`` before the first run."""
        return self._simulation.engine if self._simulation is not None else "golden"

    def run(self, inputs: Mapping[str, npt.NDArray[Any]], variables: Mapping[str, int]) -> ProgramRun | None:
        """Run once; None when it would take too long."""
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
        """End the simulation and give the design up; the next run makes them anew."""
        self._close()
        self._compiled = self._model = None
        if self in _open:
            _open.remove(self)

    def _close(self) -> None:
        if self._simulation is not None:
            self._simulation.close()
        self._simulation = None

    def _opened(self) -> ProgramSimulation:
        compiled = self.compiled
        if self._simulation is None:
            started = time.perf_counter()
            self._simulation = ProgramSimulation(
                compiled, self.options.engine, runs=2 * self._runs + 1, model=self._model
            )
            self._opening, self._running = time.perf_counter() - started, 0.0
        return self._simulation

    def _takes_too_long(self, variables: Mapping[str, int]) -> bool:
        """Whether no engine is predicted to finish in time, by the plan alone."""
        words = sum(self.plan.layouts[b.idx].words * (1 + b.is_output) for b in self.kernel.buffers)
        cycles = self.plan.cycles(dict(variables)) + words
        # The cells of units are counted only where the rest of the design does not decide.
        return any(
            estimate_engines(cells(self.plan), cycles)[0].seconds > self.options.patience
            for cells in (least_cells, netlist_cells)
        )
