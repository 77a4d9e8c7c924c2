"""Many inputs on several workers: each simulates a part of them and compares every bit with the golden model."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from tg2hdl.accelerator import Accelerator
from tg2hdl.bits import same_bits
from tg2hdl.results import Cycles, SimulationResult
from tg2hdl_backend import Run, Runner
from tg2hdl_ir import InputError, SimulationError, evaluate_program
from tg2hdl_ir.workers import Workers
from tg2hdl_top import Design

__all__ = ["simulate_set"]

_Inputs: TypeAlias = tuple[Mapping[str, np.ndarray], Mapping[str, int]]
_PARTS = 2
"""Parts for each worker, so that a slow one holds up few runs."""


@dataclass(frozen=True)
class _SetJob:
    design: Design
    engine: str


def simulate_set(
    accelerator: Accelerator,
    sets: Sequence[tuple[Any, ...]],
    engine: str,
    workers: Workers,
    advance: Callable[[int], None] = lambda runs: None,
) -> list[SimulationResult]:
    """Simulate many inputs on workers, and compare every bit with the golden model.

    Parameters
    ----------
    sets : sequence of tuple
        Inputs of each run.
    engine : str
        As for `Accelerator.simulate`.
    workers : Workers
    advance : callable
        Called with the number of runs that have ended since the last call.

    Returns
    -------
    list of SimulationResult
        Those of `Session.run_batch`; their seconds are those of a worker.

    Raises
    ------
    InputError
        For a model with state, whose runs follow one another.
    SimulationError
        When hardware and golden model differ.
    """
    if accelerator.state.tensors:
        raise InputError(
            f"runs of {accelerator.name} continue from each other: it has state",
            hint="leave out --workers and --cluster",
        )
    given = [(accelerator.bind(*each), accelerator.values(*each)) for each in sets]
    size = -(-len(given) // (_PARTS * workers.width))
    parts = [given[first : first + size] for first in range(0, len(given), size)]
    found: dict[int, tuple[str, float, list[Run], list[bool]]] = {}
    for number, part in workers.run(_simulate, parts, _SetJob(accelerator.design, engine)):
        found[number] = part
        advance(len(part[2]))
    results = []
    for number in range(len(parts)):
        name, seconds, runs, same = found[number]
        if not all(same):
            raise SimulationError(
                f"hardware and golden model of {accelerator.name} differ in run {number * size + same.index(False)}",
                hint="please report this with the model file: they must agree in every bit",
            )
        for run in runs:
            output, codes = (accelerator.restored(run.outputs, choice) for choice in (None, True))
            cycles = Cycles(run.load, run.compute, run.readback, run.kernels)
            results.append(SimulationResult(output, cycles, name, seconds / len(runs), codes))
    return results


def _simulate(job: _SetJob, part: Sequence[_Inputs]) -> tuple[str, float, list[Run], list[bool]]:
    """Engine, seconds and runs of a part, and which of them equal the golden model."""
    design, program = job.design, job.design.program
    inputs, values = [each[0] for each in part], [each[1] for each in part]
    with Runner(design, job.engine, runs=len(part)) as runner:
        started = time.perf_counter()
        runs = runner.run_batch(inputs, values)
        seconds, engine = time.perf_counter() - started, runner.engine
    same = []
    for run, named, own in zip(runs, inputs, values, strict=True):
        results = evaluate_program(
            program, named, own, target=design.options.target, units=design.options.units
        )
        golden = [results[program.buffers[b].name] for b in program.outputs]
        same.append(
            all(same_bits(a.reshape(-1), g.reshape(-1)) for a, g in zip(run.outputs, golden, strict=True))
        )
    return engine, seconds, runs, same
