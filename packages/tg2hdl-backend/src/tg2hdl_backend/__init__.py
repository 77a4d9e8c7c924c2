"""tinygrad glue of tg2hdl: capture, compile and simulate tinygrad programs as hardware."""

import tg2hdl_device_finder
from tg2hdl_backend.tinygrad_adapter import (
    BufferInfo,
    CapturedProgram,
    HDLRenderer,
    TensorSpec,
    analyze_buffers,
    capture,
    ensure_default_device,
    format_uops,
    linearize,
    pretty_print_uops,
    uop_to_ir,
    uops_to_kernel_ir,
)

__all__ = [
    "BufferInfo",
    "CapturedProgram",
    "HDLRenderer",
    "TensorSpec",
    "analyze_buffers",
    "capture",
    "format_uops",
    "linearize",
    "pretty_print_uops",
    "uop_to_ir",
    "uops_to_kernel_ir",
]

tg2hdl_device_finder.install()
ensure_default_device()
