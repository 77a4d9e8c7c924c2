"""A whole program: kernels in order, and the buffers that they share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from tg2hdl_ir.dtype import DType
from tg2hdl_ir.nodes import IRVariable, KernelIR

__all__ = ["KernelCall", "ProgramBuffer", "ProgramIR"]


@dataclass(frozen=True, eq=False)
class ProgramBuffer:
    """A buffer of the program.

    Parameters
    ----------
    name : str
        Unique name, e.g. ``x``, ``w1``, ``temp0`` or ``output``.
    dtype : DType
    shape : tuple of int
        Logical shape in C order; kernels see ``prod(shape)`` elements.
    role : {"input", "weight", "temporary", "output"}
        ``input`` comes from the host on each call, ``weight`` is known at compile time, ``output`` is read back.
    initial : ndarray, optional
        Contents of a weight, or of a state buffer that is updated in place; flat, in numpy storage of `dtype`.
    """

    name: str
    dtype: DType
    shape: tuple[int, ...]
    role: str
    initial: npt.NDArray[Any] | None = None

    @property
    def depth(self) -> int:
        """Number of elements."""
        depth = 1
        for size in self.shape:
            depth *= size
        return depth


@dataclass(frozen=True, eq=False)
class KernelCall:
    """One execution of a kernel: its buffer slot `i` is program buffer ``buffers[i]``.

    Slots are in the order of `kernel.buffers`.
    """

    kernel: KernelIR
    buffers: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class ProgramIR:
    """Kernels in execution order over shared buffers; `outputs` are indices of the results, first the main one."""

    name: str
    buffers: tuple[ProgramBuffer, ...]
    calls: tuple[KernelCall, ...]
    outputs: tuple[int, ...]
    variables: tuple[IRVariable, ...] = ()
