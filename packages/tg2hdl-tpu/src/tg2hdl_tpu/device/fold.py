"""Reductions that may be computed apart: a register, an operation and a term."""

from __future__ import annotations

from dataclasses import dataclass

from tg2hdl_ir import DType, IRConst, IROp, IRRegLoad, IRRegStore, IRValue
from tg2hdl_tpu.device.arithmetic import simple_operation
from tg2hdl_tpu.isa import REDUCE

__all__ = ["NEUTRAL", "RegisterFold", "Unfit", "fold_of"]

_LOWEST, _HIGHEST = -(1 << 31), (1 << 31) - 1
#: Neutral element of each operation.
NEUTRAL = {
    "add": 0,
    "max": _LOWEST,
    "min": _HIGHEST,
    "maxu": 0,
    "minu": -1,
    "mul": 1,
    "or": 0,
    "and": -1,
    "xor": 0,
}


class Unfit(Exception):
    """A kernel that needs the general way."""


@dataclass(frozen=True)
class RegisterFold:
    """``register = op(register, term)`` for all iterations, from `first` on.

    Parameters
    ----------
    op : str
        Of the vector unit.
    term : IRValue
    first : IRConst
    dtype : DType
    """

    op: str
    term: IRValue
    first: IRConst
    dtype: DType

    @property
    def way(self) -> str:
        """``reduce`` by the machine's reduction, ``tree`` of operations, or ``chain`` in the order of the loops."""
        if self.op in REDUCE:
            return "reduce"
        return "chain" if self.op in ("fadd", "fmul") else "tree"


def fold_of(store: IRRegStore, first: IRConst) -> RegisterFold | None:
    """The reduction that the statement of a loop is.

    Parameters
    ----------
    store : IRRegStore
        The only statement of the loop that writes the register.
    first : IRConst
        Value of the register before the loop.
    """
    value = store.value
    if not isinstance(value, IROp) or (value.dtype.is_float and value.dtype != DType.FP32):
        return None
    if value.op == "mulacc" and _reads(value.srcs[2], store):
        return RegisterFold("add", IROp("mul", value.dtype, value.srcs[:2]), first, value.dtype)
    if len(value.srcs) != 2 or any(s.dtype != value.dtype for s in value.srcs):
        return None
    read = [_reads(s, store) for s in value.srcs]
    op = simple_operation(value.op, value.dtype.kind)
    if sum(read) != 1 or op is None:
        return None
    if value.dtype.is_bool:
        op = {"or": "max", "and": "min"}.get(op)
    elif value.dtype.bit_width < 32:
        op = {"maxu": "max", "minu": "min"}.get(op, op) if op != "mul" else None
    if op in ("fmax", "fmin") and not read[0]:
        return None  # a NaN would count
    if op not in (*NEUTRAL, "fmax", "fmin", "fadd", "fmul"):
        return None
    return RegisterFold(op, value.srcs[read.index(False)], first, value.dtype)


def _reads(value: IRValue, store: IRRegStore) -> bool:
    return isinstance(value, IRRegLoad) and value.reg == store.reg
