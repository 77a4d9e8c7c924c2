"""tinygrad's own interpreter (its PYTHON device) as an independent reference for linearized UOps."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from tinygrad import device
from tinygrad.dtype import truncate
from tinygrad.helpers import Target
from tinygrad.runtime.ops_python import PythonProgram
from tinygrad.uop.ops import Ops, UOp

__all__ = ["interpret", "interprets"]


def interprets(uops: Sequence[UOp]) -> bool:
    """Whether the interpreter can run these UOps: before Python 3.12 it has no half."""
    return sys.version_info >= (3, 12) or not any(getattr(u.dtype, "name", "") == "half" for u in uops)


def interpret(
    uops: Sequence[UOp], arrays: Sequence[npt.NDArray[Any]], values: Sequence[int] = ()
) -> list[npt.NDArray[Any]] | None:
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
    list of ndarray or None
        Contents of all buffers afterwards; None when the interpreter cannot compute it: the integer part of
        infinity, or an element outside a buffer, which a kernel reads and then does not choose.
    """
    copies = [np.array(a, copy=True, order="C") for a in arrays]
    memories = [a.view(np.uint8).data for a in copies]
    try:
        _program(uops)(*memories, vals=tuple(values))
    except (OverflowError, ValueError, IndexError) as error:
        if "to integer" not in str(error) and "load out of bounds" not in str(error):
            raise
        return None
    return copies


def _literal(uop: UOp) -> Any:
    """Argument of a UOp; float literals rounded to their type, which this interpreter of 0.13 forgets."""
    rounded = truncate.get(uop.dtype) if uop.op is Ops.CONST and isinstance(uop.arg, float) else None
    return uop.arg if rounded is None else rounded(uop.arg)


def _program(uops: Sequence[UOp]) -> Any:
    build: Any = PythonProgram  # 0.13 takes a name and bytes, 0.14 a device and an object
    if hasattr(device, "TinyELF"):
        elf = device.TinyELF(pickle.dumps(list(uops)), "kernel", Target("PYTHON"), ())
        return build(None, elf)
    position = {uop: n for n, uop in enumerate(uops)}
    listing = [(u.op, u.dtype, [position[s] for s in u.src], _literal(u)) for u in uops]
    return build("kernel", pickle.dumps(listing))
