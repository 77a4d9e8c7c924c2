"""Compile any tinygrad program to FPGA hardware.

>>> import numpy as np
>>> import tg2hdl
>>> acc = tg2hdl.compile(lambda x: x + 1, np.zeros(3, np.int32))
>>> acc.golden(np.arange(3, dtype=np.int32))
array([1, 2, 3], dtype=int32)
"""

from typing import Any

import tg2hdl_device_finder
from tg2hdl_ir.lazy import lazy_face

# A program may make tensors before it compiles one.
tg2hdl_device_finder.install()

# Loaded on demand: the command line answers without tinygrad and Amaranth.
__all__, _loaded, _names = lazy_face(__name__)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version  # imports much, which Ctrl-C could end

        return version("tg2hdl")
    return _loaded(name)


def __dir__() -> list[str]:
    return sorted({*_names(), "__version__"})
