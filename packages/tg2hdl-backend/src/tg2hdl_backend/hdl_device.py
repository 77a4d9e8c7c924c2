"""The tinygrad device HDL: kernels run on the golden model or on simulated hardware."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from tg2hdl_backend.hdl_renderer import HDLRenderer
from tg2hdl_backend.kernel_runner import KernelRunner
from tg2hdl_backend.run_report import describe_run
from tg2hdl_backend.tinygrad_adapter.host_device import HostDevice, HostProgram, shows_kernels

__all__ = ["GoldenCPUDevice", "HDLDevice", "HDLProgram"]


class HDLProgram(HostProgram):
    """A compiled kernel that runs on buffers of the device."""

    def load(self, lib: bytes) -> None:
        """Read the printed kernel."""
        self.runner = KernelRunner.from_source(lib.decode())

    def run(self, buffers: Sequence[memoryview], values: Sequence[int]) -> float:
        """Run once; the result is the time that the hardware needs, or that the golden model took (s)."""
        kernel = self.runner.kernel
        arrays = {
            meta.idx: np.frombuffer(buf, meta.dtype.numpy())[: meta.depth]
            for meta, buf in zip(kernel.buffers, buffers, strict=True)
        }
        variables = {v.name: x for v, x in zip(kernel.variables, values, strict=True)}
        start = time.perf_counter()
        run = self.runner.run(arrays, variables)
        if run is None:
            return time.perf_counter() - start
        if shows_kernels():
            print(describe_run(kernel, run, variables, self.runner.options.multipliers))
        return run.seconds


class HDLDevice(HostDevice):
    """``Tensor(..., device="HDL")``, ``DEV=HDL`` or ``DEV=HDL::engine=golden,multipliers=16``."""

    def __init__(self, device: str) -> None:
        super().__init__(device, HDLRenderer, HDLProgram)


class GoldenCPUDevice(HostDevice):
    """tinygrad's device ``CPU`` where clang is missing: the golden model computes, and no hardware is planned."""

    def __init__(self, device: str = "CPU") -> None:
        super().__init__(device, HDLRenderer, HDLProgram, arch="engine=golden")
