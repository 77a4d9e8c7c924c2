"""The tinygrad renderer of the device HDL: its output is printed kernel IR."""

from __future__ import annotations

from typing import Any

from tg2hdl_backend.device_options import DeviceOptions
from tg2hdl_backend.kernel_runner import KernelRunner
from tg2hdl_backend.tinygrad_adapter.renderer import MappedRenderer, SequentialCompiler
from tg2hdl_backend.tinygrad_adapter.uop_to_ir import uops_to_kernel_ir

__all__ = ["HDLCompiler", "HDLRenderer"]


class HDLCompiler(SequentialCompiler):
    """Plans the hardware in tinygrad's compile step: in its worker processes, if there are several kernels."""

    def compile(self, src: str) -> bytes:
        """Return the source, and leave the plan in the cache if hardware is simulated."""
        KernelRunner.from_source(src).prepare()
        return src.encode()


class HDLRenderer(MappedRenderer):
    """Renders linearized UOps as printed kernel IR.

    Parameters
    ----------
    target : Target, optional
        tinygrad's target; its `arch` carries the device options.
    """

    compiler = HDLCompiler()

    def render(self, uops: list[Any]) -> str:
        """Printed kernel IR of linearized UOps, with the options of the target."""
        kernel, _ = uops_to_kernel_ir(uops)
        return KernelRunner.source(kernel, DeviceOptions.parse(self.target.arch))
