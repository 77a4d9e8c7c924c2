"""tinygrad's own interpreter (its PYTHON device) as an independent reference for linearized UOps."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from tinygrad import device
from tinygrad.helpers import Target
from tinygrad.runtime.ops_python import PythonProgram
from tinygrad.uop.ops import UOp

__all__ = ["interpret", "interprets"]


def interprets(uops: Sequence[UOp]) -> bool:
    """Whether the interpreter can run these UOps: before Python 3.12 it has no half."""
    return sys.version_info >= (3, 12) or not any(getattr(u.dtype, "name", "") == "half" for u in uops)


def interpret(
    uops: Sequence[UOp], arrays: Sequence[npt.NDArray[Any]], values: Sequence[int] = ()
) -> list[npt.NDArray[Any]]:
    """Run linearized UOps.

    Parameters
    ----------
    uops : sequence of UOp
    arrays : sequence of ndarray
        Flat contents of the global buffers, in slot order; they stay unchanged.
    values : sequence of int
        Values of the run-time variables, in tinygrad's order.

    Returns
    -------
    list of ndarray
        Contents of all buffers afterwards.
    """
    copies = [np.array(a, copy=True, order="C") for a in arrays]
    memories = [memoryview(a.view(np.uint8)) for a in copies]
    _program(uops)(*memories, vals=tuple(values))
    return copies


def _program(uops: Sequence[UOp]) -> Any:
    if hasattr(device, "TinyELF"):
        elf = device.TinyELF(pickle.dumps(list(uops)), "kernel", Target("PYTHON"), ())
        return PythonProgram(None, elf)
    position = {uop: n for n, uop in enumerate(uops)}
    listing = [(u.op, u.dtype, [position[s] for s in u.src], u.arg) for u in uops]
    return PythonProgram("kernel", pickle.dumps(listing))
