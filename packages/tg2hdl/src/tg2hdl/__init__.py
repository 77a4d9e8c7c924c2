"""Compile any tinygrad program to FPGA hardware.

>>> import numpy as np
>>> import tg2hdl
>>> acc = tg2hdl.compile(lambda x: x + 1, np.zeros(3, np.int32))
>>> acc.golden(np.arange(3, dtype=np.int32))
array([1, 2, 3], dtype=int32)
"""

import importlib.metadata

from tg2hdl.accelerator import Accelerator, Session
from tg2hdl.accelerator import compile_model_to_hardware as compile
from tg2hdl.quantize import QuantizedModel, quantize
from tg2hdl.results import Cycles, KernelSummary, SimulationResult
from tg2hdl_backend import BenchResult, run_bench
from tg2hdl_ir.errors import Tg2hdlError
from tg2hdl_top import CompileOptions

__all__ = [
    "Accelerator",
    "BenchResult",
    "CompileOptions",
    "Cycles",
    "KernelSummary",
    "QuantizedModel",
    "Session",
    "SimulationResult",
    "Tg2hdlError",
    "compile",
    "quantize",
    "run_bench",
]

__version__ = importlib.metadata.version("tg2hdl")
