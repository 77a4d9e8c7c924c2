"""Simulate a top module cycle by cycle through its host ports."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_backend.runner import Runner
from tg2hdl_backend.schedule_compiler import KernelSpec
from tg2hdl_ir import InputError
from tg2hdl_top import TopModule

__all__ = ["simulate_top"]

Slot = tuple[int, int]


def simulate_top(
    top: TopModule,
    input_data: Mapping[Slot, npt.NDArray[Any]],
    clock_period: float = 1e-8,
    *,
    kernel_specs: Sequence[KernelSpec] = (),
    variables: Mapping[str, int] | None = None,
    engine: str = "auto",
) -> tuple[npt.NDArray[Any], dict[str, Any], float]:
    """Load the inputs, run all kernels once and read the first output.

    Parameters
    ----------
    top : TopModule
    input_data : mapping of (kernel, buf) to ndarray
        Contents of every input that no kernel produces; one slot per memory is enough.
    clock_period : float
        Period of the simulated clock (s); no result depends on it.
    kernel_specs : sequence of KernelSpec
        Of `compile_top_module`: gives the contents that tinygrad knows (weights) where `input_data` has none.
    variables : mapping of str to int, optional
        Values of the run-time variables.
    engine : str
        Name of a simulation engine, or ``auto``.

    Returns
    -------
    output : ndarray
        Flat contents of the first output.
    cycle_counts : dict
        Clock cycles: ``load``, ``compute`` (start pulse to done pulse), ``readback``, ``total``, and
        ``states``, a dict with the cycles of each kernel.
    wall_s : float
        Time that the simulation took (s).

    Raises
    ------
    InputError
        For an input that is missing, unknown or unfit.
    """
    if clock_period <= 0:
        raise InputError(f"clock_period is {clock_period} s", hint="give a positive time, e.g. 1e-8")
    inputs = _inputs(top, input_data, kernel_specs)
    started = time.perf_counter()
    with Runner(top.design, engine, component=top) as runner:
        run = runner.run(inputs, variables)
    counts = {
        "load": run.load,
        "compute": run.compute,
        "readback": run.readback,
        "total": run.total,
        "states": {f"kernel{n}": cycles for n, cycles in enumerate(run.kernels)},
    }
    return run.outputs[0], counts, time.perf_counter() - started


def _inputs(
    top: TopModule, input_data: Mapping[Slot, npt.NDArray[Any]], specs: Sequence[KernelSpec]
) -> dict[str, npt.NDArray[Any]]:
    """Contents of the program's buffers by name."""
    design = top.design
    buffers = {
        slot: design.program.buffers[n]
        for n, memory in design.memories.items()
        if memory.role.host_writes
        for slot in memory.slots
    }
    found = {
        buffers[number, slot].name: array
        for number, spec in enumerate(specs)
        for slot, array in spec.initial.items()
    }
    for slot, array in input_data.items():
        if slot not in buffers:
            raise InputError(
                f"{slot} is not an input of the design",
                hint="inputs (kernel, buf): " + ", ".join(map(str, buffers)),
            )
        buffer, dtype = buffers[slot], buffers[slot].dtype.numpy()
        array = np.asarray(array)
        if array.size != buffer.depth or array.dtype != dtype:
            raise InputError(
                f"input {slot} has {buffer.depth} elements of {dtype}, got {array.size} of {array.dtype}",
                hint="reshape or convert the array",
            )
        found[buffer.name] = array
    missing = {buffer.name: slot for slot, buffer in reversed(buffers.items()) if buffer.name not in found}
    if missing:
        raise InputError(
            "no data for input " + ", ".join(str(slot) for slot in reversed(missing.values())),
            hint="pass input_data={(kernel, buf): array}, and kernel_specs=... for contents that tinygrad knows",
        )
    return found
