"""Runners: where points are planned and estimated; the results are the same in this process and in a pool."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Protocol, TypeAlias

from tg2hdl.exploration.figures import Figures, Planner
from tg2hdl_ir.errors import InputError
from tg2hdl_ir.program import ProgramIR
from tg2hdl_top import CompileOptions

__all__ = ["PoolRunner", "Runner", "SerialRunner", "runner_for"]

_Result: TypeAlias = tuple[CompileOptions, Figures]


class Runner(Protocol):
    """Where figures are made."""

    def planned(self, ladders: Iterable[Sequence[CompileOptions]]) -> Iterator[_Result]:
        """Options with the figures of their plans; each ladder differs only in multipliers."""

    def estimated(self, options: Iterable[CompileOptions]) -> Iterator[_Result]:
        """Options with the estimates of their cells, in their order."""

    def close(self) -> None:
        """End the processes that it has started."""


class SerialRunner:
    """In this process; parameters as of `Planner`."""

    def __init__(self, program: ProgramIR, values: Mapping[str, int], part: str) -> None:
        self._planner = Planner(program, values, part)

    def planned(self, ladders: Iterable[Sequence[CompileOptions]]) -> Iterator[_Result]:
        """One plan after the other."""
        for ladder in ladders:
            for options in ladder:
                yield options, self._planner.planned([options])[0]

    def estimated(self, options: Iterable[CompileOptions]) -> Iterator[_Result]:
        """One estimate after the other."""
        for each in options:
            yield each, self._planner.estimated(each)

    def close(self) -> None:
        """Nothing was started."""


class PoolRunner:
    """In a pool of processes of this machine; parameters as of `Planner`, and the number of processes."""

    def __init__(self, program: ProgramIR, values: Mapping[str, int], part: str, workers: int) -> None:
        # Not forked: a thread of this process may hold a lock.
        context = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(workers, context, _start, (program, dict(values), part))

    def planned(self, ladders: Iterable[Sequence[CompileOptions]]) -> Iterator[_Result]:
        """A ladder in each process, so that its points share plans."""
        given = [list(ladder) for ladder in ladders]
        for ladder, figures in zip(given, self._pool.map(_plan, given), strict=True):
            yield from zip(ladder, figures, strict=True)

    def estimated(self, options: Iterable[CompileOptions]) -> Iterator[_Result]:
        """A point in each process."""
        given = list(options)
        yield from zip(given, self._pool.map(_estimate, given), strict=True)

    def close(self) -> None:
        """End the processes; points that wait are not begun."""
        self._pool.shutdown(wait=True, cancel_futures=True)


def runner_for(program: ProgramIR, values: Mapping[str, int], part: str, workers: int = 1) -> Runner:
    """The runner for a number of processes.

    Raises
    ------
    InputError
        When it is not a positive number.
    """
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise InputError(
            f"workers={workers!r} is not a positive integer", hint="give the number of processes, e.g. 2"
        )
    if workers == 1:
        return SerialRunner(program, values, part)
    return PoolRunner(program, values, part, workers)


_planner: Planner | None = None
"""That of a process of a pool."""


def _start(program: ProgramIR, values: dict[str, int], part: str) -> None:
    global _planner
    _planner = Planner(program, values, part)


def _plan(ladder: list[CompileOptions]) -> list[Figures]:
    assert _planner is not None, "the pool has started it"
    return _planner.planned(ladder)


def _estimate(options: CompileOptions) -> Figures:
    assert _planner is not None, "the pool has started it"
    return _planner.estimated(options)
