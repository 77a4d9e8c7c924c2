"""Runs a design: writes inputs, starts, waits and reads outputs, on any engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt
from amaranth.lib import wiring

from tg2hdl_backend.memory_words import from_words, to_words
from tg2hdl_sim import Simulation, SimulationModel, open_simulation
from tg2hdl_top import Design
from tg2hdl_top.ports import HostDriver, open_driver

__all__ = ["Run", "Runner", "expected_cycles"]


@dataclass(frozen=True)
class Run:
    """Result of one run.

    Parameters
    ----------
    outputs : tuple of ndarray
        Flat results in the order of the program's outputs.
    load, compute, readback : int
        Clock cycles to write the inputs, from start to done, and to read the outputs.
    kernels : tuple of int
        Clock cycles of each kernel, from the end of the one before to its own.
    """

    outputs: tuple[npt.NDArray[Any], ...]
    load: int
    compute: int
    readback: int
    kernels: tuple[int, ...]

    @property
    def total(self) -> int:
        """All clock cycles."""
        return self.load + self.compute + self.readback


class Runner:
    """Runs a design any number of times; a context manager.

    Parameters
    ----------
    engine : str
        ``auto`` or the name of an engine.
    runs : int
        Expected number of runs, for the automatic choice.
    component : Component, optional
        Of the design, when it was emitted before.
    model : SimulationModel, optional
        Of the component, when it was elaborated before.
    simulation : Simulation, optional
        One that is open already, such as that of a netlist; then `engine` and what follows it do not count.
    """

    def __init__(
        self,
        design: Design,
        engine: str = "auto",
        *,
        runs: int = 1,
        component: wiring.Component | None = None,
        model: SimulationModel | None = None,
        simulation: Simulation | None = None,
        vcd: str | None = None,
        progress: Callable[[str], None] | None = None,
    ) -> None:
        self.design = design
        self._loaded: dict[int, npt.NDArray[Any]] = {}
        self._simulation = simulation or open_simulation(
            model or SimulationModel(component or design.emit()),
            engine=engine,
            expected_cycles=runs * expected_cycles(design),
            vcd=vcd,
            progress=progress,
        )
        self._drivers = [open_driver(port, self._simulation) for port in design.ports]

    def __enter__(self) -> Runner:
        self._simulation.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._simulation.__exit__(kind, error, trace)

    def close(self) -> None:
        """End the simulation."""
        self._simulation.close()

    @property
    def engine(self) -> str:
        """Name of the engine that runs."""
        return self._simulation.engine

    def run(self, inputs: Mapping[str, npt.NDArray[Any]], variables: Mapping[str, int] | None = None) -> Run:
        """Write the inputs, start, wait for done and read the outputs, all through the host ports.

        Loadable weights are written in the first run, and again when they change.

        Raises
        ------
        InputError
            For a missing or unfit input.
        SimulationError
            When the design does not finish in twice the predicted time.
        """
        design, simulation = self.design, self._simulation
        load = 0
        for number, packed in design.loads(inputs).items():
            memory = design.memory(number)
            words = to_words(packed, memory.dtype.bit_width)
            if design.program.buffers[number].role == "weight":
                if number in self._loaded and np.array_equal(self._loaded[number], words):
                    continue
                self._loaded[number] = words
            load += self._driver("writes", memory.name).write(memory.name, words)
        control = next(driver for driver in self._drivers if driver.serves.control)
        ends = control.run(variables or {}, limit=2 * design.longest_cycles() + _MARGIN)
        compute, before = ends[-1], simulation.cycles
        outputs = tuple(self._read(number) for number in design.program.outputs)
        kernels = tuple(end - start for start, end in zip((0, *ends), ends, strict=False))
        # The last write lands in the cycle after done, which counts as readback.
        return Run(outputs, load, compute, 1 + simulation.cycles - before, kernels)

    def kept(self) -> dict[str, npt.NDArray[Any]]:
        """Words of the memories that keep what kernels wrote until the next run."""
        return {name: self._simulation.read_memory(name) for name in self._keeping()}

    def restore(self, words: Mapping[str, npt.NDArray[Any]]) -> None:
        """Write what `kept` of another simulation of the design gave."""
        for name, array in words.items():
            self._simulation.write_memory(name, array)

    def _keeping(self) -> list[str]:
        roles = {f"memory_{m.name}": m.role for m in self.design.buffers}
        return [name for name, role in roles.items() if role.written and not role.host_writes]

    def _driver(self, way: str, name: str) -> HostDriver:
        served = (
            driver
            for driver in self._drivers
            if any(b.name == name and getattr(b, way) for b in driver.serves.buffers)
        )
        return next(served)

    def _read(self, number: int) -> npt.NDArray[Any]:
        memory = self.design.memory(number)
        words = self._driver("reads", memory.name).read(memory.name)
        dtype = self.design.program.buffers[number].dtype.numpy()
        return from_words(words, memory.layout, memory.dtype).astype(dtype, copy=False)


_MARGIN = 1000
"""Clock cycles that a design may take beyond twice the predicted ones, before it counts as hanging."""


def expected_cycles(design: Design, variables: Mapping[str, int] | None = None) -> int:
    """Clock cycles of a run with its inputs and outputs; of the longest one unless variables are given."""
    compute = design.longest_cycles() if variables is None else design.predicted_cycles(variables)
    return design.load_cycles() + compute + design.readback_cycles()
