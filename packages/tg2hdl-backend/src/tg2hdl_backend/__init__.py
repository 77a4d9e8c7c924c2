"""Connects tg2hdl to tinygrad: capture, compile and simulate tinygrad programs as hardware."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import tg2hdl_device_finder
from tg2hdl_backend.tinygrad_adapter import (
    BufferInfo,
    CapturedProgram,
    TensorSpec,
    analyze_buffers,
    capture,
    example_values,
    format_uops,
    linearize,
    own_result,
    pretty_print_uops,
    reference_device,
    schedule_of,
    uop_to_ir,
    uops_to_kernel_ir,
)
from tg2hdl_ir.errors import ToolMissingError

if TYPE_CHECKING:
    from tg2hdl_backend.bench import BenchResult, run_bench
    from tg2hdl_backend.hdl_renderer import HDLRenderer
    from tg2hdl_backend.kernel_simulation import compile_kernel, simulate_kernel
    from tg2hdl_backend.onnx import OnnxModel
    from tg2hdl_backend.schedule_compiler import (
        KernelSpec,
        compile_model,
        compile_top_module,
        count_cycles_from_schedule,
    )
    from tg2hdl_backend.tinygrad_adapter.tensor_function import TensorFunction
    from tg2hdl_backend.tinygrad_adapter.tensor_graph import tensor_graph
    from tg2hdl_backend.top_simulation import simulate_top

__all__ = [
    "BenchResult",
    "BufferInfo",
    "CapturedProgram",
    "HDLRenderer",
    "KernelSpec",
    "OnnxModel",
    "TensorFunction",
    "TensorSpec",
    "analyze_buffers",
    "capture",
    "compile_kernel",
    "compile_model",
    "compile_top_module",
    "count_cycles_from_schedule",
    "example_values",
    "format_uops",
    "linearize",
    "own_result",
    "pretty_print_uops",
    "reference_device",
    "run_bench",
    "schedule_of",
    "simulate_kernel",
    "simulate_top",
    "tensor_graph",
    "uop_to_ir",
    "uops_to_kernel_ir",
]

# Loaded on demand: a program on the device HDL that only computes must not wait for Amaranth.
_OWNERS = {
    "BenchResult": "bench",
    "HDLRenderer": "hdl_renderer",
    "OnnxModel": "onnx",
    "KernelSpec": "schedule_compiler",
    "TensorFunction": "tinygrad_adapter.tensor_function",
    "compile_kernel": "kernel_simulation",
    "compile_model": "schedule_compiler",
    "compile_top_module": "schedule_compiler",
    "count_cycles_from_schedule": "schedule_compiler",
    "run_bench": "bench",
    "simulate_kernel": "kernel_simulation",
    "simulate_top": "top_simulation",
    "tensor_graph": "tinygrad_adapter.tensor_graph",
}

tg2hdl_device_finder.install()


def __getattr__(name: str) -> Any:
    if name not in _OWNERS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{_OWNERS[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name != "onnx":
            raise
        raise ToolMissingError(
            "ONNX files are read by the package onnx, which is not installed",
            hint='pip install "tg2hdl[onnx]"',
        ) from None
