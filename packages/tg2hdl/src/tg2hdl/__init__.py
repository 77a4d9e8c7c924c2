"""Compile any tinygrad program to FPGA hardware.

>>> import numpy as np
>>> import tg2hdl
>>> acc = tg2hdl.compile(lambda x: x + 1, np.zeros(3, np.int32))
>>> acc.golden(np.arange(3, dtype=np.int32))
array([1, 2, 3], dtype=int32)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tg2hdl_device_finder
from tg2hdl_ir.lazy import lazy_names

if TYPE_CHECKING:
    from tg2hdl.accelerator import Accelerator
    from tg2hdl.compile_model import compile_model_to_hardware as compile
    from tg2hdl.exploration import Exploration, explore
    from tg2hdl.quantization import quantize
    from tg2hdl.quantized_model import QuantizedModel, integer_model
    from tg2hdl.results import Cycles, KernelSummary, SimulationResult
    from tg2hdl.session import Session
    from tg2hdl.splitting import SplitModel, split
    from tg2hdl.width_search import search_widths
    from tg2hdl_backend import BenchResult, custom_op, run_bench
    from tg2hdl_host import connect
    from tg2hdl_ir import Tg2hdlError
    from tg2hdl_top import CompileOptions, Loop, MemoryModel, SdramModel

__all__ = [
    "Accelerator",
    "BenchResult",
    "CompileOptions",
    "Cycles",
    "Exploration",
    "KernelSummary",
    "Loop",
    "MemoryModel",
    "QuantizedModel",
    "SdramModel",
    "Session",
    "SimulationResult",
    "SplitModel",
    "Tg2hdlError",
    "compile",
    "connect",
    "custom_op",
    "explore",
    "integer_model",
    "quantize",
    "run_bench",
    "search_widths",
    "split",
]

__version__: str

# A program may make tensors before it compiles one.
tg2hdl_device_finder.install()

# Loaded on demand: the command line answers without tinygrad and Amaranth.
_loaded, _names = lazy_names(
    __name__,
    {
        ".accelerator": ("Accelerator",),
        ".compile_model": ("compile_model_to_hardware as compile",),
        ".exploration": ("Exploration", "explore"),
        ".quantization": ("quantize",),
        ".quantized_model": ("QuantizedModel", "integer_model"),
        ".results": ("Cycles", "KernelSummary", "SimulationResult"),
        ".session": ("Session",),
        ".splitting": ("SplitModel", "split"),
        ".width_search": ("search_widths",),
        "tg2hdl_backend": ("BenchResult", "custom_op", "run_bench"),
        "tg2hdl_host": ("connect",),
        "tg2hdl_ir": ("Tg2hdlError",),
        "tg2hdl_top": ("CompileOptions", "Loop", "MemoryModel", "SdramModel"),
    },
)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version  # imports much, which Ctrl-C could end

        return version("tg2hdl")
    return _loaded(name)


def __dir__() -> list[str]:
    return sorted({*_names(), "__version__"})
