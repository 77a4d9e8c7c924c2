"""The tinygrad device HDL: kernels run on the golden model or on simulated hardware."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from tinygrad.device import Allocator, Compiled
from tinygrad.helpers import DEBUG, DEV, NOOPT

from tg2hdl_backend.kernel_runner import KernelRunner
from tg2hdl_backend.run_report import describe_run
from tg2hdl_backend.tinygrad_adapter.renderer import HDLRenderer

__all__ = ["HDLAllocator", "HDLDevice", "HDLProgram"]


class HDLAllocator(Allocator):  # type: ignore[type-arg]
    """Buffers in host memory; a kernel's memories are filled from them and read back."""

    def _alloc(self, size: int, options: Any) -> memoryview:
        return memoryview(bytearray(size))

    def _free(self, opaque: memoryview, options: Any) -> None:
        pass

    def _as_buffer(self, src: memoryview) -> memoryview:
        return src

    def _copyin(self, dest: memoryview, src: memoryview) -> None:
        dest[:] = src.cast("B") if src.format != "B" or src.ndim != 1 else src

    def _copyout(self, dest: memoryview, src: memoryview) -> None:
        dest[:] = src

    def _map(self, buf: memoryview) -> memoryview:
        return buf

    def _offset(self, buf: memoryview, size: int, offset: int) -> memoryview:
        return buf[offset : offset + size]


class HDLProgram:
    """A compiled kernel that runs on buffers of the device."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        lib = next(
            (a for a in args if isinstance(a, bytes)), None
        )  # tinygrad 0.13 passes (name, lib), 0.14 (dev, obj)
        if lib is None:
            lib = args[1].lib
        self.runner = KernelRunner.from_source(lib.decode())

    def __call__(
        self,
        *bufs: memoryview,
        global_size: Sequence[int] = (1, 1, 1),
        local_size: Sequence[int] | None = (1, 1, 1),
        vals: Sequence[int | None] = (),
        wait: bool = False,
        timeout: int | None = None,
        **kwargs: Any,
    ) -> float:
        """Run once; the result is the time that the hardware needs, or that the golden model took (s)."""
        kernel = self.runner.kernel
        arrays = {
            meta.idx: np.frombuffer(buf, meta.dtype.numpy())[: meta.depth]
            for meta, buf in zip(kernel.buffers, bufs, strict=True)
        }
        variables = {v.name: int(x or 0) for v, x in zip(kernel.variables, vals, strict=True)}
        start = time.perf_counter()
        run = self.runner.run(arrays, variables)
        if run is None:
            return time.perf_counter() - start
        if DEBUG >= 2:
            print(describe_run(kernel, run, variables, self.runner.options.multipliers))
        return run.seconds


class HDLDevice(Compiled):
    """``Tensor(..., device="HDL")``, ``DEV=HDL`` or ``DEV=HDL::engine=golden,multipliers=16``."""

    def __init__(self, device: str) -> None:
        super().__init__(device, HDLAllocator(self), [HDLRenderer], HDLProgram)  # type: ignore[list-item]
        # tinygrad's unrolling and upcasting is made for processors; hardware gets its lanes from plain loops.
        if DEV.device == "HDL" and "NOOPT" not in os.environ:
            NOOPT.value = 1
