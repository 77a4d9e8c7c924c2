"""The tinygrad renderer of sequential hardware: its output is printed kernel IR."""

from __future__ import annotations

from typing import Any

from tinygrad.device import Compiler
from tinygrad.dtype import DType as TinygradDType
from tinygrad.dtype import dtypes
from tinygrad.helpers import Target
from tinygrad.renderer import Renderer
from tinygrad.uop.ops import Ops, UOp

from tg2hdl_backend.device_options import DeviceOptions
from tg2hdl_backend.kernel_runner import KernelRunner
from tg2hdl_backend.tinygrad_adapter.operations import NATIVE_OPERATIONS
from tg2hdl_backend.tinygrad_adapter.uop_to_ir import uops_to_kernel_ir
from tg2hdl_ir.dtype import DType
from tg2hdl_ir.errors import UnsupportedError

__all__ = ["HDLCompiler", "HDLRenderer"]


def _never_called(*operands: str) -> str:
    raise NotImplementedError("code_for_op only names the ops that hardware has")


class HDLCompiler(Compiler):
    """Plans the hardware where tinygrad compiles: in its worker processes, when there are several kernels."""

    def compile(self, src: str) -> bytes:
        """Return the source; a plan that simulated hardware needs is in the cache afterwards."""
        KernelRunner.from_source(src).prepare()
        return src.encode()


class HDLRenderer(Renderer):
    """Asks tinygrad for plain loops over flat buffers: no work groups, no shared memory, no vectors.

    Parameters
    ----------
    target : Target, optional
        tinygrad's target; its `arch` carries the device options.
    """

    device = "HDL"
    has_local = False
    has_shared = False
    supports_float4 = False
    global_max: tuple[int, ...] | None = None
    local_max: tuple[int, ...] | None = None
    compiler = HDLCompiler()
    code_for_op: dict[Ops, Any] = dict.fromkeys(NATIVE_OPERATIONS, _never_called)

    def __init__(self, target: Target | None = None) -> None:
        super().__init__(target or Target("HDL"))

    def supported_dtypes(self) -> set[TinygradDType]:
        """Types that hardware stores and computes natively."""
        return {d for d in dtypes.all if _has_counterpart(d)}

    def render(self, uops: list[UOp]) -> str:
        """Printed kernel IR of linearized UOps, with the options of the target."""
        kernel, _ = uops_to_kernel_ir(uops)
        return KernelRunner.source(kernel, DeviceOptions.parse(self.target.arch))


def _has_counterpart(dtype: TinygradDType) -> bool:
    try:
        DType.from_tinygrad(dtype)
    except UnsupportedError:
        return False
    return True
