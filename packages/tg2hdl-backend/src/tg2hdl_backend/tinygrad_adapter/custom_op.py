"""An op of a plugin in a tinygrad program, by its name."""

from __future__ import annotations

from typing import Any

import numpy as np
from tinygrad import Tensor, dtypes
from tinygrad.dtype import to_dtype
from tinygrad.uop.ops import Ops, UOp

from tg2hdl_ir import UnsupportedError, registry

__all__ = ["custom_op"]

# tinygrad makes loads, gates and single lanes only of what its own operations read, and a cast to a wider type is one
# that it never drops. The operand is cast back where kernels are captured.
_WIDER = {
    dtypes.bool: dtypes.uint8,
    dtypes.uint8: dtypes.uint16,
    dtypes.uint16: dtypes.uint32,
    dtypes.uint32: dtypes.uint64,
    dtypes.int8: dtypes.int16,
    dtypes.int16: dtypes.int32,
    dtypes.int32: dtypes.int64,
    dtypes.float16: dtypes.float32,
    dtypes.bfloat16: dtypes.float32,
    dtypes.float32: dtypes.float64,
}


def custom_op(name: str, *operands: Tensor, dtype: Any = None) -> Tensor:
    """Apply an op of a plugin to tensors, element by element; the devices of tinygrad itself do not have it.

    Parameters
    ----------
    name : str
        Of an op that a plugin registers with `tg2hdl_ops`, such as ``posit.add``.
    operands : Tensor
        As many as the op has, of at most 32 bits; shapes are broadcast, types are not changed.
    dtype : tinygrad dtype or str, optional
        Of the result: that of the first operand unless it is given.

    Raises
    ------
    UnsupportedError
        For an op that no plugin has, a wrong number of operands, operands of 64 bits, or tinygrad 0.13.
    """
    definition, where = registry().op(name), f"custom_op({name!r})"
    if len(operands) != definition.arity:
        raise UnsupportedError(
            f"{len(operands)} operands for an op of {definition.arity}",
            where=where,
            hint="pass a tensor for each operand",
        )
    for operand in operands:
        if operand.dtype not in _WIDER:
            raise UnsupportedError(
                f"an operand of {operand.dtype.name}", where=where, hint="use a type of at most 32 bits"
            )
    result = operands[0].dtype if dtype is None else to_dtype(dtype)
    shape = np.broadcast_shapes(*(operand.shape for operand in operands))
    sources = tuple(operand.expand(shape).cast(_WIDER[operand.dtype]).uop for operand in operands)
    value = UOp(Ops.CUSTOMI, result, sources, (name, *(operand.dtype for operand in operands)))
    if _shapeless(value):
        raise UnsupportedError(
            "this version of tinygrad gives an op of a plugin no shape", where=where, hint="use tinygrad 0.14"
        )
    return Tensor(value)


def _shapeless(value: UOp) -> bool:
    try:
        return value.shape is None
    except RuntimeError:
        return True
