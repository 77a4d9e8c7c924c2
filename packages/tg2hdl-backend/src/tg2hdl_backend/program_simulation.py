"""Cycle-accurate runs of a compiled program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_backend.memory_words import from_words, to_words
from tg2hdl_ir.program import ProgramIR
from tg2hdl_sim import Simulation, SimulationModel, open_simulation
from tg2hdl_top import CompiledProgram, SharedMemory

__all__ = ["ProgramRun", "ProgramSimulation"]


@dataclass(frozen=True)
class ProgramRun:
    """Result of one run.

    Parameters
    ----------
    outputs : tuple of ndarray
        Flat results in the order of the program's outputs.
    load, compute, readback : int
        Clock cycles to write the inputs, from start to done, and to read the outputs.
    kernels : tuple of int
        Clock cycles of each kernel.
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


class ProgramSimulation:
    """A simulation that runs a compiled program any number of times.

    Parameters
    ----------
    engine : str
        ``auto`` or the name of an engine.
    runs : int
        Expected number of runs, for the automatic choice.
    model : SimulationModel, optional
        Of the design, when it was elaborated before.
    simulation : Simulation, optional
        One that is open already, such as that of a netlist; then `engine` and what follows it do not count.
    """

    def __init__(
        self,
        compiled: CompiledProgram,
        engine: str = "auto",
        *,
        runs: int = 1,
        vcd: str | None = None,
        model: SimulationModel | None = None,
        simulation: Simulation | None = None,
        progress: Callable[[str], None] | None = None,
    ) -> None:
        self.compiled = compiled
        buffers = enumerate(compiled.program.buffers)
        self._weights = {
            compiled.memory(n).name for n, b in buffers if b.role == "weight" and n in compiled.slots
        }
        self._loaded: dict[str, npt.NDArray[Any]] = {}
        self._limit = 2 * sum(compiled.top.predicted_cycles(_highest(compiled))) + 1000
        self._simulation = simulation or open_simulation(
            model or SimulationModel(compiled.top),
            engine=engine,
            expected_cycles=runs * _cycles(compiled),
            vcd=vcd,
            progress=progress,
        )

    def __enter__(self) -> ProgramSimulation:
        self._simulation.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._simulation.__exit__(kind, error, trace)

    def close(self) -> None:
        """End the simulation."""
        self._simulation.__exit__(None, None, None)

    @property
    def program(self) -> ProgramIR:
        """The program that runs."""
        return self.compiled.program

    @property
    def engine(self) -> str:
        """Name of the engine that runs."""
        return self._simulation.engine

    def run(
        self, inputs: Mapping[str, npt.NDArray[Any]], variables: Mapping[str, int] | None = None
    ) -> ProgramRun:
        """Write the inputs, start, wait for done and read the outputs, all through the ports of the design.

        Loadable weights are written in the first run, and again when they change.

        Raises
        ------
        InputError
            For a missing or unfit input.
        SimulationError
            When the design does not finish in twice the predicted time.
        """
        simulation, compiled = self._simulation, self.compiled
        load = 0
        for memory, packed in compiled.loads(inputs):
            words = to_words(packed, memory.dtype.bit_width)
            name = memory.name
            if name in self._weights:
                if name in self._loaded and np.array_equal(self._loaded[name], words):
                    continue
                self._loaded[name] = words
            load += simulation.write_stream(
                f"{name}_waddr", f"{name}_wdata", f"{name}_wen", np.arange(len(words)), words
            )
        for name, value in (variables or {}).items():
            simulation.set(f"var_{name}", value)
        simulation.set("start", 1)
        simulation.step()
        simulation.set("start", 0)
        kernels = [
            simulation.run_until(f"kernel_{number}_done", limit=self._limit)
            for number in range(len(compiled.plans))
        ]
        kernels[0] += 1
        before = simulation.cycles
        simulation.step()  # in the cycle of done the last write is still on its way
        outputs = tuple(self._read(compiled.memory(b)) for b in compiled.program.outputs)
        return ProgramRun(outputs, load, sum(kernels), simulation.cycles - before, tuple(kernels))

    def kept(self) -> dict[str, npt.NDArray[Any]]:
        """Words of the memories that keep what kernels wrote until the next run."""
        return {name: self._simulation.read_memory(name) for name in self._keeping()}

    def restore(self, words: Mapping[str, npt.NDArray[Any]]) -> None:
        """Write what `kept` of another simulation of the design gave."""
        for name, array in words.items():
            self._simulation.write_memory(name, array)

    def _keeping(self) -> list[str]:
        return [f"memory_{m.name}" for m in self.compiled.top.memories if m.writers and not m.external]

    def _read(self, memory: SharedMemory) -> npt.NDArray[Any]:
        name, latency = memory.name, self.compiled.top.read_latency
        words = self._simulation.read_stream(
            f"{name}_raddr", f"{name}_rdata", np.arange(memory.layout.words), latency=latency, signed=False
        )
        return from_words(words, memory.layout, memory.dtype)


def _cycles(compiled: CompiledProgram) -> int:
    """Clock cycles of a run with the longest bounds, its inputs and its outputs."""
    reading = sum(compiled.memory(b).layout.words for b in compiled.program.outputs)
    return compiled.load_cycles() + compiled.predicted_cycles(_highest(compiled)) + reading


def _highest(compiled: CompiledProgram) -> dict[str, int]:
    return {v.name: v.high for plan in compiled.plans for v in plan.kernel.variables}
