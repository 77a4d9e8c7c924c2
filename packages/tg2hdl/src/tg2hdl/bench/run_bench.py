"""One tinygrad graph on simulated hardware against tinygrad's own result."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tg2hdl.accelerator import compile_model_to_hardware

__all__ = ["BenchResult", "run_bench"]


@dataclass(frozen=True, eq=False)
class BenchResult:
    """Result of `run_bench`.

    Parameters
    ----------
    correct : bool
        Whether the hardware agrees with tinygrad: equal for integers, within `tolerance` for floats.
    max_abs_error : float
    hdl_cycles : int
        From start to done.
    sim_wall_s, tg_wall : float
        Seconds of the simulation and of tinygrad.
    output_hdl, output_ref : ndarray
    """

    name: str
    correct: bool
    max_abs_error: float
    hdl_cycles: int
    sim_wall_s: float
    tg_wall: float
    output_hdl: Any
    output_ref: Any

    def __str__(self) -> str:
        verdict = "ok" if self.correct else "WRONG"
        return (
            f"{self.name}: {verdict}, max |error| {self.max_abs_error:g}, {self.hdl_cycles:,} cycles, "
            f"simulation {self.sim_wall_s:.2f} s, tinygrad {self.tg_wall:.2f} s"
        )


def run_bench(
    name: str,
    build_fn: Callable[..., Any],
    input_arrays: Sequence[np.ndarray],
    *,
    tolerance: float = 1e-5,
    engine: str = "auto",
    **options: Any,
) -> BenchResult:
    """Compile, simulate and compare.

    Parameters
    ----------
    build_fn : callable
        Function of tensors that gives a tensor.
    input_arrays : sequence of ndarray
        One per parameter.
    tolerance : float
        Largest difference of a float, relative to the largest magnitude of the reference.
    options
        As for `tg2hdl.compile`.
    """
    from tinygrad import Tensor

    accelerator = compile_model_to_hardware(build_fn, *input_arrays, name=name, **options)
    run = accelerator.simulate(*input_arrays, engine=engine)
    started = time.perf_counter()
    reference = build_fn(*(Tensor(array) for array in input_arrays)).numpy()
    tg_wall = time.perf_counter() - started
    output = np.asarray(run.output)
    error = np.abs(output.astype(np.float64) - reference.astype(np.float64))
    largest = float(error.max(initial=0.0))
    if np.issubdtype(reference.dtype, np.floating):
        correct = largest <= tolerance * max(1.0, float(np.abs(reference).max(initial=0.0)))
    else:
        correct = largest == 0
    same_form = output.shape == reference.shape and output.dtype == reference.dtype
    return BenchResult(
        name, correct and same_form, largest, run.cycles.compute, run.seconds, tg_wall, output, reference
    )
