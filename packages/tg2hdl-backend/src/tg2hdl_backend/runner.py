"""Runs a design: writes inputs, starts, waits and reads outputs, on any engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt
from amaranth.lib import wiring

from tg2hdl_backend.batch_runner import SideBySide, keeps_nothing, open_side_by_side, stacked_words
from tg2hdl_backend.cycles import Cycles
from tg2hdl_backend.netlist_size import design_model
from tg2hdl_ir import DType, SimulationError, ToolMissingError, UnsupportedError
from tg2hdl_lower import Layout, MemoryPlan, from_words, to_words
from tg2hdl_sim import (
    InputsDifferError,
    Simulation,
    SimulationModel,
    batch_pays,
    open_simulation,
)
from tg2hdl_top import Design, TopModule
from tg2hdl_top.ports import HostDriver, open_driver, opening_cycles
from tg2hdl_top.ports.native import NativeDriver

__all__ = ["Run", "Runner", "expected_cycles"]


@dataclass(frozen=True)
class Run(Cycles):
    """Result and clock cycles of one run.

    Parameters
    ----------
    outputs : tuple of ndarray
        Flat results in the order of the program's outputs.
    """

    outputs: tuple[npt.NDArray[Any], ...]


class Runner:
    """Runs a design any number of times; a context manager.

    Parameters
    ----------
    design : Design
    engine : str
        ``auto`` or the name of an engine.
    runs : int
        Expected number of runs, for selecting the engine.
    component : Component, optional
        Of the design, when it was emitted before.
    model : SimulationModel, optional
        Of the component, when it was elaborated before.
    simulation : Simulation, optional
        An open one, such as that of a netlist; `engine` and the parameters after it are then ignored.
    vcd : str, optional
        File of a waveform of all runs.
    progress : callable, optional
        Called with a message before each slow step.
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
        self._model: SimulationModel | None = None
        self._progress = progress or (lambda message: None)
        self._batch: SideBySide | None = None
        self._batch_loaded: dict[int, npt.NDArray[Any]] = {}
        self._can_batch = vcd is None and engine in BATCH_ENGINES and keeps_nothing(design)
        if simulation is None:
            self._model = model or design_model(design, component or TopModule(design, simulates_memory=True))
            simulation = open_simulation(
                self._model,
                engine=engine,
                expected_cycles=runs * expected_cycles(design) + opening_cycles(design.ports),
                vcd=vcd,
                progress=progress,
            )
        self._simulation = simulation
        self._drivers = [open_driver(port, self._simulation) for port in design.ports]

    def __enter__(self) -> Runner:
        self._simulation.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the simulation."""
        self._simulation.close()
        if self._batch is not None:
            self._batch.batch.close()

    @property
    def engine(self) -> str:
        """Name of the engine that runs."""
        return self._simulation.engine

    def run(self, inputs: Mapping[str, npt.NDArray[Any]], variables: Mapping[str, int] | None = None) -> Run:
        """Write the inputs, start, wait for done and read the outputs, all through the host ports.

        Loadable weights are written in the first run, and again when they change.

        Parameters
        ----------
        inputs : mapping of str to ndarray
            Flat arrays by name.
        variables : mapping of str to int, optional
            Values by name.

        Raises
        ------
        InputError
            For a missing or unfit input.
        SimulationError
            When the design does not finish in twice the predicted time.
        """
        design, loads = self.design, self._words(inputs)
        values = {v.name: (variables or {})[v.name] for v in design.variables}
        read, cycles = self._execute(self._simulation, self._drivers, self._loaded, loads, values)
        outputs = tuple(map(self._unpacked, design.program.outputs, read))
        return Run(*cycles, outputs)

    def generate(
        self,
        inputs: Mapping[str, npt.NDArray[Any]],
        variables: Mapping[str, int],
        results: int,
        stop: int | None = None,
    ) -> tuple[list[npt.NDArray[Any]], int]:
        """Write the input, start the loop of the design, and take its results.

        Parameters
        ----------
        inputs : mapping of str to ndarray
            As for `run`.
        variables : mapping of str to int
            Values in the first run.
        results : int
            Most results.
        stop : int, optional
            Bits of the elements of the last result.

        Returns
        -------
        results : list of ndarray
            Flat.
        cycles : int
            Clock cycles from start to done.

        Raises
        ------
        InputError
            For a missing or unfit input.
        SimulationError
            When a result is late, or the cycles are not those that were predicted.
        """
        design, (output,) = self.design, self.design.program.outputs
        self._load(self._drivers, self._loaded, self._words(inputs))
        values = {v.name: variables[v.name] for v in design.variables}
        control = next(driver for driver in self._drivers if driver.serves.control)
        bits, cycles = control.generate(values, results, stop, 2 * design.longest_cycles() + _MARGIN)
        self._check_cycles(cycles, design.loop_cycles(len(bits), values))
        memory, dtype = design.memory(output), design.program.buffers[output].dtype.numpy()
        return [memory.dtype.bits_to_array(row).astype(dtype, copy=False) for row in bits], cycles

    def run_batch(
        self,
        inputs: Sequence[Mapping[str, npt.NDArray[Any]]],
        variables: Sequence[Mapping[str, int]] = (),
        advance: Callable[[int], None] = lambda runs: None,
    ) -> list[Run]:
        """Run many inputs, several at once in one model, with the results and cycles of `run` for each.

        `variables` are those of each run; none for a program without.

        `advance` is called with the number of runs that have ended since the last call.

        They run one by one where that is predicted to end sooner or nothing else works: without a C compiler, on an
        engine that was asked for by name, for a program that keeps state from run to run, and where control
        depends on the data.

        Parameters
        ----------
        inputs : sequence of mapping of str to ndarray
            Flat arrays by name, for each run.
        variables : sequence of mapping of str to int, optional
            Of each run; none for a program without.
        advance : callable, optional
            Called with the number of runs that have ended since the last call.

        Raises
        ------
        InputError
            For a missing or unfit input.
        SimulationError
            When the design does not finish in twice the predicted time.
        """
        runs: list[Run] = []
        native = all(isinstance(driver, NativeDriver) for driver in self._drivers)
        if self._can_batch and self._model is not None and native and len(inputs) > 1:
            cycles = expected_cycles(self.design)
            if self._batch is not None or batch_pays(self._model, len(inputs), cycles):
                try:
                    self._batch = self._batch or open_side_by_side(self._model, len(inputs), self._progress)
                    size = self._batch.size
                    for first in range(0, len(inputs), size):
                        part = self._run_side_by_side(self._batch, inputs[first : first + size])
                        runs += part
                        advance(len(part))
                except (InputsDifferError, UnsupportedError, ToolMissingError):
                    self._can_batch = False
        values = variables or [{}] * len(inputs)
        for each, own in list(zip(inputs, values, strict=True))[len(runs) :]:
            runs.append(self.run(each, own))
            advance(1)
        return runs

    def _words(self, inputs: Mapping[str, npt.NDArray[Any]]) -> dict[int, npt.NDArray[Any]]:
        design = self.design
        return {n: to_words(p, design.memory(n).dtype.bit_width) for n, p in design.loads(inputs).items()}

    def _load(
        self,
        drivers: Sequence[HostDriver],
        loaded: dict[int, npt.NDArray[Any]],
        loads: Mapping[int, npt.NDArray[Any]],
    ) -> int:
        """Write the inputs, and the weights that are not `loaded`; returns the clock cycles."""
        load = 0
        for number, words in loads.items():
            memory = self.design.memory(number)
            if self.design.program.buffers[number].role == "weight":
                if number in loaded and np.array_equal(loaded[number], words):
                    continue
                loaded[number] = words
            load += _driver(drivers, "writes", memory.name).write(memory.name, words)
        return load

    def _check_cycles(self, found: int, predicted: int) -> None:
        design = self.design
        if found != predicted:
            who = f"sequencer {design.sequencer.policy!r}"
            if design.streams_weights:
                who += f" or memory port {design.options.memory_port!r}"
            raise SimulationError(
                f"the design was done after {found:,} cycles, {predicted:,} predicted: {who} does not keep its own "
                "times",
                hint="correct its component or its prediction; the results of this run may be wrong",
            )

    def _run_side_by_side(
        self, batch: SideBySide, inputs: Sequence[Mapping[str, npt.NDArray[Any]]]
    ) -> list[Run]:
        drivers = [open_driver(port, batch) for port in self.design.ports]
        loads = stacked_words(self.design, inputs, batch.size)
        read, cycles = self._execute(batch, drivers, self._batch_loaded, loads, {})
        return [
            Run(
                *cycles,
                tuple(
                    self._unpacked(n, words[:, k])
                    for n, words in zip(self.design.program.outputs, read, strict=True)
                ),
            )
            for k in range(len(inputs))
        ]

    def _execute(
        self,
        simulation: Any,
        drivers: Sequence[HostDriver],
        loaded: dict[int, npt.NDArray[Any]],
        loads: Mapping[int, npt.NDArray[Any]],
        variables: Mapping[str, int],
    ) -> tuple[list[npt.NDArray[Any]], tuple[int, int, int, tuple[int, ...]]]:
        """Run once; returns the words of the outputs and the clock cycles, as `Cycles` has them."""
        design = self.design
        load = self._load(drivers, loaded, loads)
        control = next(driver for driver in drivers if driver.serves.control)
        ends = control.run(variables, limit=2 * design.longest_cycles() + _MARGIN)
        compute, before = max(ends), simulation.cycles
        self._check_cycles(compute, design.predicted_cycles(variables))
        names = [design.memory(number).name for number in design.program.outputs]
        outputs = [_driver(drivers, "reads", name).read(name) for name in names]
        latest = tuple(accumulate(ends, max))
        kernels = tuple(end - start for start, end in zip((0, *latest), latest, strict=False))
        # The last write lands in the cycle after done, which counts as readback.
        return outputs, (load, compute, 1 + simulation.cycles - before, kernels)

    def kept(self) -> dict[str, npt.NDArray[Any]]:
        """Words of the memories that keep state until the next run."""
        return {name: self._simulation.read_memory(name) for name in self._keeping()}

    def restore(self, words: Mapping[str, npt.NDArray[Any]]) -> None:
        """Restore the words that `kept` of another simulation of the design returned."""
        for name, array in words.items():
            self._simulation.write_memory(name, array)

    def read_buffer(self, number: int) -> npt.NDArray[Any]:
        """Elements of a buffer of the program in the simulated memory, flat."""
        lanes, memory = self._lanes(number)[0], self.design.memory(number)
        mask = np.uint64((1 << memory.dtype.bit_width) - 1)
        elements = memory.layout.unpack(lanes[:, : memory.layout.lanes] & mask, memory.dtype)
        return elements.astype(self.design.program.buffers[number].dtype.numpy(), copy=False)

    def write_buffer(self, number: int, array: npt.NDArray[Any]) -> None:
        """Replace the elements of a buffer of the program in the simulated memory.

        Parameters
        ----------
        number : int
            Of the buffer in the program.
        array : ndarray
            Flat, in the type of the buffer as stored.
        """
        (lanes, built, first), memory = self._lanes(number), self.design.memory(number)
        lanes[:, : memory.layout.lanes] = memory.layout.pack(array, memory.dtype)
        words = to_words(lanes, built.dtype.bit_width)
        for name, start, part in _parts(built, first, len(words)):
            self._simulation.write_memory(name, words[part], start)

    def _lanes(self, number: int) -> tuple[npt.NDArray[np.uint64], MemoryPlan, int]:
        """Lanes of the words of a buffer, the memory that has them, and the number of the first word."""
        memory = built = self.design.memory(number)
        first = 0
        for array in self.design.arrays:
            if memory.name in array.members:
                built, first = array.memory, array.region(memory.name) * array.stride
        words = np.concatenate(
            [
                self._simulation.read_memory(name, start, part.stop - part.start, signed=False)
                for name, start, part in _parts(built, first, memory.layout.words)
            ]
        )
        lanes, bits = built.layout.lanes, DType.from_width(built.dtype.bit_width, False)
        flat = Layout((len(words) * lanes,), (lanes,))
        return flat.pack(from_words(words, flat, bits), bits), built, first

    def _keeping(self) -> list[str]:
        return [
            m.array_name(piece)
            for m in self.design.built_memories
            if m.role.written and (m.role.is_state or not m.role.host_writes)
            for piece in m.pieces
        ]

    def _unpacked(self, number: int, words: npt.NDArray[Any]) -> npt.NDArray[Any]:
        memory = self.design.memory(number)
        dtype = self.design.program.buffers[number].dtype.numpy()
        return from_words(words, memory.layout, memory.dtype).astype(dtype, copy=False)


def _parts(memory: MemoryPlan, first: int, count: int) -> Iterator[tuple[str, int, slice]]:
    """Arrays of a written memory that have some of `count` words: the name, the word there, and which ones."""
    for piece in memory.pieces:
        begin, end = max(first, piece.word), min(first + count, piece.word + piece.words)
        if begin < end:
            yield memory.array_name(piece), begin - piece.word, slice(begin - first, end - first)


def _driver(drivers: Sequence[HostDriver], direction: str, name: str) -> HostDriver:
    served = (
        driver
        for driver in drivers
        if any(b.name == name and getattr(b, direction) for b in driver.serves.buffers)
    )
    return next(served)


BATCH_ENGINES = ("auto", "levelized")

_MARGIN = 1000
"""Clock cycles beyond twice the prediction after which a design counts as hanging."""


def expected_cycles(design: Design, variables: Mapping[str, int] | None = None) -> int:
    """Clock cycles of a run with its inputs and outputs; of the longest one unless variables are given.

    Parameters
    ----------
    design : Design
    variables : mapping of str to int, optional
        Values of the run-time variables; the largest ones unless given.
    """
    compute = design.longest_cycles() if variables is None else design.predicted_cycles(variables)
    return design.load_cycles() + compute + design.readback_cycles()
