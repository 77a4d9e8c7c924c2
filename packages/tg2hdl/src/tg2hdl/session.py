"""Open simulations of a compiled model, and the selection of their engine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np

from tg2hdl.generation import generated
from tg2hdl.progress import step
from tg2hdl.results import Cycles, SimulationResult
from tg2hdl.state import ModelState, StateTensor
from tg2hdl_backend import CapturedProgram, Run, Runner
from tg2hdl_ir.turns import in_turn
from tg2hdl_top import Design, TopModule

__all__ = ["OpenSessions", "Session", "SimulatedModel"]


@dataclass(frozen=True)
class SimulatedModel:
    """An accelerator as a session sees it.

    Parameters
    ----------
    captured : CapturedProgram
    design : Design
    top : TopModule
        Component of the design.
    bind : callable
        Contents of the input buffers by name, for the inputs of a run.
    values : callable
        Values of the run-time variables by name, for the inputs and the named values of a run.
    tensors : mapping of str to StateTensor
        The state.
    restored : callable
        Gives the model's result for the contents of the output buffers; a flag tells whether they stay codes.
    loops : bool
        Whether the loop of the design gives the model's results: not where these are converted from codes.
    """

    captured: CapturedProgram
    design: Design
    top: TopModule
    bind: Callable[..., dict[str, np.ndarray]]
    values: Callable[..., dict[str, int]]
    tensors: Mapping[str, StateTensor]
    restored: Callable[[Sequence[np.ndarray], bool | None], Any]
    loops: bool


class Session:
    """An open simulation of an accelerator; a context manager.  Made by `Accelerator.session`.

    Several threads may call it: their runs follow one another.

    Parameters
    ----------
    model : SimulatedModel
        The compiled model.
    engine : str
        Name of a simulation engine, or ``auto``.
    runs : int
        Expected number of runs, from which ``auto`` predicts the fastest engine.
    vcd : path, optional
        File of a waveform of all runs.
    progress : callable, optional
        Called with a message before each slow step.

    Attributes
    ----------
    runs : int
        Runs so far.
    loop_cycles : int
        Clock cycles, from start to done, of the loops on the chip so far; `Design.loop_cycles` predicts each.
    """

    def __init__(
        self,
        model: SimulatedModel,
        engine: str,
        *,
        runs: int = 1,
        vcd: str | PathLike[str] | None = None,
        progress: Callable[[str], None] | None = None,
    ) -> None:
        self.runs = self.loop_cycles = 0
        self._model = model
        self._run_seconds = 0.0
        started = time.perf_counter()
        self._simulation = Runner(
            model.design,
            engine,
            component=model.top,
            runs=runs,
            vcd=None if vcd is None else str(vcd),
            progress=progress,
        )
        self._open_seconds = time.perf_counter() - started

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @in_turn
    def close(self) -> None:
        """End the simulation."""
        self._simulation.close()

    @in_turn
    def continue_from(self, other: Session) -> None:
        """Take over the runs of another session and the contents of its memories."""
        self.runs = other.runs
        self._simulation.restore(other._simulation.kept())

    @cached_property
    def state(self) -> ModelState:
        """The state that the next run continues from, by name; see `ModelState`."""
        return ModelState(self._model.tensors, self._read_state, self._write_state)

    @in_turn
    def _read_state(self, tensor: StateTensor) -> np.ndarray:
        return self._simulation.read_buffer(tensor.number)

    @in_turn
    def _write_state(self, tensor: StateTensor, array: np.ndarray) -> None:
        self._simulation.write_buffer(tensor.number, array)

    @in_turn
    def reset(self) -> None:
        """Start over: the state has its first contents."""
        self.state.reset()

    @property
    def engine(self) -> str:
        """Name of the engine that runs."""
        return self._simulation.engine

    @property
    def is_spent(self) -> bool:
        """Whether the runs have taken more time than opening the simulation."""
        return self._run_seconds > self._open_seconds

    def run(self, *inputs: Any, codes: bool | None = None, **variables: int) -> SimulationResult:
        """Run once; see `Accelerator.simulate`."""
        return self.run_bound(self._model.bind(*inputs), self._model.values(*inputs, **variables), codes)

    @in_turn
    def run_bound(
        self, named: Mapping[str, np.ndarray], values: Mapping[str, int], codes: bool | None = None
    ) -> SimulationResult:
        """Run once on input buffers and values of run-time variables, by name.

        Parameters
        ----------
        named : mapping of str to ndarray
            Contents of the input buffers, by name.
        values : mapping of str to int
            Values of the run-time variables.
        codes : bool, optional
            Whether outputs of a quantized model are integers; as the model does unless given.
        """
        started = time.perf_counter()
        run = self._simulation.run(named, values)
        return self._result(run, time.perf_counter() - started, codes)

    @in_turn
    def run_batch(
        self,
        inputs: Iterable[Any],
        *,
        advance: Callable[[int], None] = lambda runs: None,
        codes: bool | None = None,
    ) -> list[SimulationResult]:
        """Run many inputs, several at once in one model where that is faster; results are those of `run`.

        Parameters
        ----------
        inputs : iterable
            One item for each run: an array, or a tuple or dict of them for a model of several inputs, whose run-time
            variables may be among them: bound ones in a tuple, integers by name in a dict.
        advance : callable, optional
            Called with the number of runs that have ended since the last call.
        codes : bool, optional
            As for `Accelerator.simulate`.

        Raises
        ------
        InputError
            For a missing input, or one of another shape or dtype.
        """
        items = [x if isinstance(x, tuple) else (x,) for x in inputs]
        bound = [self._model.bind(*x) for x in items]
        values = [self._model.values(*x) for x in items]
        started = time.perf_counter()
        with step(f"simulating {len(bound)} inputs of {self._model.design.program.name}"):
            runs = self._simulation.run_batch(bound, values, advance)
        each = (time.perf_counter() - started) / max(1, len(runs))
        return [self._result(run, each, codes) for run in runs]

    def generate(
        self,
        first: Any,
        *,
        stop: Any = None,
        limit: int | None = None,
        feedback: str | None = None,
        counter: str | None = None,
        start: int | None = None,
    ) -> Iterator[Any]:
        """Results that are fed back; see `Accelerator.generate`.

        Parameters
        ----------
        first : array or sequence of arrays
            The first input, or several: results start with that of the last one.
        stop : array or number, optional
            The result whose output equals it is the last one.
        limit : int, optional
            Most results; may be left out where a counter ends.
        feedback, counter : str, optional
            Names of the output and of the run-time variable; the only ones that fit unless given.
        start : int, optional
            First value of the counter; its lowest unless given.

        Raises
        ------
        InputError
            When there is not one such input, output or variable, or nothing ends the runs.
        """
        captured = self._model.captured

        def run(value: np.ndarray, values: Mapping[str, Any]) -> tuple[Any, Sequence[Any]]:
            output = self.run(value, **values).output
            return output, captured.flat(output)

        return generated(
            captured,
            self._model.design,
            run,
            self.run_loop if self._model.loops else None,
            first,
            stop=stop,
            limit=limit,
            feedback=feedback,
            counter=counter,
            start=start,
        )

    @in_turn
    def run_loop(
        self, value: np.ndarray, values: Mapping[str, int], results: int, stop: int | None
    ) -> list[tuple[Any, np.ndarray]]:
        """Start the loop of the design.

        Parameters
        ----------
        value : ndarray
            The first input.
        values : mapping of str to int
            Of run-time variables in the first run.
        results : int
            Most results.
        stop : int, optional
            Bits of the elements of the last result.

        Returns
        -------
        list of (result, ndarray)
            The model's result, and the output that is fed back.
        """
        model, started = self._model, time.perf_counter()
        named, all_values = model.bind(value), model.values(value, **values)
        found, cycles = self._simulation.generate(named, all_values, results, stop)
        self._run_seconds += time.perf_counter() - started
        self.runs += len(found)
        self.loop_cycles += cycles
        shape = model.captured.outputs[0].shape
        return [(model.restored([array], None), array.reshape(shape)) for array in found]

    def _result(self, run: Run, seconds: float, codes: bool | None) -> SimulationResult:
        self.runs += 1
        self._run_seconds += seconds
        cycles = Cycles(run.load, run.compute, run.readback, run.kernels)
        output, raw = (self._model.restored(run.outputs, choice) for choice in (codes, True))
        return SimulationResult(output, cycles, self.engine, seconds, raw)


class OpenSessions:
    """The open session of each engine, for runs that continue from each other."""

    def __init__(self) -> None:
        self.by_engine: dict[str, Session] = {}

    def get(self, open_session: Callable[..., Session], engine: str) -> Session:
        """Return the session of an engine.

        The engine of ``auto`` is selected again, for twice as many runs, once the runs have taken as long as opening
        the session.

        Parameters
        ----------
        open_session : callable
            ``(engine, runs=n) -> Session``.
        """
        session = self.by_engine.get(engine)
        if session is None:
            session = self.by_engine[engine] = open_session(engine)
        elif engine == "auto" and session.is_spent:
            newer = open_session(engine, runs=2 * session.runs)
            newer.continue_from(session)
            session.close()
            session = self.by_engine[engine] = newer
        return session

    def close(self) -> None:
        """End all simulations."""
        for session in self.by_engine.values():
            session.close()
        self.by_engine.clear()
