"""Simulate a top module cycle by cycle through its host ports."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_backend.memory_words import from_words, to_words
from tg2hdl_backend.schedule_compiler import KernelSpec
from tg2hdl_ir.errors import InputError
from tg2hdl_sim import Simulation, SimulationModel, open_simulation
from tg2hdl_top import SharedMemory, TopModule

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
    input_data : mapping of (kernel, buf) to ndarray
        Contents of every input that no kernel produces; one slot per memory is enough.
    clock_period : float
        Period of the simulated clock (s); no result depends on it.
    kernel_specs : sequence of KernelSpec
        Of `compile_top_module`: gives the contents that tinygrad knows (weights) where `input_data` has none.

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
    contents = _contents(top, input_data, kernel_specs)
    started = time.perf_counter()
    highest = {v.name: v.high for plan in top.plans for v in plan.kernel.variables}
    limit = 2 * sum(top.predicted_cycles(highest)) + 1000
    words = sum(m.layout.words for m in top.memories if m.external or m.output)
    with open_simulation(SimulationModel(top), engine=engine, expected_cycles=limit + words) as simulation:
        load = sum(
            _load(simulation, memory, contents[memory.name]) for memory in top.memories if memory.external
        )
        for name, value in (variables or {}).items():
            simulation.set(f"var_{name}", value)
        simulation.set("start", 1)
        simulation.step()
        simulation.set("start", 0)
        kernels = [
            simulation.run_until(f"kernel_{number}_done", limit=limit) for number in range(len(top.plans))
        ]
        kernels[0] += 1
        compute = sum(kernels)
        before = simulation.cycles
        simulation.step()  # in the cycle of done the last write is still on its way
        output = _read(simulation, top, top.memory(top.outputs[0]))
        readback = simulation.cycles - before
    states = {f"kernel{n}": cycles for n, cycles in enumerate(kernels)}
    counts = {
        "load": load,
        "compute": compute,
        "readback": readback,
        "total": load + compute + readback,
        "states": states,
    }
    return output, counts, time.perf_counter() - started


def _contents(
    top: TopModule, input_data: Mapping[Slot, npt.NDArray[Any]], specs: Sequence[KernelSpec]
) -> dict[str, npt.NDArray[Any]]:
    known = {s: m for m in top.memories for s in m.slots}
    found: dict[str, npt.NDArray[Any]] = {}
    for number, spec in enumerate(specs):
        for slot, array in spec.initial.items():
            found[known[number, slot].name] = array
    for slot, array in input_data.items():
        if slot not in known or not known[slot].external:
            raise InputError(
                f"{slot} is no input of the design",
                hint="inputs (kernel, buf): " + ", ".join(str(s) for s in top.ext_write_ports),
            )
        memory = known[slot]
        array = np.asarray(array)
        dtype = top.plans[slot[0]].kernel.buffer(slot[1]).dtype.numpy()
        if array.size != memory.layout.depth or array.dtype != dtype:
            raise InputError(
                f"input {slot} has {memory.layout.depth} elements of {dtype}, "
                f"got {array.size} of {array.dtype}",
                hint="reshape or convert the array",
            )
        found[memory.name] = array
    missing = [m.slots[0] for m in top.memories if m.external and m.name not in found]
    if missing:
        raise InputError(
            "no data for input " + ", ".join(str(s) for s in missing),
            hint="pass input_data={(kernel, buf): array}, and kernel_specs=... for what tinygrad knows",
        )
    return found


def _load(simulation: Simulation, memory: SharedMemory, array: npt.NDArray[Any]) -> int:
    name, layout = memory.name, memory.layout
    words = to_words(layout.pack(array, memory.dtype), memory.dtype.bit_width)
    addresses = np.arange(layout.words)
    return simulation.write_stream(f"{name}_waddr", f"{name}_wdata", f"{name}_wen", addresses, words)


def _read(simulation: Simulation, top: TopModule, memory: SharedMemory) -> npt.NDArray[Any]:
    words = simulation.read_stream(
        f"{memory.name}_raddr",
        f"{memory.name}_rdata",
        np.arange(memory.layout.words),
        latency=top.read_latency,
        signed=False,
    )
    kernel, buffer = memory.slots[0]
    dtype = top.plans[kernel].kernel.buffer(buffer).dtype.numpy()
    return from_words(words, memory.layout, memory.dtype).astype(dtype)
