"""Run a tinygrad graph on simulated hardware and compare it with tinygrad's own result."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from tg2hdl_backend.agreement import agreement
from tg2hdl_backend.runner import Runner
from tg2hdl_backend.tinygrad_adapter import capture
from tg2hdl_backend.tinygrad_adapter.own_result import own_result
from tg2hdl_top import CompileOptions, compile_program

__all__ = ["BenchResult", "run_bench"]


@dataclass(frozen=True)
class BenchResult:
    """Outcome of a benchmark.

    Parameters
    ----------
    name : str
        Of the benchmark.
    correct : bool
        Whether all elements of all outputs agree within the tolerance; a NaN only with a NaN.
    max_abs_error : float
        Largest difference from tinygrad's own result.
    hdl_cycles : int
        Clock cycles from start to done.
    sim_wall_s, tg_wall : float
        Time of the simulation, and of tinygrad's interpreter (s).
    output_hdl, output_ref : ndarray
        The first output.
    """

    name: str
    correct: bool
    max_abs_error: float
    hdl_cycles: int
    sim_wall_s: float
    tg_wall: float
    output_hdl: npt.NDArray[Any]
    output_ref: npt.NDArray[Any]

    def __str__(self) -> str:
        verdict = "ok   " if self.correct else "WRONG"
        return (
            f"{verdict} {self.name}: {self.hdl_cycles} cycles, error {self.max_abs_error:.3g}, "
            f"simulation {self.sim_wall_s:.2f} s, tinygrad {self.tg_wall:.2f} s"
        )


def run_bench(
    name: str,
    build_fn: Callable[..., Any],
    input_arrays: Sequence[npt.NDArray[Any]],
    *,
    options: CompileOptions | None = None,
    engine: str = "auto",
    tolerance: float = 1e-6,
) -> BenchResult:
    """Run a graph of one or more kernels on the hardware simulation and in tinygrad.

    Parameters
    ----------
    name : str
        Of the benchmark, for the result.
    build_fn : callable
        Takes one Tensor per array, returns a Tensor.
    input_arrays : sequence of ndarray
        Contents of the Tensors, in their shapes and types.
    options : CompileOptions, optional
        Default options unless given.
    engine : str
        Name of a simulation engine, or ``auto``.
    tolerance : float
        Allowed difference relative to the largest element of each result; 0 for integers.
    """
    captured = capture(build_fn, *input_arrays, name=name)
    started = time.perf_counter()
    references = own_result(build_fn, *input_arrays)
    tg_wall = time.perf_counter() - started
    design = compile_program(captured.program, options)
    contents = captured.bind(*input_arrays)
    started = time.perf_counter()
    with Runner(design, engine) as runner:
        run = runner.run(contents, captured.var_vals)
    wall = time.perf_counter() - started
    outputs = [array.reshape(spec.shape) for array, spec in zip(run.outputs, captured.outputs, strict=True)]
    found = [
        agreement(output, reference, spec.dtype, tolerance)
        for output, reference, spec in zip(outputs, references, captured.outputs, strict=True)
    ]
    correct = all(a.agrees for a in found)
    error = max(a.error for a in found)
    return BenchResult(name, correct, error, run.compute, wall, tg_wall, outputs[0], references[0])
