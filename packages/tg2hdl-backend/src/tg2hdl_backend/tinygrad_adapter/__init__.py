"""The only package that uses tinygrad's internals."""

from tg2hdl_backend.tinygrad_adapter.buffer_info import BufferInfo, analyze_buffers
from tg2hdl_backend.tinygrad_adapter.capture import CapturedProgram, capture
from tg2hdl_backend.tinygrad_adapter.corrections import correct_tinygrad
from tg2hdl_backend.tinygrad_adapter.custom_op import custom_op
from tg2hdl_backend.tinygrad_adapter.linearize import linearize
from tg2hdl_backend.tinygrad_adapter.model_inputs import TensorSpec, example_values
from tg2hdl_backend.tinygrad_adapter.own_result import own_result, reference_device
from tg2hdl_backend.tinygrad_adapter.schedule import schedule_of
from tg2hdl_backend.tinygrad_adapter.uop_table import format_uops, pretty_print_uops
from tg2hdl_backend.tinygrad_adapter.uop_to_ir import uop_to_ir, uops_to_kernel_ir

__all__ = [
    "BufferInfo",
    "CapturedProgram",
    "TensorSpec",
    "analyze_buffers",
    "capture",
    "custom_op",
    "example_values",
    "format_uops",
    "linearize",
    "own_result",
    "pretty_print_uops",
    "reference_device",
    "schedule_of",
    "uop_to_ir",
    "uops_to_kernel_ir",
]

correct_tinygrad()
