"""Compile one kernel to hardware and simulate it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_backend.runner import Runner
from tg2hdl_backend.tinygrad_adapter import uops_to_kernel_ir
from tg2hdl_ir import InputError
from tg2hdl_lower import CompiledKernel, HardwarePlan
from tg2hdl_top import CompileOptions, compile_program, program_of_kernel
from tg2hdl_top.joining import join_kernels

__all__ = ["compile_kernel", "simulate_kernel"]


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
    options = CompileOptions(
        unroll_factor=unroll_factor, reduce_unroll_factor=reduce_unroll_factor, cut_kernels=False
    )
    design = compile_program(program_of_kernel(kernel), options)
    return CompiledKernel(design.kernels[0], infos)


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
    kernel : CompiledKernel
    input_data : mapping of int to ndarray
        Contents of buffers by slot; others start with zeros.
    clock_period : float
        Period of the simulated clock (s); no result depends on it.
    variables : mapping of str to int, optional
        Values of the run-time variables.
    engine : str
        Name of a simulation engine, or ``auto``.

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
    contents = {b.idx: np.zeros(b.depth, b.dtype.numpy()) for b in plan.kernel.buffers}
    for slot, array in input_data.items():
        contents[slot] = _checked(plan, slot, array)
    slots = [(0, idx) for idx in contents]
    design = join_kernels([plan], external=slots, names={slot: f"b{slot[1]}" for slot in slots})
    started = time.perf_counter()
    with Runner(design, engine, component=kernel) as runner:
        run = runner.run({f"b{idx}": array for idx, array in contents.items()}, variables)
    return run.outputs[0], run.compute, time.perf_counter() - started


def _checked(plan: HardwarePlan, slot: int, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if slot not in plan.layouts:
        raise InputError(
            f"kernel {plan.kernel.name} has no buffer {slot}",
            hint="its buffers are " + ", ".join(str(b.idx) for b in plan.kernel.buffers),
        )
    meta, array = plan.kernel.buffer(slot), np.asarray(array)
    if array.size != meta.depth or array.dtype != meta.dtype.numpy():
        raise InputError(
            f"buffer {slot} of kernel {plan.kernel.name} has {meta.depth} elements of {meta.dtype.numpy()}, "
            f"got {array.size} of {array.dtype}",
            hint="reshape or convert the array",
        )
    return array
