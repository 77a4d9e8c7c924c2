"""What registers hold before a run: hardware keeps their values from the run before, the first one finds zeros."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tg2hdl_ir import DType, IROp, IRRegLoad, KernelIR, operands, values_below

__all__ = ["telling_registers"]

Array = npt.NDArray[Any]


def telling_registers(kernel: KernelIR, held: Mapping[int, Array]) -> dict[int, Array]:
    """Contents with which a run of a planned kernel shows that it reads a register before it writes it.

    A register that a run leaves at zero is as it was before the first run, and may be read.  Nothing may depend on
    any other one: it gets the end of its type that a sum or an extremum does not hide.

    Parameters
    ----------
    kernel : KernelIR
    held : mapping of int to ndarray
        What registers hold after a run.
    """
    least = {s.reg for op in _values(kernel) if isinstance(op, IROp) and op.op == "min" for s in _loads(op)}
    found = {}
    for meta in kernel.registers:
        if meta.idx in held:
            array = held[meta.idx]
            found[meta.idx] = np.where(array == 0, array, _end(meta.dtype, meta.idx in least))
    return found


def _values(kernel: KernelIR) -> list[Any]:
    return list(values_below([v for s in kernel.loop_tree.statements() for v in operands(s)]))


def _loads(op: IROp) -> list[IRRegLoad]:
    """Registers that an extremum reads, also as one of two choices."""
    below = [*op.srcs, *(s for o in op.srcs if isinstance(o, IROp) and o.op == "where" for s in o.srcs)]
    return [value for value in below if isinstance(value, IRRegLoad)]


def _end(dtype: DType, is_least: bool) -> Any:
    """A very small or large number of a type."""
    if dtype.is_bool:
        return np.True_
    if not dtype.is_float:
        return dtype.numpy().type(dtype.min_value if is_least else dtype.max_value)
    # The exponent of all ones is that of infinities.
    bits = np.array([(1 << dtype.exponent_bits) - 2], np.uint64) << np.uint64(dtype.fraction_bits)
    large = dtype.bits_to_array(bits)[0]
    return -large if is_least else large
