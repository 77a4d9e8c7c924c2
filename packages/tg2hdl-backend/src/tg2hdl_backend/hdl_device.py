"""The tinygrad device HDL: kernels run on the golden model or on simulated hardware."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tg2hdl_backend.hdl_renderer import HDLRenderer
from tg2hdl_backend.kernel_runner import KernelRunner
from tg2hdl_backend.tinygrad_adapter.host_device import HostDevice, HostProgram, shows_kernels
from tg2hdl_ir import IRBufStore, IROp, IRRegStore, IRValue, KernelIR, LoopIR

if TYPE_CHECKING:
    from tg2hdl_backend.kernel_runner import KernelRun

__all__ = ["GoldenCPUDevice", "HDLDevice", "HDLProgram", "describe_run"]


def describe_run(kernel: KernelIR, run: KernelRun, variables: Mapping[str, int], multipliers: int) -> str:
    """Cycles of a run, and cycles x multipliers / multiplications: 1.0 when all are always busy.

    Parameters
    ----------
    kernel : KernelIR
    run : KernelRun
    variables : mapping of str to int
        Values by name.
    multipliers : int
        Of the design.
    """
    work = _count_multiplications(kernel, variables)
    ratio = f", ratio {run.cycles * multipliers / work:.2f}" if work else ""
    return f"    hdl {kernel.name}: {run.cycles:,} cycles{ratio} ({run.engine})"


def _count_multiplications(kernel: KernelIR, variables: Mapping[str, int]) -> int:
    """Multiplications of data that one run of a kernel does; those of addresses do not count."""
    from tg2hdl_ir.golden.kernel import scalar

    def count(loop: LoopIR) -> int:
        seen: set[int] = set()
        here = sum(
            _multiplications(s.value, seen) for s in loop.items if isinstance(s, IRBufStore | IRRegStore)
        )
        inner = sum(count(item) for item in loop.items if isinstance(item, LoopIR))
        return max(0, scalar(loop.bound, variables)) * (here + inner)

    return count(kernel.loop_tree)


def _multiplications(value: IRValue, seen: set[int]) -> int:
    stack, found = [value], 0
    while stack:
        node = stack.pop()
        if id(node) in seen or not isinstance(node, IROp):
            continue
        seen.add(id(node))
        found += node.op in ("mul", "mulacc")
        stack.extend(node.srcs)
    return found


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
