"""The tinygrad device TINYTPU: kernels are programs of the tensor processor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tinygrad.dtype import DType as TinygradDType
from tinygrad.dtype import dtypes

from tg2hdl_backend import uops_to_kernel_ir
from tg2hdl_backend.tinygrad_adapter.host_device import HostDevice, HostMemory, HostProgram, shows_kernels
from tg2hdl_backend.tinygrad_adapter.renderer import SequentialCompiler, SequentialRenderer
from tg2hdl_tpu.device.image import image
from tg2hdl_tpu.device.options import TinytpuOptions
from tg2hdl_tpu.device.runtime import LoadedKernel

__all__ = ["TINYTPUDevice", "TINYTPURenderer"]


class TINYTPUCompiler(SequentialCompiler):
    """Compiles in tinygrad's compile step, so that unsupported kernels are refused there."""

    def compile(self, src: str) -> bytes:
        """Return the source."""
        LoadedKernel(src).check()
        return src.encode()


class TINYTPURenderer(SequentialRenderer):
    """Renders linearized UOps as printed kernel IR."""

    device = "TINYTPU"
    plain_loops = True  # lanes are made of them
    compiler = TINYTPUCompiler()

    def supported_dtypes(self) -> set[TinygradDType]:
        """Types of at most 32 bits; tinygrad computes integers of 64 bits and fp8 with them."""
        return {
            dtypes.bool,
            *(dtypes.int8, dtypes.int16, dtypes.int32),
            *(dtypes.uint8, dtypes.uint16, dtypes.uint32),
            *(dtypes.float16, dtypes.bfloat16, dtypes.float32),
        }

    def render(self, uops: list[Any]) -> str:
        """Printed kernel IR of linearized UOps, with the options of the target."""
        kernel, _ = uops_to_kernel_ir(uops)
        return LoadedKernel.source(kernel, TinytpuOptions.parse(self.target.arch))


class TINYTPUProgram(HostProgram):
    """A compiled kernel that runs on buffers in external memory."""

    def load(self, lib: bytes) -> None:
        """Read the printed kernel."""
        self.kernel = LoadedKernel(lib.decode())

    def run(self, buffers: Sequence[memoryview], values: Sequence[int]) -> float:
        """Run once; the result is the time that the machine needs (s)."""
        result = self.kernel.run(buffers, values)
        if shows_kernels():
            print(
                f"    tinytpu {self.kernel.kernel.name}: {result.cycles:,} cycles ({self.kernel.options.engine})"
            )
        return result.cycles / (self.kernel.options.clock_mhz * 1e6)


class _ImageAllocator(HostMemory):
    """Buffers in external memory; no view of them is given out, since freed rows are used again."""

    def _alloc(self, size: int, options: Any) -> memoryview:
        return image().take(size)

    def _free(self, opaque: memoryview, options: Any) -> None:
        image().give_back(opaque)

    def _copyin(self, dest: memoryview, src: memoryview) -> None:
        super()._copyin(dest, src)
        image().wrote(dest)

    def _map(self, buf: memoryview) -> memoryview:
        image().share(buf)
        return buf


class TINYTPUDevice(HostDevice):
    """``Tensor(..., device="TINYTPU")``, ``DEV=TINYTPU`` or ``DEV=TINYTPU::engine=verilator``."""

    def __init__(self, device: str) -> None:
        super().__init__(device, TINYTPURenderer, TINYTPUProgram, _ImageAllocator)
