"""Compile one kernel to hardware and simulate it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_backend.memory_words import from_words, to_words
from tg2hdl_backend.optional_use import may_stay_unused
from tg2hdl_backend.tinygrad_adapter import uops_to_kernel_ir
from tg2hdl_ir.errors import InputError
from tg2hdl_ir.nodes import KernelIR
from tg2hdl_ir.pipeline import rewrite_kernel
from tg2hdl_ir.program import KernelCall, ProgramBuffer, ProgramIR
from tg2hdl_lower import CompiledKernel, HardwarePlan
from tg2hdl_sim import Simulation, SimulationModel, open_simulation
from tg2hdl_top import CompileOptions
from tg2hdl_top.placement import place_program

__all__ = ["compile_kernel", "plan_of_kernel", "program_of_kernel", "simulate_kernel"]


def program_of_kernel(kernel: KernelIR) -> ProgramIR:
    """Program of one kernel: every buffer is an input, and those that it writes are outputs too."""
    buffers = tuple(
        ProgramBuffer(b.name or f"b{b.idx}", b.dtype, (b.depth,), "input") for b in kernel.buffers
    )
    written = tuple(n for n, b in enumerate(kernel.buffers) if b.is_output)
    call = KernelCall(kernel, tuple(range(len(buffers))))
    return ProgramIR(kernel.name, buffers, (call,), written, kernel.variables)


def plan_of_kernel(kernel: KernelIR, options: CompileOptions | None = None) -> HardwarePlan:
    """Hardware plan of a kernel by itself."""
    return place_program(program_of_kernel(kernel), options or CompileOptions())[0]


def compile_kernel(
    uops: Sequence[Any], *, unroll_factor: int = 1, reduce_unroll_factor: int = 1
) -> CompiledKernel:
    """Compile linearized UOps to hardware with memories of its own.

    Parameters
    ----------
    uops : sequence of UOp
    unroll_factor, reduce_unroll_factor : int
        Lanes over the innermost independent axis and over the innermost reduction axis.

    Raises
    ------
    UnsupportedError
        For an op or dtype without hardware.
    """
    kernel, infos = uops_to_kernel_ir(uops)
    options = CompileOptions(unroll_factor=unroll_factor, reduce_unroll_factor=reduce_unroll_factor)
    return may_stay_unused(CompiledKernel(plan_of_kernel(rewrite_kernel(kernel), options), infos))


def simulate_kernel(
    kernel: CompiledKernel,
    input_data: Mapping[int, npt.NDArray[Any]],
    clock_period: float = 1e-8,
    *,
    variables: Mapping[str, int] | None = None,
    engine: str = "auto",
) -> tuple[npt.NDArray[Any], int, float]:
    """Simulate a kernel cycle by cycle.

    Parameters
    ----------
    input_data : mapping of int to ndarray
        Contents of buffers by slot; others start with zeros.
    clock_period : float
        Period of the simulated clock (s); no result depends on it.

    Returns
    -------
    output : ndarray
        Flat contents of the first buffer that the kernel writes.
    cycles : int
        Clock cycles from start to done.
    wall_time : float
        Time that the simulation took (s).

    Raises
    ------
    InputError
        For a buffer that the kernel does not have, or contents that do not fit it.
    """
    if clock_period <= 0:
        raise InputError(f"clock_period is {clock_period} s", hint="give a positive time, e.g. 1e-8")
    plan = kernel.plan
    started = time.perf_counter()
    limit = 2 * plan.cycles({v.name: v.high for v in plan.kernel.variables}) + 1000
    words = sum(layout.words for layout in plan.layouts.values())
    with open_simulation(SimulationModel(kernel), engine=engine, expected_cycles=limit + words) as simulation:
        for slot, array in input_data.items():
            _load(simulation, plan, slot, array)
        for name, value in (variables or {}).items():
            simulation.set(f"var_{name}", value)
        simulation.set("start", 1)
        simulation.step()
        simulation.set("start", 0)
        cycles = 1 + simulation.run_until("done", limit=limit)
        simulation.step()
        slot = next(b.idx for b in plan.kernel.buffers if b.is_output)
        output = _read(simulation, plan, slot)
    return output, cycles, time.perf_counter() - started


def _load(simulation: Simulation, plan: HardwarePlan, slot: int, array: npt.NDArray[Any]) -> None:
    if slot not in plan.layouts:
        raise InputError(
            f"kernel {plan.kernel.name} has no buffer {slot}",
            hint="its buffers are " + ", ".join(str(b.idx) for b in plan.kernel.buffers),
        )
    meta, layout, storage = plan.kernel.buffer(slot), plan.layouts[slot], plan.storage[slot]
    array = np.asarray(array)
    if array.size != meta.depth or array.dtype != meta.dtype.numpy():
        raise InputError(
            f"buffer {slot} of kernel {plan.kernel.name} has {meta.depth} elements of {meta.dtype.numpy()}, "
            f"got {array.size} of {array.dtype}",
            hint="reshape or convert the array",
        )
    packed = to_words(layout.pack(array, storage), storage.bit_width)
    addresses = np.arange(layout.words)
    simulation.write_stream(f"waddr_{slot}", f"wdata_{slot}", f"wen_{slot}", addresses, packed)


def _read(simulation: Simulation, plan: HardwarePlan, slot: int) -> npt.NDArray[Any]:
    layout = plan.layouts[slot]
    words = simulation.read_stream(
        f"raddr_{slot}",
        f"rdata_{slot}",
        np.arange(layout.words),
        latency=plan.read_latency,
        signed=False,
    )
    return from_words(words, layout, plan.storage[slot]).astype(plan.kernel.buffer(slot).dtype.numpy())
