"""Compile any tinygrad program to FPGA hardware.

>>> import numpy as np
>>> import tg2hdl
>>> acc = tg2hdl.compile(lambda x: x + 1, np.zeros(3, np.int32))
>>> acc.golden(np.arange(3, dtype=np.int32))
array([1, 2, 3], dtype=int32)
"""

from __future__ import annotations

import importlib
import importlib.metadata
from typing import TYPE_CHECKING, Any

import tg2hdl_device_finder

if TYPE_CHECKING:
    from tg2hdl.accelerator import Accelerator
    from tg2hdl.compile_model import compile_model_to_hardware as compile
    from tg2hdl.quantization import quantize
    from tg2hdl.quantized_model import QuantizedModel, integer_model
    from tg2hdl.results import Cycles, KernelSummary, SimulationResult
    from tg2hdl.session import Session
    from tg2hdl.width_search import search_widths
    from tg2hdl_backend import BenchResult, run_bench
    from tg2hdl_host import connect
    from tg2hdl_ir.errors import Tg2hdlError
    from tg2hdl_top import CompileOptions, MemoryModel, SdramModel

__all__ = [
    "Accelerator",
    "BenchResult",
    "CompileOptions",
    "Cycles",
    "KernelSummary",
    "MemoryModel",
    "QuantizedModel",
    "SdramModel",
    "Session",
    "SimulationResult",
    "Tg2hdlError",
    "compile",
    "connect",
    "integer_model",
    "quantize",
    "run_bench",
    "search_widths",
]

__version__ = importlib.metadata.version("tg2hdl")

# Loaded on demand: the command line answers without tinygrad and Amaranth.
_OWNERS = {
    "Accelerator": "tg2hdl.accelerator",
    "BenchResult": "tg2hdl_backend",
    "CompileOptions": "tg2hdl_top",
    "Cycles": "tg2hdl.results",
    "KernelSummary": "tg2hdl.results",
    "MemoryModel": "tg2hdl_top",
    "SdramModel": "tg2hdl_top",
    "QuantizedModel": "tg2hdl.quantized_model",
    "Session": "tg2hdl.session",
    "SimulationResult": "tg2hdl.results",
    "Tg2hdlError": "tg2hdl_ir.errors",
    "connect": "tg2hdl_host",
    "integer_model": "tg2hdl.quantized_model",
    "quantize": "tg2hdl.quantization",
    "run_bench": "tg2hdl_backend",
    "search_widths": "tg2hdl.width_search",
}

# A program may make tensors before it compiles one.
tg2hdl_device_finder.install()


def __getattr__(name: str) -> Any:
    if name == "compile":
        from tg2hdl.compile_model import compile_model_to_hardware

        return compile_model_to_hardware
    if name not in _OWNERS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_OWNERS[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
