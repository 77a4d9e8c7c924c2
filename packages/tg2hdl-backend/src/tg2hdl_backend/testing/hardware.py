"""Compare simulated hardware with the golden model, bit for bit."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tg2hdl_backend.runner import Runner
from tg2hdl_backend.tinygrad_adapter.capture import capture
from tg2hdl_ir import evaluate_program
from tg2hdl_top import CompileOptions, compile_program

__all__ = ["HardwareComparison", "compare_with_hardware"]


@dataclass(frozen=True)
class HardwareComparison:
    """Outcome of a comparison.

    Parameters
    ----------
    mismatches : tuple of str
        A line per output that differs, or about a wrong number of cycles.
    kernels, cycles, predicted : int
        Kernels of the program; clock cycles from start to done, simulated and predicted.
    engine : str
        Simulation engine.
    simulated : int
        Clock cycles with the writing of inputs and the reading of outputs.
    seconds : float
        Time that their simulation took, without building it (s).
    """

    mismatches: tuple[str, ...]
    kernels: int
    cycles: int
    predicted: int
    engine: str
    simulated: int
    seconds: float


def compare_with_hardware(
    model: Callable[..., Any], *inputs: Any, engine: str = "auto", options: CompileOptions | None = None
) -> HardwareComparison:
    """Compile a model, simulate it and compare all outputs with the golden model.

    Parameters
    ----------
    model : callable
        Function of tensors.
    *inputs
        Example inputs, also bound Variables.
    engine : str, default "auto"
        Name, or ``"auto"``.
    options : CompileOptions, optional
    """
    captured = capture(model, *inputs)
    design = compile_program(captured.program, options)
    program = design.program
    arrays = [i for i in inputs if not hasattr(i, "unbind")]
    named = captured.bind(*arrays)
    golden = evaluate_program(program, named, captured.var_vals)
    with Runner(design, engine) as runner:
        started = time.perf_counter()
        run = runner.run(named, captured.var_vals)
        seconds = time.perf_counter() - started
        used = runner.engine
    found = []
    for number, array in zip(program.outputs, run.outputs, strict=True):
        buffer = program.buffers[number]
        expected = buffer.dtype.array_to_bits(golden[buffer.name].reshape(-1))
        got = buffer.dtype.array_to_bits(array.astype(buffer.dtype.numpy(), copy=False))
        wrong = np.flatnonzero(expected != got)
        if wrong.size:
            n = int(wrong[0])
            found.append(
                f"{buffer.name}: {wrong.size} of {got.size} elements differ, "
                f"first at {n}: hardware {int(got[n]):#x}, golden {int(expected[n]):#x}"
            )
    predicted = design.predicted_cycles(captured.var_vals)
    if predicted != run.compute:
        found.append(f"{run.compute} cycles, predicted {predicted}")
    return HardwareComparison(
        tuple(found), len(program.calls), run.compute, predicted, used, run.total, seconds
    )
