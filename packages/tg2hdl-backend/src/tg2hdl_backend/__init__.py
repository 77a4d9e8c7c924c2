"""Connects tg2hdl to tinygrad: capture, compile and simulate tinygrad programs as hardware."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tg2hdl_device_finder
from tg2hdl_backend.tinygrad_adapter import (
    BufferInfo,
    CapturedProgram,
    TensorSpec,
    analyze_buffers,
    capture,
    custom_op,
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
from tg2hdl_ir.lazy import lazy_names

if TYPE_CHECKING:
    from tg2hdl_backend.bench import BenchResult, run_bench
    from tg2hdl_backend.compat import (
        KernelSpec,
        compile_kernel,
        compile_model,
        compile_top_module,
        count_cycles_from_schedule,
        simulate_kernel,
        simulate_top,
    )
    from tg2hdl_backend.cycles import Cycles
    from tg2hdl_backend.hdl_renderer import HDLRenderer
    from tg2hdl_backend.onnx import OnnxModel
    from tg2hdl_backend.runner import Run, Runner
    from tg2hdl_backend.tinygrad_adapter.tensor_function import TensorFunction
    from tg2hdl_backend.tinygrad_adapter.tensor_graph import tensor_graph

__all__ = [
    "BenchResult",
    "BufferInfo",
    "CapturedProgram",
    "Cycles",
    "HDLRenderer",
    "KernelSpec",
    "OnnxModel",
    "Run",
    "Runner",
    "TensorFunction",
    "TensorSpec",
    "analyze_buffers",
    "capture",
    "compile_kernel",
    "compile_model",
    "compile_top_module",
    "count_cycles_from_schedule",
    "custom_op",
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

tg2hdl_device_finder.install()

# Loaded on demand: a program on the device HDL that only computes must not wait for Amaranth.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        ".bench": ("BenchResult", "run_bench"),
        ".compat": (
            "KernelSpec",
            "compile_kernel",
            "compile_model",
            "compile_top_module",
            "count_cycles_from_schedule",
            "simulate_kernel",
            "simulate_top",
        ),
        ".cycles": ("Cycles",),
        ".hdl_renderer": ("HDLRenderer",),
        ".onnx": ("OnnxModel",),
        ".runner": ("Run", "Runner"),
        ".tinygrad_adapter.tensor_function": ("TensorFunction",),
        ".tinygrad_adapter.tensor_graph": ("tensor_graph",),
    },
)
